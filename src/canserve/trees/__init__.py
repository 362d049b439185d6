"""Trees: read-only views over folders, archives and package indexes; a place that looks at the world.

Everything static is read through a ``Tree`` (``tree.py``), so each probe works on every origin.
"""
