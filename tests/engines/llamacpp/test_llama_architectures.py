"""Which GGUF architectures are served: named, built, and not refused; in every form of the sources."""

from __future__ import annotations

import pytest
from llama_trees import CARRIED, MAPPING, NAMES, REFUSAL, TREE, known, read, without

from canserve.facts import Cause, Missing

GRAPH = """
ggml_cgraph * llama_model::build_graph(const llm_graph_params & params) const {
    std::unique_ptr<llm_graph_context> llm;
    switch (arch) {
        case LLM_ARCH_LLAMA:
        case LLM_ARCH_QWEN3:
            {
                llm = std::make_unique<llm_build_qwen3>(*this, params);
            } break;
        default:
            GGML_ABORT("fatal error");
    }
    return llm->res->get_gf();
}
"""
OLD = """
static std::map<llm_arch, std::string> LLM_ARCH_NAMES = {
    { LLM_ARCH_LLAMA, "llama" }, { LLM_ARCH_FALCON, "falcon" }, { LLM_ARCH_GPTNEOX, "gptneox" },
    { LLM_ARCH_MPT, "mpt" },
};
static struct ggml_cgraph * llama_build_graph(llama_context & lctx, const llama_batch & batch) {
    switch (model.arch) {
        case LLM_ARCH_LLAMA: { result = llm.build_llama(); } break;
        case LLM_ARCH_FALCON: { result = llm.build_falcon(); } break;
        case LLM_ARCH_MPT:
            throw std::runtime_error("not yet");
        default: GGML_ASSERT(false);
    }
}
static void load(llama_context * ctx) { ggml_cgraph * gf = llama_build_graph(*ctx, batch); gguf_init(ctx); }
"""


def test_named_built_and_not_refused() -> None:
    found = known(read(TREE).gguf_architectures)
    assert found is not None
    assert {name: str(at) for name, at in found.items()} == {
        "llama": f"{CARRIED}src/llama-arch.cpp:4",
        "qwen3": f"{CARRIED}src/llama-arch.cpp:6",
    }


def test_a_checkout_is_read_by_its_own_paths() -> None:
    found = known(read(TREE, prefix="").gguf_architectures)
    assert found is not None
    assert found["llama"].file == "src/llama-arch.cpp"


def test_a_graph_chosen_by_a_method() -> None:
    tree = without("src/llama-model.cpp") | {"src/llama-model.cpp": GRAPH}
    assert known(read(tree).gguf_architectures).keys() == {"llama", "qwen3"}  # type: ignore[union-attr]


def test_everything_in_one_file_as_it_was_first() -> None:
    found = known(read({"llama.cpp": OLD, "llama.h": ""}).gguf_architectures)
    assert found is not None
    assert set(found) == {"llama", "falcon"}


def test_refused_only_where_it_is_refused() -> None:
    tree = TREE | {"src/llama.cpp": REFUSAL.replace("throw", "return;")}
    assert "clip" in known(read(tree).gguf_architectures)  # type: ignore[operator]


def test_formats_before_gguf() -> None:
    magic = "#define LLAMA_FILE_MAGIC 'ggjt'\n"
    build = read({"llama.cpp": "int load() { return 1; }", "llama.h": magic})
    assert known(build.gguf_architectures) == {}
    assert known(build.load_formats) == ("ggml",)
    later = read({"llama.cpp": "int load() { return gguf_init(1); }", "llama.h": magic})
    assert isinstance(later.gguf_architectures, Missing)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("src/llama-arch.cpp", "// " + NAMES.replace("\n", "\n// ")),
        ("src/llama-arch.cpp", "static names LLM_ARCH_NAMES = make_names();"),
        ("src/llama-arch.cpp", "static names LLM_ARCH_NAMES = { };"),
        ("src/llama-model.cpp", MAPPING.replace("llama_model_mapping", "another_way")),
        ("src/llama-model.cpp", "#if 0\n" + MAPPING + "\n#endif"),
        ("src/llama-model.cpp", MAPPING.replace("}", "")),
    ],
)
def test_another_form_is_unknown_and_never_an_empty_table(file: str, text: str) -> None:
    fact = read(TREE | {file: text}).gguf_architectures
    assert isinstance(fact, Missing)
    assert fact.cause is Cause.UNREADABLE


def test_an_installation_has_no_sources() -> None:
    build = read({"llama_cpp/__init__.py": "__version__ = '1'\n"}, prefix="")
    for fact in (build.gguf_architectures, build.converter, build.registry, build.load_formats, build.flags):
        assert isinstance(fact, Missing)
        assert fact.cause is Cause.UNAVAILABLE
        assert "llama-cpp-python==1)" in (fact.ask or "")


def test_the_bindings_of_an_installation_say_which_files_it_reads() -> None:
    bindings = "def llama_model_meta_count(model): ...\n"
    build = read({"llama_cpp/__init__.py": "", "llama_cpp/llama_cpp.py": bindings}, prefix="")
    assert known(build.load_formats) == ("gguf",)
    assert isinstance(build.gguf_architectures, Missing)
    older = read({"llama_cpp/__init__.py": "", "llama_cpp/llama_cpp.py": "LLAMA_MAX = 1\n"}, prefix="")
    assert isinstance(older.load_formats, Missing)


def test_no_class_of_the_hub_is_served_as_it_is() -> None:
    build = read(TREE)
    assert known(build.registry) == {}
    assert known(build.fallback) is None
    assert known(build.load_formats) == ("gguf",)
