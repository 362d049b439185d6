"""The transformers library as engines see it: types, classes, importable names, back end tests."""

from canserve.engines.transformers.table import merge, read_table

__all__ = ["merge", "read_table"]
