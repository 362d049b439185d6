"""Images as trees, never run: their layers, laid over one another."""

SCHEMES = ("docker-archive:", "oci-archive:", "oci:", "docker://")
"""How an image on disk or in a registry is named, as containers-transports(5) does."""
