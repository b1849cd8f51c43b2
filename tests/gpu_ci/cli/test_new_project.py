"""`gpu-ci new-project`: the files of a new project for GPU code, and every mistake of its options."""

from __future__ import annotations

import keyword
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from gpu_ci.cli.new_project import template
from gpu_ci.gcp.pool.rules import default_runner_labels
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from tests.conftest import ROOT
from tests.gpu_ci.cli.conftest import Ask
from tests.test_docs import fences

PAGE = ROOT / "docs/start/new-project.md"
FILES = [
    ".dockerignore",
    ".github/actionlint.yaml",
    ".github/workflows/images.yaml",
    ".github/workflows/tests.yaml",
    ".gitignore",
    ".pre-commit-config.yaml",
    ".python-version",
    "README.md",
    "docker/dev.Dockerfile",
    "docker/runtime.Dockerfile",
    "docs/images.md",
    "docs/tests.md",
    "pyproject.toml",
    "src/gpu_kernels/__init__.py",
    "src/gpu_kernels/__main__.py",
    "src/gpu_kernels/norm.py",
    "tests/cpu/test_norm.py",
    "tests/gpu/test_norm_on_gpu.py",
]
WORKFLOWS = [path for path in FILES if path.startswith(".github/workflows/")]
COMMIT = "1f" * 20
ADDRESS = f"git+https://github.com/example-org/gpu-ci@{COMMIT}"
PACKAGE = ("--package", ADDRESS)
TOOLS = Path(sys.executable).parent
# Python has no shorter name, and the template has no longer one.
NAMES = ["a", "gpu-kernels", "g" * 60]


def written(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def files(ask: Ask, *options: str) -> dict[str, Any]:
    found: dict[str, Any] = ask("new-project", "gpu-kernels", *PACKAGE, *options, "--json").json["files"]
    return found


def run(folder: Path, *command: str | Path, **environment: str) -> str:
    """Run a command, which must succeed, and return its output."""
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_without_write_no_file_is_written_and_every_file_is_printed(ask: Ask, tmp_path: Path) -> None:
    answer = ask("new-project", "gpu-kernels", *PACKAGE)
    assert (answer.code, answer.err, written(tmp_path)) == (0, "", [])
    assert [line for line in FILES if f"{line}\n" in answer.out] == FILES
    assert answer.rows == [[path, "would be written"] for path in FILES]
    assert "Nothing was written." in answer.out


def test_with_write_the_files_are_those_that_json_shows(ask: Ask, tmp_path: Path) -> None:
    shown = files(ask)
    answer = ask("new-project", "gpu-kernels", *PACKAGE, "--write")
    assert (answer.code, answer.err) == (0, "")
    assert {path: (tmp_path / "gpu-kernels" / path).read_text() for path in written(tmp_path / "gpu-kernels")} == shown
    assert sorted(shown) == FILES
    leftover = re.compile(r"\{%|\{#|(?<!\$)\{\{")
    assert [path for path, text in shown.items() if leftover.search(text) or not text.endswith("\n")] == []


def test_an_existing_file_is_never_changed(ask: Ask, tmp_path: Path) -> None:
    folder = tmp_path / "gpu-kernels"
    folder.mkdir()
    own = {"pyproject.toml": "mine\n", ".gitignore": "*.o\n", "README.md": files(ask)["README.md"]}
    for path, text in own.items():
        (folder / path).write_text(text)
    answer = ask("new-project", "gpu-kernels", *PACKAGE, "--write")
    assert {path: (folder / path).read_text() for path in own} == own
    results = dict(answer.rows)
    assert {path: results.pop(path) for path in own} == {
        "pyproject.toml": "kept: exists with other content",
        ".gitignore": "kept: needs the change below",
        "README.md": "exists, unchanged",
    }
    assert set(results.values()) == {"written"}
    patch = answer.out[answer.out.index("--- a/") : answer.out.index("\nNext:")]
    run(folder, "bash", "-c", 'git apply --unidiff-zero <<< "$PATCH"', PATCH=patch)
    assert (folder / ".gitignore").read_text().splitlines()[:2] == ["*.o", ".venv/"]
    again = ask("new-project", "gpu-kernels", *PACKAGE, "--write", "--json").json
    assert (again["changes"], written(folder)) == ({}, FILES)


def test_every_place_that_cannot_be_written_is_reported_before_a_file_is_written(ask: Ask, tmp_path: Path) -> None:
    folder = tmp_path / "gpu-kernels"
    (folder / "README.md").mkdir(parents=True)
    (folder / "src").write_text("")
    (folder / ".gitignore").symlink_to("nowhere")
    (folder / "pyproject.toml").write_bytes(b"\xff")
    answer = ask("new-project", "gpu-kernels", *PACKAGE, "--write")
    assert (answer.code, answer.out) == (2, "")
    assert [line for line in answer.err.splitlines() if not line.startswith("  ")] == [
        "gpu-kernels/.gitignore: is a symbolic link to a missing file",
        "gpu-kernels/README.md: is a folder",
        "gpu-kernels/pyproject.toml: is not text",
        "gpu-kernels/src: is a file",
        "nothing was written",
    ]
    assert written(folder) == ["pyproject.toml", "src"]


MISTAKES: list[tuple[tuple[str, ...], list[str]]] = [
    (("--name", "Kernels"), ["--name"]),
    (("--name", "1kernel"), ["--name"]),
    (("--name", "gpu_kernels"), ["--name"]),
    (("--name", "gpu--kernels"), ["--name"]),
    (("--name", "gpu-"), ["--name"]),
    (("--name", "gpu\n"), ["--name"]),
    (("--name", "g" * 61), ["--name"]),
    (("--name", "class"), ["--name"]),
    (("--name", "json"), ["--name"]),
    (("--name", "torch"), ["--name"]),
    (("--name", "{{ 1 }}"), ["--name"]),
    (("--description", "one\ntwo"), ["--description"]),
    (("--description", " "), ["--description"]),
    (("--description", "a\x1b[31m"), ["--description"]),
    (("--description", "d" * 201), ["--description"]),
    (("--label", ""), ["--label"]),
    (("--label", "gpu l4"), ["--label"]),
    (("--label", "l4\n"), ["--label"]),
    (("--label", "${{ github.head_ref }}"), ["--label"]),
    (("--label", "gpu", "--label", "GPU"), ["--label"]),
    (("--label", "ubuntu-24.04"), ["--label"]),
    (("--label", "Windows-latest", "--label", "gpu"), ["--label"]),
    (("--python", "3.10"), ["--python"]),
    (("--python", "latest"), ["--python"]),
    (("--package", "gpu-ci"), ["--package"]),
    (("--package", "git+https://github.com/example-org/gpu-ci"), ["--package"]),
    (("--package", "git+https://github.com/example-org/gpu-ci@main"), ["--package"]),
    (("--package", f"git+https://github.com/example-org/gpu-ci@{COMMIT[1:]}"), ["--package"]),
    (("--package", f'git+https://github.com/"x"@{COMMIT}'), ["--package"]),
    (("--package", f"git+https://user:password@github.com/example-org/gpu-ci@{COMMIT}"), ["--package"]),
    (("--package", f"git+https://token@github.com/example-org/gpu-ci@{COMMIT}"), ["--package"]),
    (("--package", "file:///a folder"), ["--package"]),
    (
        ("--python", "2", "--label", "a b", "--name", "A", "--package", "x"),
        ["--name", "--label", "--python", "--package"],
    ),
]


@pytest.mark.parametrize(("options", "paths"), MISTAKES, ids=[" ".join(map(repr, options)) for options, _ in MISTAKES])
def test_each_mistake_names_its_option_and_what_is_accepted(
    ask: Ask, tmp_path: Path, options: tuple[str, ...], paths: list[str]
) -> None:
    answer = ask("new-project", "gpu-kernels", *PACKAGE, *options, "--write", "--json")
    assert (answer.code, written(tmp_path)) == (2, [])
    problems = answer.json["error"]["problems"]
    assert [each["text"].split(": ")[:2] for each in problems] == [["gpu-ci new-project", path] for path in paths]
    assert [each for each in problems if not each["got"] or not (each.get("expected") or each.get("hint"))] == []
    assert "password@" not in answer.out + answer.err


@pytest.mark.parametrize("words", [(), ("a-file",), ("gpu-kernels", "extra"), ("gpu-kernels", "--nmae", "x")])
def test_a_wrong_command_line_is_refused(ask: Ask, tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "a-file").write_text("")
    answer = ask("new-project", *words)
    assert (answer.code, answer.out, written(tmp_path)) == (2, "", ["a-file"])
    assert answer.err.startswith("gpu-ci new-project: ")


def test_no_keyword_and_no_module_of_python_can_be_the_name() -> None:
    names = [word for word in (*keyword.kwlist, *sys.stdlib_module_names) if re.fullmatch("[a-z][a-z0-9]*", word)]
    assert [name for name in names if not template.problems({"name": name})] == []
    assert len(names) > 200


@pytest.mark.parametrize(
    ("folder", "name"), [("gpu-kernels", "gpu-kernels"), ("My_GPU Kernels.2", "my-gpu-kernels-2"), (".", "here")]
)
def test_the_folder_names_the_project(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, name: str
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    answer = ask("new-project", folder, *PACKAGE, "--json").json
    assert tomllib.loads(answer["files"]["pyproject.toml"])["project"]["name"] == name
    assert f"src/{name.replace('-', '_')}/norm.py" in answer["files"]
    assert answer["next"][0] == ("git init --initial-branch main" if folder == "." else f"cd {folder}")


def test_the_gpu_job_has_the_labels_of_the_pool(ask: Ask) -> None:
    for options, labels in ((), default_runner_labels("l4")), (("--label", "a10g"), ["a10g"]):
        shown = files(ask, *options)
        jobs = yaml.safe_load(shown[".github/workflows/tests.yaml"])["jobs"]
        assert {name: job["runs-on"] for name, job in jobs.items()} == {
            "cpu": "ubuntu-24.04",
            "gpu": list(labels),
            "queue-guard": "ubuntu-24.04",
            "coverage": "ubuntu-24.04",
        }
        assert yaml.safe_load(shown[".github/actionlint.yaml"]) == {"self-hosted-runner": {"labels": list(labels)}}


@pytest.mark.parametrize(
    "text", ["\"quoted\" \\ and 'single'", "Kernel für GPUs 🙂", "{{ name }} ${{ x }}", "<b>&amp;"]
)
def test_a_description_is_kept_exactly(ask: Ask, text: str) -> None:
    shown = files(ask, "--description", text)
    assert tomllib.loads(shown["pyproject.toml"])["project"]["description"] == text
    assert f"\n{text}.\n" in shown["README.md"]


@pytest.mark.parametrize(
    ("address", "requirement", "tables"),
    [
        (ADDRESS, f"gpu-ci @ {ADDRESS}", 1),
        (f"git+ssh://git@github.com/example-org/gpu-ci.git@{COMMIT}", None, 1),
        # uv reads the metadata of a folder from the folder, so `uv lock --check` would always fail with the table.
        ("file:///home/someone/gpu-ci", "gpu-ci @ file:///home/someone/gpu-ci", 0),
        ("", "gpu-ci==0.1.0", 1),
    ],
)
def test_the_test_group_has_gpu_ci_without_its_dependencies(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, address: str, requirement: str | None, tables: int
) -> None:
    monkeypatch.setattr("gpu_ci.extras.source", lambda: address)
    monkeypatch.setattr("importlib.metadata.version", lambda _: "0.1.0")
    answer = ask("new-project", "gpu-kernels", "--json").json
    project = tomllib.loads(answer["files"]["pyproject.toml"])
    assert project["dependency-groups"]["test"][0] == (requirement or f"gpu-ci @ {address}")
    expected = {"name": "gpu-ci", "version": "0.1.0", "requires-dist": []}
    assert project["tool"]["uv"].get("dependency-metadata", []) == [expected] * tables
    # GitHub cannot read a folder of this computer, and a step says so.
    assert sum(f"replace {address} " in step for step in answer["next"]) == (1 - tables)


@pytest.mark.parametrize("name", NAMES)
def test_the_python_files_pass_the_projects_own_linter_for_every_length_of_name(
    ask: Ask, tmp_path: Path, name: str
) -> None:
    assert ask("new-project", "gpu-kernels", *PACKAGE, "--name", name, "--write").code == 0
    run(tmp_path / "gpu-kernels", TOOLS / "ruff", "check", "--no-cache", ".")
    run(tmp_path / "gpu-kernels", TOOLS / "ruff", "format", "--no-cache", "--check", ".")


def test_the_workflows_pass_the_linters(ask: Ask, tmp_path: Path) -> None:
    assert ask("new-project", "gpu-kernels", *PACKAGE, "--write").code == 0
    schema = ("--builtin-schema", "vendor.github-workflows")
    run(tmp_path / "gpu-kernels", TOOLS / "check-jsonschema", "--quiet", *schema, *WORKFLOWS)
    run(tmp_path / "gpu-kernels", TOOLS / "zizmor", "--offline", "--no-progress", "--quiet", ".")


@pytest.mark.slow
@pytest.mark.parametrize("labels", [(), ("--label", "a10g")])
def test_the_workflows_pass_actionlint(ask: Ask, tmp_path: Path, labels: tuple[str, ...]) -> None:
    folder, linter = tmp_path / "gpu-kernels", tmp_path / "actionlint"
    assert ask("new-project", "gpu-kernels", *PACKAGE, *labels, "--write").code == 0
    run(ROOT / "tools/actionlint", "go", "build", "-o", linter, "github.com/rhysd/actionlint/cmd/actionlint")
    # actionlint checks the scripts of steps with shellcheck, if it is on PATH.
    run(folder, "git", "init", "--quiet")
    run(folder, linter, PATH=f"{TOOLS}:{os.environ['PATH']}")
    workflow = folder / ".github/workflows/tests.yaml"
    workflow.write_text(workflow.read_text().replace("needs: cpu", "needs: cup"))
    with pytest.raises(AssertionError, match='needs job "cup" which does not exist'):
        run(folder, linter)


def test_one_version_of_uv_and_of_python_is_used_everywhere(ask: Ask) -> None:
    shown = files(ask, "--python", "3.13")
    uv = yaml.safe_load(shown[".github/workflows/tests.yaml"])["env"]["UV"]
    assert (ROOT / "locks/uv.lock").read_text().startswith(f"uv=={uv} ")
    for image in ("dev", "runtime"):
        dockerfile = shown[f"docker/{image}.Dockerfile"]
        assert re.findall(r"^ARG (.*)", dockerfile, re.MULTILINE) == [
            "BASE=python:3.13-slim-trixie",
            f"UV=ghcr.io/astral-sh/uv:{uv}",
        ]
        assert re.findall(r"^USER (.*)", dockerfile, re.MULTILINE) == ["1001"]
    assert shown[".python-version"] == "3.13\n"
    assert tomllib.loads(shown["pyproject.toml"])["project"]["requires-python"] == ">=3.13"


def test_a_terminal_prompts_for_the_options_that_were_not_given(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        # The description is typed, the labels stay, and the cursor moves from Python 3.12 to 3.13.
        keys.send_text("\x15Fast kernels\r" + "\r" + "\x1b[B\r")
        assert ask("new-project", "gpu-kernels", *PACKAGE, "--write").code == 0
    project = tomllib.loads((tmp_path / "gpu-kernels/pyproject.toml").read_text())["project"]
    assert (project["description"], project["requires-python"]) == ("Fast kernels", ">=3.13")


def test_ctrl_c_at_a_prompt_writes_nothing(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text("\x03")
        assert ask("new-project", "gpu-kernels", *PACKAGE, "--write").code == 130
    assert written(tmp_path) == []


def test_the_users_own_defaults_of_copier_change_nothing(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(ask)
    settings = tmp_path / "settings.yml"
    settings.write_text("defaults: {description: Other, python: '3.14'}\n")
    monkeypatch.setenv("COPIER_SETTINGS_PATH", str(settings))
    assert files(ask) == before


@pytest.mark.slow
def test_the_tests_of_a_new_project_pass_on_a_cpu_without_an_edit(ask: Ask, tmp_path: Path, torch_python: Path) -> None:
    assert ask("new-project", "gpu-kernels", *PACKAGE, "--write").code == 0
    packages = Path(pytest.__file__).resolve().parents[1]
    environment = {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "smoke"), str(packages)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
    }
    pytest_command = (torch_python, "-m", "pytest", "-p", "no:cacheprovider")
    lines = run(tmp_path / "gpu-kernels", *pytest_command, **environment).splitlines()
    assert " 5 passed, 4 skipped in " in lines[-1]
    at = lines.index("4 did not run; here: no GPU (CUDA_VISIBLE_DEVICES is '')")
    assert lines[at + 1 : at + 3] == ["  3: needs 1 GPU", "  1: needs 1 GPU, 8 GiB"]
    # The command of the job gpu fails without a GPU, instead of skipping its tests.
    with pytest.raises(AssertionError, match="FAILED: --gpu=require, and no GPU test ran: 4 GPU tests did not run"):
        run(tmp_path / "gpu-kernels", *pytest_command, "-m", "gpu", "--gpu=require", **environment)


@pytest.mark.slow
@pytest.mark.parametrize("address", ["git+{root}@{commit}", "{root}"])
def test_uv_locks_a_new_project_and_finds_the_lock_current(ask: Ask, tmp_path: Path, address: str) -> None:
    commit = run(ROOT, "git", "rev-parse", "HEAD").strip()
    package = address.format(root=ROOT.as_uri(), commit=commit)  # a space becomes %20
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    options = ("--package", package, "--python", version, "--write")
    assert ask("new-project", "gpu-kernels", *options).code == 0
    uv = ROOT / ".tools/bin/uv"
    for arguments in ("lock",), ("lock", "--check"):
        run(tmp_path / "gpu-kernels", uv, "--quiet", *arguments, UV_PYTHON_DOWNLOADS="never")
    locked = {each["name"] for each in tomllib.loads((tmp_path / "gpu-kernels/uv.lock").read_text())["package"]}
    assert {"gpu-ci", "gpu-kernels", "pre-commit", "pytest", "torch"} <= locked
    assert ("pulumi" in locked) == package.startswith("file:")


def test_the_commands_of_the_page_are_accepted(ask: Ask, tmp_path: Path) -> None:
    blocks = [text.replace("\\\n", "") for language, text in fences(PAGE) if language == "sh"]
    lines = [line for text in blocks for line in text.splitlines() if line.startswith("gpu-ci new-project ")]
    assert len(lines) == 2
    for number, line in enumerate(lines):
        words = shlex.split(line.replace("COMMIT", COMMIT), comments=True)[1:]
        words[1] = f"{number}/gpu-kernels"
        assert ask(*words).code == 0
        assert written(tmp_path / f"{number}/gpu-kernels") == FILES


def test_the_page_lists_every_file(ask: Ask) -> None:
    rows = re.findall(r"^\| (`.*?) \|", PAGE.read_text().split("## The files")[1].split("\n## ")[0], re.MULTILINE)
    named = [name for row in rows for name in re.findall("`([^`]+)`", row)]
    starts = {name: name.replace("<module>", "gpu_kernels") for name in named}
    found = {name: [path for path in FILES if path.startswith(start)] for name, start in starts.items()}
    assert [name for name, paths in found.items() if not paths] == []
    assert sorted(path for paths in found.values() for path in paths) == FILES
