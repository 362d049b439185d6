"""Further files that recipes refer to: what they give, in which order they count, and what their absence leaves open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from canserve.facts import Cause, Fact, Known, Missing
from canserve.recipes.reading import Beside, read_recipe
from canserve.recipes.trouble import RecipeError
from canserve.subjects.recipe import HIDDEN, Recipe, remarks


def read(name: str, text: str, **files: str | None) -> Recipe:
    """With these files beside it; their names with ``__`` for a dot and ``_s_`` for a slash."""
    paths = {key.replace("_s_", "/").replace("__", "."): text for key, text in files.items()}
    return read_recipe(text, name, Beside(files={path: known(text) for path, text in paths.items()}))


def known(text: str | None) -> Fact[str | None]:
    return Known(text)


def variables(recipe: Recipe) -> Mapping[str, str]:
    return {name: said.value for name, said in recipe.environment.items()}


RUN = "export A=1\nexec vllm serve a/b --max-model-len $1\n"
SERVICE = "services:\n  llm:\n    image: vllm/vllm-openai:v0.17.1\n    command: --model a/b\n"


def test_later_files_of_variables_count_more_and_the_services_own_most() -> None:
    text = SERVICE + "    env_file: [one.env, {path: two.env, required: false}]\n    environment: {C: own}\n"
    recipe = read("c.yaml", text, one__env="A=1\nB=1\nC=1\n", two__env="B=2\nC=2\n")
    assert variables(recipe) == {"A": "1", "B": "2", "C": "own"}
    assert (recipe.environment["B"].line, recipe.environment["B"].at) == (5, "two.env:1")
    assert {(file.path, file.required) for file in recipe.files} == {("one.env", True), ("two.env", False)}


def test_env_file_as_text_and_raw() -> None:
    assert variables(read("c.yaml", SERVICE + "    env_file: one.env\n", one__env="A='x y' # z\n")) == {
        "A": "x y"
    }
    raw = SERVICE + "    env_file: [{path: one.env, format: raw}]\n"
    assert variables(read("c.yaml", raw, one__env="A='x y' # z\n")) == {"A": "'x y' # z"}


ENV = """# comment
A=plain # comment
export B="double \\"x\\" $A"
C='single $A'
D=${A}-more
E=
F: yaml
G="two
lines"
not a variable
H=last
"""


def test_lines_of_a_file_of_variables_as_compose_reads_them() -> None:
    assert variables(read("c.yaml", SERVICE + "    env_file: x.env\n", x__env=ENV)) == {
        "A": "plain", "B": 'double "x" plain', "C": "single $A", "D": "plain-more", "E": "", "F": "yaml",
        "G": "two\nlines", "H": "last",
    }  # fmt: skip


def test_dot_env_fills_the_text_and_not_the_container() -> None:
    text = "services:\n  s:\n    image: vllm/vllm-openai:${TAG}\n    command: --model $MODEL\n"
    env = {".env": known("TAG=v1\nMODEL=a/b\nHF_TOKEN=hf_secret\n")}
    recipe = read_recipe(text, "c.yaml", Beside(files=env))
    assert (str(recipe.image), str(recipe.model), variables(recipe)) == ("vllm/vllm-openai:v1", "a/b", {})
    assert "hf_secret" not in repr(recipe) and any(key.path == ".env: HF_TOKEN" for key in recipe.keys)
    named = read_recipe(text, "c.yaml", Beside({"TAG": "v2", "MODEL": "c/d"}, env))
    assert (str(named.image), named.files) == ("vllm/vllm-openai:v2", ())


def test_a_secret_that_is_set_is_not_said_to_be_unset() -> None:
    text = SERVICE + "    environment: {HF_TOKEN: $HF_TOKEN, AUTH: 'Bearer ${API_KEY}'}\n"
    recipe = read_recipe(
        text, "c.yaml", Beside(files={".env": known("HF_TOKEN=hf_secret\nAPI_KEY=k-secret\n")})
    )
    assert "secret" not in repr(recipe).replace("a secret", "")
    assert variables(recipe) == {"HF_TOKEN": HIDDEN, "AUTH": "Bearer ${API_KEY}"}
    assert {one.why for one in recipe.open} == {"it is set to a secret, which is not kept"}


BASE = """services:
  base:
    image: vllm/vllm-openai:v0.17.1
    command: [--model, x/y]
    environment: [A=base, B=base]
    env_file: base.env
    volumes: ["./models:/models", "./old:/cache"]
    labels: {canserve.machine: one}
  other: {extends: base, image: lmsysorg/sglang:v0.5.9}
"""


def test_what_is_extended_in_another_file() -> None:
    text = """services:
  llm:
    extends: {file: sub/base.yaml, service: base}
    command: [--model, /models/Qwen3-8B]
    environment: {B: own}
    volumes: ["./new:/cache"]
"""
    recipe = read("c.yaml", text, sub_s_base__yaml=BASE, sub_s_base__env="B=file\nC=file\n")
    assert (str(recipe.image), str(recipe.model)) == ("vllm/vllm-openai:v0.17.1", "/models/Qwen3-8B")
    assert variables(recipe) == {"A": "base", "B": "own", "C": "file"}
    assert [(one.source, one.target) for one in recipe.mounts] == [
        ("./sub/models", "/models"),
        ("./new", "/cache"),
    ]
    assert recipe.image is not None and (recipe.image.line, recipe.image.at) == (3, "sub/base.yaml:3")
    assert "sub/base.yaml: services.base.image" in {key.path for key in recipe.keys}
    assert not recipe.unknown


def test_what_is_extended_in_the_same_file() -> None:
    recipe = read("c.yaml", BASE, base__env="")
    images = {command.name: command.image and command.image.value for command in recipe.commands}
    assert images["base"] == "vllm/vllm-openai:v0.17.1"
    other = next(command for command in recipe.commands if command.name == "other")
    assert (str(other.image), other.environment["A"].value, other.machine) == (
        "lmsysorg/sglang:v0.5.9",
        "base",
        "one",
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("services:\n  a: {extends: b}\n  b: {extends: a}\n", 2),
        ("services:\n  a:\n    extends: nobody\n", 3),
        ("services:\n  a:\n    extends: {file: x.yaml, service: nobody}\n", 3),
    ],
)
def test_what_extends_in_a_circle_or_nothing_is_refused_by_line(text: str, line: int) -> None:
    assert line in {one.line for one in read("c.yaml", text, x__yaml="services: {}\n").refused}


def test_what_is_included_sees_its_own_variables() -> None:
    text = "include: [sub/inc.yaml]\nservices:\n  web: {image: nginx}\n"
    inc = "services:\n  llm:\n    image: vllm/vllm-openai:v1\n    command: --model $M\n    volumes: ['./m:/m']\n"
    recipe = read("c.yaml", text, sub_s_inc__yaml=inc, sub_s___env="M=a/b\n")
    assert str(recipe.model) == "a/b" and recipe.mounts[0].source == "./sub/m"
    assert not [file for file in recipe.files if file.unread and file.decides]
    alone = read("c.yaml", text, sub_s_inc__yaml=None)
    assert [file.path for file in alone.files if file.decides and file.unread] == ["sub/inc.yaml"]
    served = read("c.yaml", text + SERVICE.partition("\n")[2], sub_s_inc__yaml=None)
    assert not [file for file in served.files if file.decides]


def test_a_file_that_lies_over_the_usual_one() -> None:
    over = "services:\n  llm:\n    command: --model c/d\n    environment: [A=1]\n"
    recipe = read_recipe(
        SERVICE, "d/docker-compose.yml", Beside(files={"docker-compose.override.yml": known(over)})
    )
    assert str(recipe.model) == "c/d" and variables(recipe) == {"A": "1"}
    other = read_recipe(SERVICE, "d/prod.yml", Beside(files={"docker-compose.override.yml": known(over)}))
    assert str(other.model) == "a/b" and not other.files


def test_configs_of_a_service_are_its_files() -> None:
    text = """services:
  llm:
    image: vllm/vllm-openai:v1
    command: --config /etc/serve.yaml
    configs: [{source: serve, target: /etc/serve.yaml}]
configs:
  serve: {content: "model: a/b\\nmax-model-len: 4096\\n"}
"""
    assert str(read("c.yaml", text).model) == "a/b"
    named = text.replace('content: "model: a/b\\nmax-model-len: 4096\\n"', "file: ./cfg.yaml")
    recipe = read("c.yaml", named, cfg__yaml="model: c/d\nmax-model-len: 8192\n")
    assert str(recipe.model) == "c/d" and recipe.flags[:2] == ("--max-model-len", "8192")


CONFIG = "model: c/d\nmax-model-len: 4096\nserved-model-name: [x, y]\nenforce-eager: true\nasync-scheduling: false\n"


@dataclass(frozen=True)
class Line:
    text: str
    model: str | None
    flags: str
    files: Mapping[str, str] = field(default_factory=lambda: {"s__yaml": CONFIG})


LINES = {
    "explicit words come later": Line(
        "vllm serve a/b --config s.yaml --max-model-len 8",
        "a/b",
        "--max-model-len 4096 --served-model-name x y --enforce-eager --config s.yaml --max-model-len 8",
    ),
    "its model": Line(
        "vllm serve --config=s.yaml", "c/d",
        "--max-model-len 4096 --served-model-name x y --enforce-eager --config=s.yaml",
    ),
    "of a module": Line(
        "python -m sglang.launch_server --config s.yaml", "e/f", "--tp-size 2 --config s.yaml",
        {"s__yaml": "model-path: e/f\ntp-size: 2\n"},
    ),
    "in a container, through what is mounted": Line(
        "docker run -v ./cfg:/cfg vllm/vllm-openai:v1 --config /cfg/s.yaml", "c/d",
        "--max-model-len 4096 --config /cfg/s.yaml", {"cfg_s_s__yaml": "model: c/d\nmax_model_len: 4096\n"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LINES)
def test_a_file_of_options(name: str) -> None:
    it = LINES[name]
    recipe = read("-", it.text, **it.files)
    assert (recipe.model and recipe.model.value, " ".join(recipe.flags)) == (it.model, it.flags)
    assert not [file for file in recipe.files if file.unread]


def test_flags_of_a_file_are_told_with_their_place_in_it() -> None:
    recipe = read("-", "# x\nvllm serve a/b --config s.yaml --port 1", s__yaml=CONFIG)
    assert recipe.place_of("--max-model-len") == "line 2 (s.yaml:2)"
    assert recipe.place_of("--port") == "line 2"


UNREAD: dict[str, tuple[str, dict[str, str | None], str]] = {
    "not there": ("vllm serve --config s.yaml", {"s__yaml": None}, "it is not there"),
    "nobody looked": ("vllm serve --config s.yaml", {}, "nobody looked for it"),
    "no YAML": ("vllm serve a/b --config s.yaml", {"s__yaml": "a: ["}, "not YAML"),
    "no keys": ("vllm serve a/b --config s.yaml", {"s__yaml": "- a\n"}, "a document without keys"),
    "in an image": ("docker run vllm/vllm-openai:v1 --config /s.yaml", {}, "it lies in the container"),
    "on another machine": ("ssh x vllm serve a/b --config /s.yaml", {}, "it lies in another machine"),
    "an open name": ("vllm serve a/b --config $F", {}, "a part of its name is left open"),
}


@pytest.mark.parametrize("name", UNREAD)
def test_a_file_of_options_that_is_not_known_decides(name: str) -> None:
    text, files, why = UNREAD[name]
    recipe = read("-", text, **files)
    (file,) = recipe.files
    assert file.decides and why in (file.unread or "")


def test_variables_of_docker_are_taken_as_they_are() -> None:
    text = "docker run -e B=own --env-file x.env vllm/vllm-openai:v1 --model a/b"
    recipe = read("-", text, x__env='# c\nA="quoted" # no comment\nB=file\nC\nHF_TOKEN=hf_secret\n')
    assert variables(recipe) == {"A": '"quoted" # no comment', "B": "own", "HF_TOKEN": HIDDEN}


SOURCED = {
    "source": ("source c.sh\nvllm serve $M", "a/b", {}),
    "dot": (". ./c.sh; vllm serve $M", "a/b", {}),
    "all are exported": ("set -a\nsource c.sh\nset +a\nX=1\nvllm serve $M", "a/b", {"M": "a/b", "E": "1"}),
    "by name": ("set -o allexport; . c.sh; set +o allexport; vllm serve $M", "a/b", {"M": "a/b", "E": "1"}),
    "where it is there": ("[ -f c.sh ] && source c.sh\nvllm serve $M", "a/b", {"E": "1"}),
    "if it is there": ("if [ -f c.sh ]; then\n  source c.sh\nfi\nvllm serve $M", "a/b", {"E": "1"}),
    "under another condition": ("[ -n $X ] && source c.sh\nvllm serve $M", "$M", {}),
    "of a line that exports": ("M=a/b\nexport M\nvllm serve $M", "a/b", {"M": "a/b"}),
}


@pytest.mark.parametrize("name", SOURCED)
def test_what_a_shell_reads_in(name: str) -> None:
    text, model, environment = SOURCED[name]
    recipe = read("-", text, c__sh="# x\nM=a/b\nexport E=1\necho $(id)\n")
    assert str(recipe.model) == model
    assert variables(recipe).items() >= environment.items()


def test_a_script_that_reads_itself_in_ends() -> None:
    assert (
        str(read("-", "source a.sh\nvllm serve $M", a__sh="M=a/b\nsource a.sh\nsource a.sh\n").model) == "a/b"
    )


def test_what_an_unread_file_may_set_is_said() -> None:
    recipe = read("-", "source c.sh\nvllm serve $M", c__sh=None)
    (one,) = recipe.open
    assert one.decides and "unless c.sh (line 1) does, which was not read" in one.why
    assert any("line 1: c.sh (source) is not read: it is not there" in each for each in remarks(recipe))


UNIT = """[Service]
Environment=A=own B=own
EnvironmentFile=-x.env
ExecStart=/usr/bin/false
ExecStart=
ExecStart=/opt/venv/bin/vllm serve ${M} $ARGS
"""


def test_files_of_a_unit_count_more_than_its_own_lines() -> None:
    text = "; c\nB=file\nM=\"a/b\"\nARGS=--max-model-len 4096 \\\n  --enforce-eager\nD=x\\ y\nE='$M'\n"
    recipe = read("x.service", UNIT, x__env=text)
    assert variables(recipe) == {
        "A": "own", "B": "file", "M": "a/b", "ARGS": "--max-model-len 4096   --enforce-eager", "D": "x y", "E": "$M"
    }  # fmt: skip
    assert str(recipe.model) == "a/b" and recipe.flags == ("--max-model-len", "4096", "--enforce-eager")
    assert len(recipe.commands) == 1
    assert not read("x.service", UNIT, x__env=None).files[-1].unread  # a dash: it may be absent


@pytest.mark.parametrize("name", ["/etc/default/*", "conf.d/*.env", "%h/x.env"])
def test_names_that_are_known_only_there_are_reported(name: str) -> None:
    recipe = read("x.service", UNIT.replace("-x.env", name))
    assert any(
        "known only there" in (file.unread or "") or "left open" in (file.unread or "")
        for file in recipe.files
    )


def test_drop_ins_change_a_unit() -> None:
    files = {
        "x.service.d/": known("10-a.conf\n20-b.conf"),
        "x.service.d/10-a.conf": known("[Service]\nEnvironment=M=a/b\nNovel=1\n"),
        "x.service.d/20-b.conf": known("[Service]\nExecStart=\nExecStart=vllm serve ${M}\n"),
        "x.env": known(None),
    }
    recipe = read_recipe(UNIT, "x.service", Beside(files=files))
    assert str(recipe.model) == "a/b" and len(recipe.commands) == 1
    assert "x.service.d/10-a.conf: Service.Novel" in {key.path for key in recipe.unknown}


def test_a_container_unit_reads_files_as_podman_does() -> None:
    text = (
        "[Container]\nImage=vllm/vllm-openai:v1\nEnvironment=A=own\nEnvironmentFile=x.env\nExec=--model a/b\n"
    )
    recipe = read("x.container", text, x__env='A=file\nB="q"\n')
    assert variables(recipe) == {"A": "own", "B": '"q"'}


def test_what_could_not_be_read_is_missing_with_its_cause() -> None:
    missing = Missing(Cause.UNAVAILABLE, "it cannot be read: Permission denied")
    recipe = read_recipe("vllm serve a/b --config s.yaml", "-", Beside(files={"s.yaml": missing}))
    assert recipe.files[0].found == missing and recipe.files[0].decides


@pytest.mark.parametrize("write", ["cat > s.yaml <<EOF", "cat <<'EOF' >s.yaml", "tee ./s.yaml <<-EOF"])
def test_a_file_that_is_written_in_place_is_read_from_there(write: str) -> None:
    recipe = read("-", f"{write}\nmodel: a/b\nmax-model-len: 4096\nEOF\nvllm serve --config ./s.yaml\n")
    assert str(recipe.model) == "a/b" and recipe.flags[:2] == ("--max-model-len", "4096")
    assert not recipe.files
    broken = read("-", f"{write}\n- model: [\nEOF\nvllm serve a/b --config s.yaml\n")
    assert [one.line for one in broken.refused] == [4]


def test_variables_that_an_engine_takes_for_options() -> None:
    run = (
        "docker run -e LLAMA_ARG_MODEL=/m/x.gguf -e LLAMA_ARG_CTX_SIZE=4096 ghcr.io/ggml-org/llama.cpp:server"
    )
    recipe = read("-", run)
    assert (recipe.engine, str(recipe.model), recipe.flags) == (
        "llama.cpp",
        "/m/x.gguf",
        ("--ctx-size", "4096"),
    )
    own = read("-", f"{run} -c 8192 -m /m/y.gguf")
    assert str(own.model) == "/m/y.gguf" and own.flags == ("--ctx-size", "4096", "-c", "8192")


def test_words_of_an_unknown_variable_may_be_any_flags() -> None:
    recipe = read("-", "vllm serve a/b --port 8000 $EXTRA")
    assert [(one.where, one.decides) for one in recipe.open] == [("the command", True)]
    assert [one.decides for one in read("-", "vllm serve a/b --port $PORT").open] == [False]


WRAPPED = {
    "srun -N 2 -w x --gres=gpu:8 vllm serve a/b": None,
    "srun --container-image=nvcr.io#nvidia/vllm:1 vllm serve a/b": "nvcr.io/nvidia/vllm:1",
    "apptainer exec --nv -B /a:/b docker://vllm/vllm-openai:v1 vllm serve a/b": "vllm/vllm-openai:v1",
    "mpirun -n 2 --allow-run-as-root vllm serve a/b": None,
    "tmux new -d -s x 'vllm serve a/b'": None,
    "screen -dmS x bash -c 'vllm serve a/b'": None,
    "./launch-cluster.sh -n 1,2 --solo exec vllm serve a/b": None,
    "pixi run vllm serve a/b": None,
    "python3 -m vllm.entrypoints.cli.main serve a/b": None,
    "docker run ^\n --gpus all ^\n vllm/vllm-openai:v1 ^\n --model a/b": "vllm/vllm-openai:v1",
}


@pytest.mark.parametrize("text", WRAPPED)
def test_what_stands_around_a_server(text: str) -> None:
    recipe = read("-", text.replace("\\n", "\n"))
    assert (recipe.engine, str(recipe.model)) == ("vllm", "a/b")
    assert (recipe.image and recipe.image.value) == WRAPPED[text]


def test_an_image_of_another_server_is_not_taken() -> None:
    recipe = read("-", "vllm serve a/b\ndocker run vllm/vllm-openai:v1 --model c/d\n")
    assert str(recipe.model) == "a/b" and recipe.image is None


def test_a_prompt_is_one_only_where_a_command_begins() -> None:
    recipe = read("-", "$ vllm serve m '\n$ x'\nuser@host:~$ sglang serve a/b\n")
    assert (
        recipe.commands[0].words == ("vllm", "serve", "m", "\n$ x") and recipe.commands[1].engine == "sglang"
    )


FOLLOWED = {
    "by a shell": ("-", "bash -e run.sh 4096", {"run__sh": RUN}),
    "by itself": ("-", "exec ./run.sh 4096", {"run__sh": RUN}),
    "in its own folder": ("-", 'cd x\n"$(dirname "$0")"/run.sh 4096', {"run__sh": RUN}),
    "of a container": (
        "c.yaml", "services: {s: {image: vllm/vllm-openai:v1, entrypoint: /s/run.sh 4096, volumes: ['./b:/s']}}",
        {"b_s_run__sh": RUN},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLLOWED)
def test_scripts_are_followed(name: str) -> None:
    file, text, files = FOLLOWED[name]
    recipe = read(file, text, **files)
    assert str(recipe.model) == "a/b" and recipe.flags == ("--max-model-len", "4096")
    assert recipe.environment["A"].value == "1"
    assert "run.sh)" in (recipe.place_of("--max-model-len") or "")


def test_a_script_that_starts_itself_ends() -> None:
    assert read("-", "./run.sh", run__sh="./run.sh\n./run.sh\nvllm serve a/b\n").engine == "vllm"


def test_a_script_that_is_not_there_is_no_news() -> None:
    recipe = read("-", "./prepare.sh\nvllm serve a/b", prepare__sh=None)
    assert not [each for each in remarks(recipe) if "is not read" in each]


@pytest.mark.parametrize(
    "folder",
    [
        '$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)', "$(dirname $0)", '$(dirname "$(readlink -f "$0")")',
        '$(cd $(dirname "$0"); pwd -P)', '$( cd -- "$( dirname "$0" )" && pwd )'.replace("( ", "(").replace(" )", ")"),
    ],
)  # fmt: skip
def test_a_script_knows_its_own_folder(folder: str) -> None:
    recipe = read(
        "-", f'DIR="{folder}"\nset -a; source "$DIR/sub/x.env"; set +a\nvllm serve $M', sub_s_x__env="M=a/b\n"
    )
    assert str(recipe.model) == "a/b" and not recipe.open


def test_a_template_is_said_to_be_one() -> None:
    text = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Release.Name }}-x\n{{- if .Values.x }}\nspec: {}\n{{- end }}\n"
    with pytest.raises(RecipeError, match="line 4: a template"):
        read_recipe(text, "k.yaml")


def test_a_default_that_is_assigned_counts_from_there_on() -> None:
    recipe = read("-", ': "${M:=a/b}"\nvllm serve "$M" --port "${P=1}" --x $P')
    assert str(recipe.model) == "a/b" and recipe.flags == ("--port", "1", "--x", "1")


def test_what_compose_starts_stands_elsewhere() -> None:
    recipe = read(
        "-", "docker compose --env-file prod.env -f prod.yaml up -d\ndocker logs -f x\ndocker start x\n"
    )
    assert any("line 1: what compose starts stands in its own file" in note for note in recipe.notes)
    assert [key.line for key in recipe.unknown] == [3]


def test_shells_within_a_script_stand_on_the_line_that_names_it() -> None:
    recipe = read("-", "./run.sh", run__sh="bash -c '\n\n\nvllm serve a/b\n'\n")
    assert str(recipe.model) == "a/b" and {word.line for word in recipe.commands[0].argv} == {1}
