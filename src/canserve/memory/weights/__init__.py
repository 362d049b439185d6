"""Weights per rank: tensors from headers or implied by the config, cut as engines cut them."""
