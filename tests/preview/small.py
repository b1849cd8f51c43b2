"""Creates a repository with a small program that does not use gpu_ci, and changes of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from gpu_preview.compare.compare import Request, compare
from gpu_preview.environment import virtualenv
from gpu_preview.git.repository import Repository
from gpu_preview.isolation.limits import Limits
from gpu_preview.model import Report

from tests.conftest import ROOT, imports
from tests.preview.repository import commit, git

BUCKET = 'import pulumi_gcp as gcp\ngcp.storage.Bucket("logs", location="EU")\n'


def repository(
    folder: Path, program: str = BUCKET, config: str = "  gcp:project: p\n", options: str = "virtualenv: .venv"
) -> Path:
    """Create a repository with a program and its stack `dev`, committed as `main`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "Pulumi.yaml").write_text(f"name: small\nruntime: {{name: python, options: {{{options}}}}}\n")
    (folder / "Pulumi.dev.yaml").write_text(f"config:\n{config}")
    (folder / "__main__.py").write_text(program)
    return started(folder)


def started(folder: Path) -> Path:
    (folder / ".gitignore").write_text(".venv\n.sandbox\n__pycache__\n")
    virtualenv.create(ROOT / ".venv", folder / ".venv", imports(ROOT / ".venv"))
    git(folder, "init", "-q", "-b", "main")
    commit(folder, "base")
    return folder


def change(folder: Path, program: str = "") -> None:
    """Create a branch `change` with another program, or with the same files."""
    git(folder, "checkout", "-q", "-f", "-B", "change", "main")
    if program:
        (folder / "__main__.py").write_text(program)
    commit(folder, "change")
    git(folder, "checkout", "-q", "-f", "main")


def ask(folder: Path, limits: Limits | None = None) -> Report:
    """Return the report on that branch."""
    request = Request(base="main", head="change", limits=limits or Limits())
    return compare(request, Repository.find(folder), lambda _: None)


def start(root: Path) -> Path:
    """Create a repository with the branches `main` and `change`, of which the second is checked out."""
    project = root / "infra"
    project.mkdir(parents=True)
    git(root, "init", "-q", "-b", "main")
    (project / "Pulumi.yaml").write_text("name: small\nruntime: python\n")
    (project / "Pulumi.dev.yaml").write_text("config: {}\n")
    git(root, "add", ".")
    git(root, "commit", "-qm", "one")
    git(root, "checkout", "-qb", "change")
    (project / "Pulumi.dev.yaml").write_text("config: {a: 1}\n")
    (project / "Pulumi.prod.yaml").symlink_to("/etc/passwd")
    git(root, "add", ".")
    git(root, "commit", "-qm", "two")
    return root


def tree(folder: Path, *entries: bytes) -> str:
    """Create a tree with any entries, also those that git itself would not write."""
    answer = subprocess.run(
        ["git", "hash-object", "-t", "tree", "-w", "--stdin", "--literally"],
        cwd=folder, input=b"".join(entries), capture_output=True, check=True,
    )  # fmt: skip
    return answer.stdout.decode().strip()


def entry(mode: str, name: str, ident: str) -> bytes:
    """Return one entry of a tree."""
    return f"{mode} {name}".encode() + b"\0" + bytes.fromhex(ident)


def blob(folder: Path, content: bytes) -> str:
    """Store the content of a file in git."""
    answer = subprocess.run(
        ["git", "hash-object", "-w", "--stdin"], cwd=folder, input=content, capture_output=True, check=True
    )
    return answer.stdout.decode().strip()
