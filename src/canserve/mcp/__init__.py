"""The public functions as tools for agents: the Model Context Protocol over a pipe or on loopback.

Answers are bounded: what is long stands there as a reference that the tool ``explain`` follows. Tools that change machines
say what they would run, and run it only where the server was started with ``--allow-changes`` and that very list was approved.
"""
