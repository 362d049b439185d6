"""Preflight: over records, and with a real torch."""
