"""KV cache and recurrent state: bytes of a token, blocks, groups that share a pool, what fits.

``rows`` and ``state`` count bytes, ``spec`` says what one layer keeps, ``groups`` how layers share a paged pool,
``capacity`` what a pool holds. Nothing here knows an engine: the ways in which engines differ are arguments.
"""
