"""Builds that may be used: what holds them, what would have to travel where, and which is to be tried first."""
