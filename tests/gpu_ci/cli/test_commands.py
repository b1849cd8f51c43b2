"""Properties of every command: help, exit codes, whole output in pipes, no traceback, completion."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from gpu_ci import extras
from gpu_ci.cli import RESULTS_FROM_2
from gpu_ci.cli.commands import gpu_ci

from tests.gpu_ci.cli.conftest import Ask

ROOT = Path(__file__).resolve().parents[3]
GPU_CI = str(Path(sys.executable).with_name("gpu-ci"))


def every(group: click.Group = gpu_ci, *above: str) -> list[tuple[str, ...]]:
    """The words of every command."""
    context = click.Context(group)
    found: list[tuple[str, ...]] = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        found += [(*above, name)]
        if isinstance(command, click.Group):
            found += every(command, *above, name)
    return found


EVERY = every()
PRINTS_DATA = (
    ("cost", "query"),
    ("jobs", "collect"),
    *(words for words in EVERY if words[0] in ("deploy", "train") and words != ("deploy", "plan")),
)
"""Commands whose output is always for programs."""
every_command = pytest.mark.parametrize("words", EVERY, ids=[" ".join(words) for words in EVERY])


def test_the_help_fits_on_one_screen_and_groups_the_commands(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = ask("--help").out.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    headings = [line.rstrip(":") for line in lines if re.fullmatch(r"\w+:", line)]
    assert headings == ["Options", "Start", "Check", "Review", "Operate"]
    shown = [line.split()[0] for line in lines[lines.index("Start:") :] if line.startswith("  ")]
    assert shown == list(dict.fromkeys(words[0] for words in EVERY))


@every_command
def test_its_help_has_examples_and_it_takes_json_unless_it_is_a_group(ask: Ask, words: tuple[str, ...]) -> None:
    answer = ask(*words, "--help")
    assert (answer.code, answer.err) == (0, "")
    examples = answer.out.partition("Examples:\n")[2].partition("\n\n")[0]
    assert f"gpu-ci {' '.join(words)}" in examples
    assert max(map(len, answer.out.splitlines())) <= 120
    assert ("--json" in answer.out) == (
        words
        not in [(each,) for each in ("catalog", "github-app", "images", "jobs", "manager", "monitoring", "rented")]
        + [*PRINTS_DATA]
    )


@every_command
def test_an_option_there_is_not_ends_with_2_or_with_1_where_2_is_a_change(ask: Ask, words: tuple[str, ...]) -> None:
    answer = ask(*words, "--nonsense")
    assert (answer.code, answer.out) == (1 if words[0] in RESULTS_FROM_2 else 2, "")
    assert "--nonsense" in answer.err
    assert f"hint: gpu-ci {' '.join(words)}" in answer.err


def test_without_a_word_it_helps(ask: Ask) -> None:
    assert ask() == ask("--help") == ask("-h")
    assert ask().code == 0


@pytest.mark.parametrize(
    ("word", "hint"),
    [("verify", "the commands are init, "), ("catlog", "did you mean catalog?")],
)
def test_an_unknown_command_gets_a_suggestion(ask: Ask, word: str, hint: str) -> None:
    answer = ask(word)
    assert answer.code == 2
    assert answer.err.startswith(f"gpu-ci: no command '{word}'\n  hint: {hint}")


def test_the_version_is_the_packages(ask: Ask) -> None:
    from gpu_ci import versions

    assert ask("--version").out == f"gpu-ci {versions.PACKAGE}\n"


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from gpu_ci.cli.main import run; run(['--help']);"
        "print([n for n in ('pulumi', 'pydantic', 'rich', 'yaml', 'gpu_catalog.solver') if n in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines()[-1] == "[]"


def test_in_a_pipe_nothing_is_cut_or_folded() -> None:
    answer = subprocess.run(
        [GPU_CI, "catalog", "show", "p5.48xlarge"], capture_output=True, text=True, check=True,
        env={**os.environ, "COLUMNS": "40"},
    )  # fmt: skip
    assert "…" not in answer.stdout
    assert "\x1b" not in answer.stdout
    [line] = [line for line in answer.stdout.splitlines() if line.startswith("gpu.architecture")]
    assert line.split() == ["gpu.architecture", "Hopper", "nv_arch_matrix"]
    [line] = [line for line in answer.stdout.splitlines() if line.startswith("nv_arch_matrix")]
    assert line.endswith("docs.nvidia.com/datacenter/tesla/drivers/cuda-toolkit-driver-and-architecture-matrix.html")
    assert [line for line in answer.stdout.splitlines() if line != line.rstrip()] == []


@pytest.mark.parametrize(
    ("words", "code"),
    [("catalog list --n1 --json", 0), ("catalog list --gpu l5 --json", 2), ("deploy judge /dev/null", 1)],
)
def test_a_reader_that_has_enough_ends_it_quietly(words: str, code: int) -> None:
    command = f"{{ '{GPU_CI}' {words}; echo $? >&3; }} | (exec 0<&-; sleep 0.1)"
    answer = subprocess.run(["bash", "-c", f"exec 3>&1; {command}"], capture_output=True, text=True, check=True)
    assert answer.stdout == f"{code}\n"
    assert "Traceback" not in answer.stderr
    assert "written" not in answer.stderr


def test_as_a_module_it_is_the_same_command(ask: Ask) -> None:
    words = ["check", "n1-standard-96+nvidia-tesla-p100x1"]
    module = subprocess.run([sys.executable, "-m", "gpu_ci.cli", *words], capture_output=True, text=True, check=False)
    assert (module.returncode, module.stdout) == (1, ask(*words).out)


@pytest.mark.parametrize(
    ("module", "words", "extra"),
    [
        ("click", ["check"], "cli"),
        ("rich", ["catalog"], "cli"),
        ("click", ["deploy", "judge"], "cli"),
    ],
)
def test_a_missing_package_is_reported_with_the_extra_that_installs_it(
    module: str, words: list[str], extra: str
) -> None:
    code = f"import sys; sys.modules['{module}'] = None; from gpu_ci.cli.main import main; main({words})"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    problem = f"gpu-ci: the package {module} is not installed\n  hint: {extras.hint(module)}\n"
    assert (answer.stderr, f"the extra {extra}: pip install " in answer.stderr) == (problem, True)
    assert answer.returncode == (1 if words[0] in RESULTS_FROM_2 else 2)


def test_a_pool_whose_package_is_missing_is_one_problem_of_its_kind() -> None:
    check = "from gpu_ci.cli.main import main; main(['check', 'Pulumi.staging.yaml'])"
    code = f"import sys; sys.modules['pulumi_aws'] = None; {check}"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert answer.returncode == 1
    assert "gpu-ci:pools.a10g.kind: needs pulumi_aws\n  got: 'eks-runners'\n" in answer.stdout
    assert "\n2 problems in Pulumi.staging.yaml\n" in answer.stdout  # the other one is of ec2-runners


@pytest.mark.slow
def test_the_schema_has_the_kinds_whose_packages_are_installed() -> None:
    code = "import sys; sys.modules['pulumi_gcp'] = None; from gpu_ci.cli.main import main; main(['schema'])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    entries = json.loads(answer.stdout)["properties"]["config"]["properties"]["gpu-ci:pools"]["additionalProperties"]
    assert entries["properties"]["kind"]["enum"] == ["ec2-runners", "eks-runners", "rented-runners"]


def test_bash_is_offered_the_commands(
    ask: Ask, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"_GPU_CI_COMPLETE": "bash_complete", "COMP_WORDS": "gpu-ci pre", "COMP_CWORD": "1"}
    for name, value in asked.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):  # click ends the process that a shell has asked
        ask()
    assert capsys.readouterr().out.split() == ["plain,preview", "plain,preview-comment"]


OnTerminal = Callable[..., list[str]]


@pytest.fixture
def on_terminal(ask: Ask, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> OnTerminal:
    """The same in this process, whose output says that it is a terminal."""

    def call(width: int, *words: str) -> list[str]:
        monkeypatch.chdir(ROOT)
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setenv("LINES", "25")  # without it rich takes a dumb terminal for one of 80 columns
        monkeypatch.setenv("TERM", "dumb")
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
        answer = ask(*words)
        assert answer.code == 0
        return answer.out.splitlines()

    return call


def test_a_narrow_terminal_shows_each_row_by_itself_with_every_heading(on_terminal: OnTerminal) -> None:
    lines = on_terminal(60, "cost", "Pulumi.prod.yaml")
    at = lines.index("h100")
    assert [line.split("  ")[1].strip() for line in lines[at + 1 : at + 10]] == [
        "machine", "market", "region", "max", "USD/h each", "at rest", "at max", "worst month", "price of",
    ]  # fmt: skip
    assert lines[at + 1] == "  machine      gcp/a3-highgpu-1g"


ROWS = (
    "catalog",
    "catalog --region us-central1",
    "catalog show p5.48xlarge",
    "catalog --sort price --dtype bf16",
    "quota Pulumi.prod.yaml",
)


@pytest.mark.parametrize("words", ROWS)
@pytest.mark.parametrize("width", [80, 120])
def test_no_line_of_a_table_runs_over_the_edge_of_a_terminal(on_terminal: OnTerminal, words: str, width: int) -> None:
    lines = on_terminal(width, *words.split())
    rule = next(at for at, line in enumerate(lines) if set(line.strip()) == {"─"})
    assert max(map(len, lines[: rule + 12])) <= width
