"""Pulumi's own Python language host needs certain packages and programs in an environment."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from pulumi_sandbox.engine import locate
from pulumi_sandbox.language_host import official as official_host
from pulumi_sandbox.workspace import Workspace

from tests.conftest import ROOT
from tests.sandbox.conftest import OUR_HOST, Project
from tests.sandbox.language_host.hosts import environment_with
from tests.sandbox.language_host.official_host import distribution
from tests.sandbox_runner import SandboxRunner

UV = ROOT / ".tools" / "bin" / "uv"
UP = ("up", "--stack", "dev", "--yes", "--skip-preview")
GREETING = "import pulumi\npulumi.export('greeting', 'hello')\n"


def lend_sdk(environment: Path) -> Path:
    """Let an environment import what this one has, instead of installing it."""
    [packages] = environment.glob("lib/python3*/site-packages")
    [ours] = Path(sys.prefix).glob("lib/python3*/site-packages")
    (packages / "sdk.pth").write_text(f"{ours}\n")
    return environment


def by_venv(folder: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    return folder


def with_pip(folder: Path) -> Path:
    """An environment as `python -m venv` makes it, with this environment's pip: installing one takes seconds."""
    packages = environment_with(folder)
    [ours] = Path(sys.prefix).glob("lib/python3*/site-packages")
    for each in [ours / "pip", *ours.glob("pip-*.dist-info")]:
        (packages / each.name).symlink_to(each)
    return folder


def by_uv_venv(folder: Path) -> Path:
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    return folder


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as Pulumi's installer makes it."""
    found = locate.ensure(print)
    if found.has_official_host:
        return found.folder
    return distribution(tmp_path_factory.mktemp("official") / "bin", found)


def run(runner: SandboxRunner, installed: Path, *words: str, ok: bool = True) -> str:
    path = f"{installed}:{UV.parent}:/usr/local/bin:/usr/bin:/bin"
    return runner.run(*words, ok=ok, PATH=path, PULUMI_SANDBOX_ENGINE="path").output


@pytest.mark.slow
@pytest.mark.engine
def test_this_checkouts_program_runs_with_it(sandbox: SandboxRunner, installed: Path) -> None:
    output = run(sandbox, installed, "preview", "--stack", "staging")
    assert "l4-group" in output
    assert "to create" in output


@pytest.mark.slow
@pytest.mark.engine
def test_an_environment_of_venv_works(project: Project, installed: Path) -> None:
    runner = project(GREETING, "    virtualenv: .venv\n")
    lend_sdk(by_venv(runner.project / ".venv"))
    assert 'greeting: "hello"' in run(runner, installed, *UP)


@pytest.mark.slow
@pytest.mark.engine
def test_an_environment_of_uv_venv_ends_with_what_to_do_and_then_works(project: Project, installed: Path) -> None:
    runner = project(GREETING, "    virtualenv: .venv\n")
    python = by_uv_venv(runner.project / ".venv") / "bin" / "python"
    assert run(runner, installed, *UP, ok=False) == (
        f"Pulumi.yaml: runtime.options.virtualenv: {runner.project}/.venv: has no pip\n"
        "  got: an environment without pip, such as `uv venv` creates\n"
        "  expected: an environment with pip, because Pulumi's Python language host lists the program's packages with "
        "`python -m pip list`\n"
        f"  hint: run `uv pip install --python {shlex.quote(str(python))} pip`, or set `toolchain: uv` in Pulumi.yaml "
        "if the project has a uv.lock\n"
    )
    lend_sdk(runner.project / ".venv")
    assert 'greeting: "hello"' in run(runner, installed, *UP)


def versions(project: Path) -> dict[str, str]:
    """The providers that are installed for a program, as `prepare` leaves them."""
    workspace = Workspace(project / ".sandbox", project)
    assert official_host.prepare(workspace, os.environ) == ""
    folders = sorted(each.name for each in (workspace.home / "plugins").glob("resource-*"))
    return {name: version for name, _, version in (each.removeprefix("resource-").partition("-v") for each in folders)}


@pytest.mark.slow
@pytest.mark.usefixtures("own_folder")
def test_a_programs_python_is_asked_without_what_is_hidden_from_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A .pth file of its environment runs when it starts."""
    monkeypatch.setenv("DIGITALOCEAN_TOKEN", "planted-token")
    project = with_options(tmp_path / "project", "{virtualenv: .venv}")
    [packages] = lend_sdk(environment_with(project / ".venv").parents[2]).glob("lib/python3*/site-packages")
    seen = project / "seen"
    (packages / "look.pth").write_text(
        f"import os; open({str(seen)!r}, 'a').write(os.environ.get('DIGITALOCEAN_TOKEN', 'hidden') + '\\n')\n"
    )
    workspace = Workspace(project / ".sandbox", project)
    assert official_host.prepare(workspace, workspace.child_environment()) == ""
    assert set(seen.read_text().split()) == {"hidden"}


def with_options(folder: Path, options: str) -> Path:
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text(f"name: small\nmain: code\nruntime: {{name: python, options: {options}}}\n")
    (folder / "code").mkdir()
    return folder


@pytest.mark.slow
def test_any_version_of_an_sdk_has_a_provider_as_the_official_host_asks_for_its_own(tmp_path: Path) -> None:
    project = with_options(tmp_path / "a project", "{virtualenv: .venv}")
    [packages] = with_pip(project / ".venv").glob("lib/python3*/site-packages")
    for name, version in (("gcp", "9.37.1"), ("random", "4.0.0")):
        (packages / f"pulumi_{name}").mkdir()
        described = {"resource": True, "name": name, "version": version}
        (packages / f"pulumi_{name}" / "pulumi-plugin.json").write_text(json.dumps(described))
    assert versions(project) == {"gcp": "9.37.1"}


@pytest.mark.parametrize("tool", ["uv", "poetry"])
def test_for_uv_and_poetry_the_versions_are_those_of_the_lock(tmp_path: Path, tool: str) -> None:
    """The real host reads the lock, too, and both tools may have made no environment yet."""
    project = with_options(tmp_path / "a project", f"{{toolchain: {tool}}}")
    lock = '[[package]]\nname = "pulumi"\nversion = "3.1.0"\n\n[[package]]\nname = "pulumi-aws"\nversion = "7.1.2"\n'
    (project / f"{tool}.lock").write_text(lock + '\n[[package]]\nname = "small"\nsource = { virtual = "." }\n')
    assert versions(project) == {"aws": "7.1.2"}


@pytest.mark.parametrize(
    "lock",
    ["package = 3", "package = [3]", "[[package]]\nversion = 3", '[[package]]\nname = "pulumi-aws"', "[", "\0",
     "[" * 9999,
     '[[package]]\nname = "pulumi-aws"\nversion = "1/../../../outside"',
     '[[package]]\nname = "aws"\nversion = "7.1.2"'],
)  # fmt: skip
def test_a_lock_that_is_none_and_a_version_that_is_none_install_nothing(tmp_path: Path, lock: str) -> None:
    project = with_options(tmp_path / "a project", "{toolchain: uv}")
    (project / "uv.lock").write_text(lock)
    assert versions(project) == {}
    assert not list(tmp_path.rglob("outside"))


@pytest.mark.engine
def test_a_policy_pack_without_its_environment_is_reported_at_once(project: Project, installed: Path) -> None:
    """With the official host the engine would wait for ever."""
    runner = project(GREETING, f"    virtualenv: {sys.prefix}\n")
    rules = runner.project / "rules"
    rules.mkdir()
    (rules / "PulumiPolicy.yaml").write_text("runtime: {name: python, options: {virtualenv: ../.venv-rules}}\n")
    failed = run(runner, installed, "preview", "--stack", "dev", "--policy-pack", "rules", ok=False)
    assert failed.startswith(f"PulumiPolicy.yaml: runtime.options.virtualenv: {rules}/../.venv-rules does not exist\n")


@pytest.mark.slow
@pytest.mark.engine
def test_an_environment_of_uv_sync_works(project: Project, installed: Path) -> None:
    runner = project(GREETING, "    toolchain: uv\n")
    (runner.project / "pyproject.toml").write_text('[project]\nname = "small"\nversion = "1.0"\n')
    subprocess.run([UV, "sync", "--quiet", "--python", sys.executable], cwd=runner.project, check=True)
    lend_sdk(runner.project / ".venv")
    # The small host knows pip alone, so this is our own, as with a CLI that was built here.
    if locate.ensure(print).has_official_host:
        output = run(runner, installed, *UP)
    else:
        output = runner.run(*UP, PATH=f"{UV.parent}:/usr/local/bin:/usr/bin:/bin", **OUR_HOST).output
    assert 'greeting: "hello"' in output
