"""Reports as one HTML page each that needs nothing else: no network, no script, no other file.

The verdict stands first, then the reasons, then figures; evidence is folded. Everything from outside goes through ``text``.
"""
