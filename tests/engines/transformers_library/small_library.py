"""Small libraries written in the manner of transformers, one a form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import dedent

from canserve.engines.sources import Hole, Sources
from canserve.engines.transformers.reading import Library
from canserve.facts import Missing


def sources(files: Mapping[str, str | bytes], holes: Sequence[Hole] = ()) -> Sources:
    """Files below ``transformers/``; text is dedented."""
    data = {
        f"transformers/{path}": text if isinstance(text, bytes) else dedent(text).encode()
        for path, text in files.items()
    }

    def fetch(paths: Sequence[str]) -> Mapping[str, bytes | Missing]:
        return {path: data[path] for path in paths}

    return Sources("transformers==9.9", data, fetch, holes)


def library(files: Mapping[str, str | bytes], holes: Sequence[Hole] = ()) -> Library:
    return Library(sources(files, holes))


LISTED = {
    "__init__.py": """
        from typing import TYPE_CHECKING
        from .utils import OptionalDependencyNotAvailable, _LazyModule, is_torch_available, is_flax_available
        __version__ = "4.9"
        _import_structure = {"models": [], "models.moth": ["MothConfig", "MothGhost"]}
        _import_structure["cache_utils"] = ["Cache"]
        try:
            if not is_torch_available():
                raise OptionalDependencyNotAvailable()
        except OptionalDependencyNotAvailable:
            from .utils import dummy_pt_objects
            _import_structure["utils.dummy_pt_objects"] = [n for n in dir(dummy_pt_objects) if n[0] != "_"]
        else:
            _import_structure["models.moth"].extend(["MothForCausalLM"])
            _import_structure["cache_utils"] += ["StaticCache"]
        try:
            if not is_flax_available():
                raise OptionalDependencyNotAvailable()
        except OptionalDependencyNotAvailable:
            from .utils import dummy_flax_objects
            _import_structure["utils.dummy_flax_objects"] = [
                name for name in dir(dummy_flax_objects) if not name.startswith("_")
            ]
        else:
            _import_structure["models.moth"].append("FlaxMoth")
        if TYPE_CHECKING:
            from .models.moth import MothConfig, NeverThere
        else:
            import sys
            sys.modules[__name__] = _LazyModule(
                __name__, globals()["__file__"], _import_structure, extra_objects={"__version__": __version__}
            )
        """,
    "cache_utils.py": "class Cache: ...\nclass StaticCache(Cache): ...\n",
    "utils/__init__.py": "from .generic import *\nfrom .hub import cached_file as cached_file\n",
    "utils/generic.py": '__all__ = ["ModelOutput"]\nclass ModelOutput: ...\nclass Hidden: ...\n',
    "utils/hub.py": "def cached_file(): ...\n",
    "utils/dummy_pt_objects.py": "class OnlyWithoutTorch: ...\n",
    "utils/dummy_flax_objects.py": "from ..utils import DummyObject\nclass FlaxMoth: ...\n_hidden = 1\n",
    "models/__init__.py": "from . import moth\n",
    "models/moth/__init__.py": """
        from typing import TYPE_CHECKING
        from ...utils import _LazyModule
        _import_structure = {"configuration_moth": ["MothConfig"], "modeling_moth": ["MothForCausalLM"]}
        if TYPE_CHECKING:
            from .configuration_moth import MothConfig
        else:
            import sys
            sys.modules[__name__] = _LazyModule(__name__, globals()["__file__"], _import_structure)
        """,
    "models/moth/configuration_moth.py": "class MothConfig: ...\n",
    "models/moth/modeling_moth.py": "class MothForCausalLM: ...\n",
}
"""Every name is listed in dicts (to 4.51)."""

COLLECTED = {
    "__init__.py": """
        from typing import TYPE_CHECKING
        from pathlib import Path
        from .utils import _LazyModule
        from .utils.import_utils import define_import_structure
        __version__ = "5.9"
        _import_structure = {"tokenization_utils_tokenizers": ["TokenizersBackend"]}
        if TYPE_CHECKING:
            from .models import *
        else:
            import sys
            import_structure = define_import_structure(Path(__file__).parent / "models", prefix="models")
            import_structure[frozenset({})].update(_import_structure)
            sys.modules[__name__] = _LazyModule(__name__, globals()["__file__"], import_structure)
            def _create_module_alias(alias, target): ...
            _create_module_alias(f"{__name__}.tokenization_utils_fast", ".tokenization_utils_tokenizers")
            for _proc_file in sorted((Path(__file__).parent / "models").rglob("image_processing_*.py")):
                _model = _proc_file.parent.name
                _create_module_alias(f"{__name__}.models.{_model}.{_proc_file.stem}_fast", _proc_file.stem)
        """,
    "tokenization_utils_tokenizers.py": "class TokenizersBackend: ...\n",
    "utils/__init__.py": "",
    "utils/import_utils.py": """
        class _LazyModule:
            def __getattr__(self, name):
                if name.endswith("TokenizerFast"): ...
                if name.endswith("ImageProcessorFast"): ...
                from ..convert_slow_tokenizer import SLOW_TO_FAST_CONVERTERS
        """,
    "convert_slow_tokenizer.py": """
        class MothConverter: ...
        class OwlConverter: ...
        SLOW_TO_FAST_CONVERTERS = {
            "MothTokenizer": MothConverter, "CousinTokenizer": MothConverter, "OwlTokenizer": OwlConverter,
        }
        """,
    "models/__init__.py": """
        from ..utils import _LazyModule
        from ..utils.import_utils import define_import_structure
        import sys
        _file = globals()["__file__"]
        sys.modules[__name__] = _LazyModule(__name__, _file, define_import_structure(_file))
        """,
    "models/moth/__init__.py": """
        from ...utils import _LazyModule
        from ...utils.import_utils import define_import_structure
        import sys
        _file = globals()["__file__"]
        sys.modules[__name__] = _LazyModule(__name__, _file, define_import_structure(_file))
        """,
    "models/moth/configuration_moth.py": '__all__ = ["MothConfig", "MothTextConfig"]\n',
    "models/moth/modeling_moth.py": """
        @requires(backends=("torch",))
        # Copied from somewhere
        class MothForCausalLM: ...
        @requires(
            backends=("vision",)
        )
        @deprecated
        def make_moth(): ...
        class MothHidden: ...
        __all__ = [
            "MothModel",
            'MothOther',
        ]
        """,
    "models/moth/tokenization_moth.py": '__all__ = ["MothTokenizer"]\nclass MothTokenizer: ...\n',
    "models/moth/image_processing_moth.py": """
        def smart_resize(): ...
        class MothImageProcessor: ...
        __all__ = ["MothImageProcessor"]
        """,
    "models/moth/modular_moth.py": '__all__ = ["NotCollected"]\n',
    "models/moth/convert_moth.py": '__all__ = ["NotCollectedEither"]\n',
}
"""Names are collected from the files (from 4.52), former names are still served (from 5.0)."""

FINDER = dict(COLLECTED) | {
    "__init__.py": """
        from pathlib import Path
        import re
        from .utils import _LazyModule
        from .utils.import_utils import define_import_structure
        _import_structure = {"tokenization_utils_tokenizers": ["TokenizersBackend"]}
        _LEGACY_MODULE_ALIASES = {"tokenization_utils_fast": "tokenization_utils_tokenizers"}
        import sys
        import_structure = define_import_structure(Path(__file__).parent / "models", prefix="models")
        sys.modules[__name__] = _LazyModule(__name__, globals()["__file__"], import_structure)
        _LEGACY_FAST_IMAGE_PROCESSOR_MODULE = re.compile(rf"{re.escape(__name__)}[.]models")
        """,
    "models/moth/image_processing_pil_moth.py": "class MothImageProcessorPil: ...\n",
}
"""Former modules are found on demand, where no file of their name exists (from 5.21)."""
