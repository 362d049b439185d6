"""Small builds written by hand: a few files in SGLang's places, read as a wheel's files would be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from canserve.engines.sglang import SGLang
from canserve.engines.sources import Hole, Sources
from canserve.facts import Cause, Known, Missing
from canserve.subjects.build import Build, Identity, Transformers, Want
from read_builds import as_bytes

UNKNOWN = Missing(Cause.UNREACHED, "not part of this test")

COLLECTOR = """
    import importlib, pkgutil

    def import_model_classes():
        found = {}
        package = importlib.import_module("sglang.srt.models")
        for _, name, ispkg in pkgutil.iter_modules(package.__path__, "sglang.srt.models."):
            if not ispkg:
                try:
                    module = importlib.import_module(name)
                except Exception as e:
                    continue
                if hasattr(module, "EntryClass"):
                    entry = module.EntryClass
                    if isinstance(entry, list):
                        for tmp in entry:
                            assert tmp.__name__ not in found, "Duplicated"
                            found[tmp.__name__] = tmp
                    else:
                        assert entry.__name__ not in found, "Duplicated"
                        found[entry.__name__] = entry
        return found
"""
MODEL = "class {0}:\n    def forward(self, input_ids): ...\n\n\nEntryClass = {0}\n"


def read(
    files: Mapping[str, str | bytes | Missing] | None = None,
    want: Want | None = None,
    *,
    bare: bool = False,
    requires: Sequence[str] = (),
    holes: Sequence[Hole] = (),
) -> Build:
    """Read a build; by default it has a registry and a single model.

    ``files`` lie under ``sglang/srt``; ``bare``: nothing is there but them.
    """
    given: dict[str, str | bytes | Missing] = {}
    if not bare:
        given = {
            "models/registry.py": COLLECTOR,
            "models/llama.py": MODEL.format("LlamaForCausalLM"),
            "server_args.py": 'parser.add_argument("--model-path")\n',
        }
    given |= dict(files or {})
    content = {_path(path): as_bytes(text) for path, text in given.items()}
    sources = Sources("test", content, lambda paths: {path: content[path] for path in paths}, holes)
    engine = SGLang()
    requirement = Known(engine.requirement(requires, "transformers"))
    identity = Identity(
        "test", "sglang", Known("0"), "test", UNKNOWN, UNKNOWN, UNKNOWN, Known(tuple(requires))
    )
    return engine.read(
        sources, identity, Transformers(UNKNOWN, requirement, UNKNOWN), want or Want.everything()
    )


def _path(path: str) -> str:
    return path.removeprefix("../../") if path.startswith("../../") else f"sglang/srt/{path}"
