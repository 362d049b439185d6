"""Images as trees, never run: their layers, laid over one another."""

SAVED = ("docker-archive:", "oci-archive:", "oci:")
"""How an image on this machine's disk is named, as containers-transports(5) does."""
