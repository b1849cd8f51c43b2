"""`gpu-ci new-project`: the files of a new project for GPU code, and every mistake of its options."""

from __future__ import annotations

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
from gpu_ci.cli.new_project.command import TEMPLATE
from gpu_ci.machines.rules import default_runner_labels

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


def test_copier_renders_the_same_files_from_the_template(ask: Ask, tmp_path: Path) -> None:
    """The template is an ordinary one of copier, for teams that update their projects with it."""
    options = {
        "name": "gpu-kernels",
        "labels": ["a10g"],
        "package": ADDRESS,
        "version": "0.1.0",
        "description": 'a "b"',
    }
    import copier

    copier.run_copy(str(TEMPLATE), tmp_path / "copied", options, defaults=True, quiet=True)
    shown = files(ask, "--label", "a10g", "--description", 'a "b"')
    assert {path: (tmp_path / "copied" / path).read_text() for path in written(tmp_path / "copied")} == shown


def test_with_write_the_files_are_those_that_json_shows(ask: Ask, tmp_path: Path) -> None:
    shown = files(ask)
    answer = ask("new-project", "gpu-kernels", *PACKAGE, "--write")
    assert (answer.code, answer.err) == (0, "")
    assert {path: (tmp_path / "gpu-kernels" / path).read_text() for path in written(tmp_path / "gpu-kernels")} == shown
    assert sorted(shown) == FILES
    leftover = re.compile(r"\{%|\{#|(?<!\$)\{\{")
    assert [path for path, text in shown.items() if leftover.search(text) or not text.endswith("\n")] == []


MISTAKES: list[tuple[tuple[str, ...], list[str]]] = [
    (("--name", "1kernel"), ["--name"]),
    (("--name", "gpu--kernels"), ["--name"]),
    (("--name", "class"), ["--name"]),
    (("--name", "json"), ["--name"]),
    (("--description", "one\ntwo"), ["--description"]),
    (("--description", "a\x1b[31m"), ["--description"]),
    (("--label", "gpu l4"), ["--label"]),
    (("--label", "${{ github.head_ref }}"), ["--label"]),
    (("--label", "gpu", "--label", "GPU"), ["--label"]),
    (("--python", "3.10"), ["--python"]),
    (("--package", "git+https://github.com/example-org/gpu-ci@main"), ["--package"]),
    (("--package", f'git+https://github.com/"x"@{COMMIT}'), ["--package"]),
    (("--package", f"git+https://user:password@github.com/example-org/gpu-ci@{COMMIT}"), ["--package"]),
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
