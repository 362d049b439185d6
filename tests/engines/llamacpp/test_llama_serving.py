"""Tensor types, vocabularies, projectors, flags, cache types and what else a server can be told."""

from __future__ import annotations

import pytest
from llama_trees import TREE, VOCABULARY, known, read, without

from canserve.facts import Missing

LOOP = """
bool gpt_params_find_arg(int argc, char ** argv, const std::string & arg, gpt_params & params, int & i) {
    if (arg == "-s" || arg == "--seed") {
        if (++i >= argc) { return true; }
        params.seed = std::stoul(argv[i]);
        return true;
    }
    if (arg == "--port") { CHECK_ARG params.port = std::stoi(argv[i]); return true; }
    if (arg == "--no-mmap") { params.use_mmap = false; return true; }
    return false;
}
static ggml_type kv_cache_type_from_str(const std::string & s) {
    if (s == "f32") { return GGML_TYPE_F32; }
    if (s == "q8_0") { return GGML_TYPE_Q8_0; }
    throw std::runtime_error("Invalid cache type: " + s);
}
"""
SERVER = """
static void server_params_parse(int argc, char ** argv, server_params & sparams) {
    for (int i = 1; i < argc; i++) {
        if (arg == "--port") { if (++i >= argc) { break; } sparams.port = argv[i]; }
        else if (arg == "--embedding" || arg == "--embeddings") { params.embedding = true; }
    }
}
"""


def test_tensor_types_with_their_numbers() -> None:
    build = read(TREE)
    assert known(build.gguf_types) == {"F32": 0, "F16": 1, "Q8_0": 8, "Q8_1": 9}
    methods = known(build.quantization)
    assert set(methods) == {"gguf"}
    assert known(methods["gguf"].min_capability) is None


def test_vocabularies() -> None:
    found = known(read(TREE).gguf_vocabularies)
    assert set(found.models) == {"llama", "gpt2", "other"}
    assert found.splits is not None
    assert set(found.splits) == {"default", "llama3", "llama-bpe"}
    old = VOCABULARY.replace("tokenizer_pre", "something").replace("tokenizer_model", "tokenizer_name")
    assert known(read(TREE | {"src/llama-vocab.cpp": old}).gguf_vocabularies).splits is None


def test_projectors() -> None:
    assert known(read(TREE).gguf_projectors).keys() == {"mlp", "qwen2vl_merger"}
    assert known(read(without("tools/mtmd/clip-impl.h")).gguf_projectors) == {}
    assert isinstance(read(TREE | {"tools/mtmd/clip-impl.h": "int a;"}).gguf_projectors, Missing)


def test_declared_options_of_the_server() -> None:
    build = read(TREE)
    flags = known(build.flags)
    assert {name: flag.kind for name, flag in flags.items()} == {
        "--model": "value",
        "--port": "value",
        "--mmap": "switch",
        "--range": "values",
        "--mmproj": "value",
        "--cache-type-k": "value",
        "--reasoning-format": "value",
    }
    assert flags["--model"].aliases == ("-m",)
    assert flags["--mmap"].aliases == ("--no-mmap",)
    assert flags["--cache-type-k"].choices == ("f16", "q8_0")
    syntax = known(build.flag_syntax)
    assert (syntax.underscores, syntax.abbreviations, syntax.dotted) == (True, False, False)
    assert known(build.kv_cache_dtypes) == ("f16", "q8_0")
    assert known(build.reasoning_parsers) == ("deepseek", "none")


def test_one_loop_for_all_programs() -> None:
    tree = without("common/arg.cpp", "common/common.cpp") | {"common/common.cpp": LOOP}
    build = read(tree)
    flags = known(build.flags)
    assert {name: (flag.aliases, flag.kind) for name, flag in flags.items()} == {
        "--seed": (("-s",), "value"),
        "--port": ((), "value"),
        "--no-mmap": ((), "switch"),
    }
    assert known(build.kv_cache_dtypes) == ("f32", "q8_0")
    assert known(build.flag_syntax).underscores is False


def test_the_servers_own_loop() -> None:
    tree = {"llama.cpp": "", "common/common.cpp": LOOP.replace("--port", "--prompt"),
            "examples/server/server.cpp": SERVER}  # fmt: skip
    flags = known(read(tree).flags)
    assert {name: flag.kind for name, flag in flags.items()} == {"--port": "value", "--embedding": "switch"}
    assert flags["--embedding"].aliases == ("--embeddings",)


def test_a_server_whose_flags_have_another_form() -> None:
    for text in ("", "void f() { add_opt(1); }", 'void f() { add_opt(common_arg({"--x"}, "help", g)); }'):
        assert isinstance(read(TREE | {"common/arg.cpp": text}).flags, Missing)
    assert known(read({"llama.cpp": ""}).flags) == {}


def test_speculation_launchers_and_vendors() -> None:
    kinds = 'const std::map<std::string, kind> common_speculative_type_from_name_map = {{"none", A}, {"draft-mtp", B}};'
    build = read(TREE | {"common/speculative.cpp": kinds})
    assert known(build.speculative).keys() == {"draft-mtp"}
    assert known(build.launchers) == ("rpc",)
    assert known(build.vendor_quantization) == {"nvidia": ("gguf",)}
    assert known(read(without("ggml/include/ggml-rpc.h")).launchers) == ()


@pytest.mark.parametrize("flag", ["--verbose-prompt", "-sys"])
def test_what_is_for_other_programs_is_left_out(flag: str) -> None:
    names = {name for one in known(read(TREE).flags).values() for name in (one.name, *one.aliases)}
    assert flag not in names


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("set(TARGET ggml-rpc-server)\nadd_executable(${TARGET} rpc-server.cpp)\n", "ggml-rpc-server"),
        ("set(TARGET rpc-server)\nadd_executable(${TARGET} rpc-server.cpp)\n", "rpc-server"),
        ("# rpc\nadd_executable(rpc-server rpc-server.cpp)\n", "rpc-server"),
    ],
)
def test_what_the_worker_of_other_machines_is_called(text: str, name: str) -> None:
    assert known(read(TREE | {"tools/rpc/CMakeLists.txt": text}).rpc_worker) == name
    assert known(read(TREE | {"examples/rpc/CMakeLists.txt": text}).rpc_worker) == name


def test_a_worker_without_a_name_is_unknown() -> None:
    assert isinstance(read(TREE).rpc_worker, Missing)
    assert isinstance(read(TREE | {"tools/rpc/CMakeLists.txt": "include(other)\n"}).rpc_worker, Missing)
