"""Functions that return argv and environment; nothing here runs anything."""
