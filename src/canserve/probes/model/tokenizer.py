"""Tokenizer, processor and chat templates: which files there are, and what their configs name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from canserve.facts import Evidence, Fact, Known, Missing
from canserve.probes.model.config import code_map
from canserve.probes.model.documents import Unreadable, refuse_pointer
from canserve.probes.model.files import Files
from canserve.subjects.model import Processor, Tokenizer
from canserve.trees.names import printable

MAX_TEMPLATE = 2 << 20
"""Largest template that is read, in bytes; real ones have up to 40 kB."""

_TOKENIZER = re.compile(
    r"tokenizer\.json|tokenizer_config\.json|tokenizer\.model(\.v\d\w*)?|tekken\.json|vocab\.(json|txt|bpe)"
    r"|merges\.txt|spiece\.model|sentencepiece(\.bpe)?\.model|added_tokens\.json|special_tokens_map\.json"
    r"|[\w.-]*\.tiktoken|tiktoken\.model|tokenization_\w+\.py"
)
_PROCESSOR = re.compile(
    r"processor_config\.json|(image_|video_)?preprocessor_config\.json|\w*processing_\w+\.py|\w*processor_\w+\.py"
)
_KINDS = (
    ("fast", r"tokenizer\.json"),
    ("mistral", r"tekken\.json|tokenizer\.model\.v\d\w*"),
    ("tiktoken", r"[\w.-]*\.tiktoken|tiktoken\.model"),
    ("sentencepiece", r"tokenizer\.model|spiece\.model|sentencepiece(\.bpe)?\.model"),
    ("bpe", r"merges\.txt|vocab\.bpe"),
    ("wordpiece", r"vocab\.txt"),
)
"""Kinds, and the file that makes each; the first one that is there counts."""


def read_tokenizer(files: Files) -> Fact[Tokenizer]:
    """The tokenizer's files and class. No file at all is a tokenizer without files, not a missing fact."""
    found = files.matching(lambda name: _TOKENIZER.fullmatch(name) is not None)
    config = files.mapping("tokenizer_config.json")
    if isinstance(found, Missing):
        return found
    if isinstance(config, Missing):
        return config
    for file in found.value:
        if (pointer := _pointer(files, file)) is not None:
            return pointer
    table = config.value or {}
    name = table.get("tokenizer_class")
    if name is not None and not isinstance(name, str):
        odd = Unreadable(f"tokenizer_class is a {type(name).__name__}, not a name")
        return files.unreadable("tokenizer_config.json", odd)
    kind = next(
        (kind for kind, form in _KINDS if any(re.fullmatch(form, file) for file in found.value)), None
    )
    saw = files.seen("tokenizer_config.json", f"tokenizer_class: {printable(name or 'none')}")
    return Known(
        Tokenizer(found.value, name, code_map(table), kind), (*found.evidence, *config.evidence[1:], saw)
    )


def _pointer(files: Files, name: str) -> Missing | None:
    """A vocabulary of about 130 bytes may be a Git LFS pointer; nothing else here would read it."""
    size = files.size(name)
    if size is None or not 100 < size < 200 or name.endswith(".py"):
        return None
    head = files.piece(name, 0, size)
    if isinstance(head, Missing):
        return head
    try:
        refuse_pointer(head)
    except Unreadable as error:
        return files.unreadable(name, error)
    return None


def read_processor(files: Files) -> Fact[Processor | None]:
    """The processor of a multimodal model; ``Known(None)``: looked, there are no processor files."""
    found = files.matching(lambda name: _PROCESSOR.fullmatch(name) is not None)
    if isinstance(found, Missing):
        return found
    configs = [name for name in found.value if name.endswith(".json")]
    if not configs:
        return Known(None, found.evidence)
    name, codes, evidence = None, dict[str, str](), found.evidence
    for file in sorted(configs, key=lambda file: file != "processor_config.json"):
        config = files.mapping(file)
        if isinstance(config, Missing):
            return config
        table = config.value or {}
        evidence += config.evidence
        name = name or _class(table)
        codes = {**code_map(table), **codes}
    return Known(Processor(found.value, name, codes), evidence)


def _class(table: Mapping[str, Any]) -> str | None:
    keys = ("processor_class", "image_processor_type", "feature_extractor_type", "video_processor_type")
    return next((table[key] for key in keys if isinstance(table.get(key), str)), None)


def read_templates(files: Files) -> Fact[Mapping[str, str]]:
    """Chat templates by name, the default one under ``default``; empty: the model has none.

    As transformers and the engines look: ``chat_template.jinja`` and ``additional_chat_templates/`` win over
    the processor's ``chat_template.json``, that over ``tokenizer_config.json`` (a string, or a named list).
    """
    templates: dict[str, str] = {}
    evidence: tuple[Evidence, ...] = ()
    for name in ("tokenizer_config.json", "chat_template.json"):
        config = files.mapping(name)
        if isinstance(config, Missing):
            return config
        evidence += config.evidence
        declared = (config.value or {}).get("chat_template")
        try:
            templates.update(_declared(declared))
        except Unreadable as error:
            return files.unreadable(name, error)
    for name in _template_files(files):
        source = files.read(name, MAX_TEMPLATE)
        if isinstance(source, Missing):
            return source
        evidence += source.evidence
        if source.value is not None:
            key = (
                "default" if name == "chat_template.jinja" else name.rsplit("/", 1)[-1].removesuffix(".jinja")
            )
            try:
                templates[key] = source.value.decode("utf-8")
            except UnicodeDecodeError as error:
                return files.unreadable(name, Unreadable(f"not UTF-8 at byte {error.start}"))
    return Known(templates, evidence)


def _template_files(files: Files) -> list[str]:
    folder = "additional_chat_templates/"
    named = sorted(n for n in files.names if n.startswith(folder) and n.endswith(".jinja"))
    return ["chat_template.jinja", *named[:100]]


def _declared(value: object) -> dict[str, str]:
    """A template, or a list of ``{"name", "template"}``, or a table of them."""
    if value is None:
        return {}
    if isinstance(value, str):
        return {"default": value}
    if isinstance(value, list):
        pairs = [
            (item.get("name"), item.get("template")) if isinstance(item, dict) else (None, None)
            for item in value
        ]
    elif isinstance(value, dict):
        pairs = list(value.items())
    else:
        raise Unreadable(f"chat_template is a {type(value).__name__}, not a text")
    named = {
        name: template for name, template in pairs if isinstance(name, str) and isinstance(template, str)
    }
    if len(named) != len(pairs):
        raise Unreadable("chat_template is a list whose items are not named templates")
    return named


def default_template(templates: Fact[Mapping[str, str]], files: Files) -> Fact[str | None]:
    """The template a chat request uses; ``Known(None)``: there is none under the name ``default``."""
    if isinstance(templates, Missing):
        return templates
    names = ", ".join(printable(name) for name in templates.value) or "none"
    seen = files.seen("chat templates", f"named: {names}")
    return Known(templates.value.get("default"), (*templates.evidence, seen))


def other_templates(templates: Fact[Mapping[str, str]]) -> Fact[Mapping[str, str]]:
    """The templates that are asked for by name."""
    if isinstance(templates, Missing):
        return templates
    rest = {name: text for name, text in templates.value.items() if name != "default"}
    return Known(rest, templates.evidence)
