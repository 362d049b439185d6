"""Scripts on machines: one framed, read-only script for each machine and batch, over the OpenSSH binary or here.

``frames`` writes a script and understands its output; ``running`` runs a command within bounds; ``reach`` runs a
script on a machine; ``refusal`` says why one could not be reached. Nothing is installed or written over there.
"""
