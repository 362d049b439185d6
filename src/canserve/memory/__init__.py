"""Memory of a served model: bytes in, bytes out, one formula a function, each with its source.

What belongs to one engine or release (budget rules, batch defaults) lies with the engine, as data in ``rules``.
"""
