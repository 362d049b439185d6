"""Weights per rank: tensors from headers or implied by the config, cut as engines cut them.

``tensors_of(model)`` gives the tensors; ``loading(model)`` what the model alone says about loading them, in
which an engine's memory rules replace what they decide (``dataclasses.replace``); ``rank_weights`` the bytes of
every rank of a layout.
"""
