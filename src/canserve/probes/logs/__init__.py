"""Logs and stack dumps of a deployment: streamed, never held whole."""
