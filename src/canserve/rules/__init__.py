"""Rules: dated TOML tables with a source for every row, and an invariant that is checked when they are loaded.

``machines.toml``: profiles of machines. ``cuda_drivers.toml``: CUDA, driver, PTX and torch.
``quantization.toml``: what quantization needs beyond a build's own tables. ``broken.toml``: combinations known
not to work. A wrong table is a bug of this package, so it raises ``RuleError`` when it is loaded.
"""
