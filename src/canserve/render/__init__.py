"""Rendering: pure functions from reports and subjects to text, JSON and Markdown."""
