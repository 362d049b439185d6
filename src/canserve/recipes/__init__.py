"""Recipes of other tools, read into one value; nothing in them is executed, fetched or expanded by a shell.

``reading.read_recipe`` tells the form and calls its reader in ``forms``; all of them fill one ``draft``.
"""
