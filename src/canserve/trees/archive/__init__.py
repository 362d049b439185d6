"""Archives as trees: wheels (local, or remote by byte ranges) and source distributions."""
