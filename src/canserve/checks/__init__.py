"""Checks: one file a question, all of them listed in one tuple."""
