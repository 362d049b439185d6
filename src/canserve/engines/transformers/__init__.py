"""The transformers library as engines see it: types, classes, importable names, back end tests."""
