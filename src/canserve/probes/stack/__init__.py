"""What an engine stands on, where it was found: one file a group of facts, ``reading`` puts them together.

Names of files and small texts say most of it; versions that only a program or library itself holds are found by
passing over its constants. Nothing is executed.
"""
