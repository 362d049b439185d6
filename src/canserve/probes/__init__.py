"""Probes: the places that look at the world and return subjects."""
