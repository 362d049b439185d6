"""A plan in the forms of other tools: pure writers, each from the same deployment as ``up``.

``exported`` is what is written; ``carried`` puts it into a file as one line, and reads it back; ``forms`` lists the
writers. What a form cannot say is a note, in the answer and at the top of the file.
"""
