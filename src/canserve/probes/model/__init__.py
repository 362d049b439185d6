"""Read a model: a Hub id, a folder, a bare config or a GGUF file in; a :class:`Model` of facts out.

Nothing of a model is executed, and no weights travel: configs, tokenizer and template files are read whole,
weight files by their headers only. Broken input is Missing, with a cause, in the field it broke.
"""

from __future__ import annotations

from canserve.probes.model.options import Options
from canserve.probes.model.reading import read_model

__all__ = ["Options", "read_model"]
