"""Rules: dated TOML tables with a source for every row; their invariants are checked when they are loaded.

``machines.toml``: profiles of machines. ``cuda_drivers.toml``: CUDA, driver, PTX and torch.
``quantization.toml``: what quantization needs beyond a build's own tables. ``broken.toml``: combinations
known not to work. A wrong table is a bug of this package: loading it raises ``RuleError``.
"""
