"""A repository with a small project in a folder of it, and a branch with a change."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.preview.repository import git


def start(root: Path) -> Path:
    """Its commits are `main` and `change`; the second is checked out."""
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
    """A tree of any entries, as git itself would write none."""
    answer = subprocess.run(
        ["git", "hash-object", "-t", "tree", "-w", "--stdin", "--literally"],
        cwd=folder, input=b"".join(entries), capture_output=True, check=True,
    )  # fmt: skip
    return answer.stdout.decode().strip()


def entry(mode: str, name: str, ident: str) -> bytes:
    """One of its entries."""
    return f"{mode} {name}".encode() + b"\0" + bytes.fromhex(ident)


def blob(folder: Path, content: bytes) -> str:
    """A file's content, kept by git."""
    answer = subprocess.run(
        ["git", "hash-object", "-w", "--stdin"], cwd=folder, input=content, capture_output=True, check=True
    )
    return answer.stdout.decode().strip()
