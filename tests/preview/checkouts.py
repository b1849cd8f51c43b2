"""A repository with a small project in a folder of it, and a branch with a change."""

from __future__ import annotations

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
