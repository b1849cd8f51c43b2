"""Creates a repository with a small project in a folder, and a branch with a change."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.preview.repository import git


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
