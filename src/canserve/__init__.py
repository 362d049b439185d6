"""canserve: will this engine build serve this model on these machines?

The public names are loaded on first use, so that ``import canserve`` costs nothing.
"""

__version__ = "0.1.0"
