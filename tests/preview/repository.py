"""Creates a repository with this project's program, and branches for the changes in pull_requests.py."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from gpu_preview.environment.packages import Packages

from tests.conftest import ROOT

# What a preview of the stack reads; the sandbox itself is the installed one.
_PARTS = ("Pulumi.yaml", "Pulumi.staging.yaml", "sandbox.yaml", "README.md", "requirements.lock", "pyproject.toml",
          "infra", "components", "catalog", "common", "agent", "smoke", "policies")  # fmt: skip
IDENTITY = {f"GIT_{who}_{what}": "test@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def git(folder: Path, *words: str) -> str:
    """Run git without the user's configuration."""
    environment = {**os.environ, **IDENTITY, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    done = subprocess.run(["git", *words], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def start(folder: Path, stack: Path | None = None) -> Path:
    """Create the base, committed as `main`. Its environment imports this project's packages from the base.

    The files in the folder `stack` replace those of this project.
    """
    folder.mkdir(parents=True)
    for part in _PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(source, folder / part)
    if stack is not None:
        shutil.copytree(stack, folder, dirs_exist_ok=True)
    (folder / ".gitignore").write_text(".venv\n.venv-policy\n.sandbox\n__pycache__\n")
    provide_environment(folder)
    git(folder, "init", "-q", "-b", "main")
    commit(folder, "base")
    return folder


def provide_environment(folder: Path) -> None:
    """Create the environments of program and policies, with this checkout's packages and the folder's modules."""
    for name, project in ((".venv", ROOT), (".venv-policy", ROOT / "policies")):
        shutil.rmtree(folder / name, ignore_errors=True)
        Packages(ROOT, project).provide_environment(folder)


def commit(folder: Path, message: str) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "-q", "--allow-empty", "-m", message)


def branch(folder: Path, name: str, edit: Callable[[Path], object], start: str = "main") -> None:
    """Create a branch with a change in a clone, because other tests may read the working tree."""
    with tempfile.TemporaryDirectory() as clone:
        git(folder, "clone", "-q", "--shared", "--branch", start, ".", clone)
        edit(Path(clone))
        commit(Path(clone), name)
        git(Path(clone), "push", "-q", "--force", "origin", f"HEAD:refs/heads/{name}")
