"""One file a question to a machine: a shell snippet of plain tools that changes nothing, and a pure parser.

Every probe's name is that of its section, its fixture and, where it fills one alone, its fact.
"""
