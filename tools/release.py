"""Prints the text of a release from CHANGELOG.md, and fails if a tag does not match the version.

python -m tools.release v0.2.0
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main(tag: str, root: Path = ROOT) -> str:
    """Return the section of CHANGELOG.md of a tag's version.

    Raises:
        SystemExit: The tag is not the version of pyproject.toml, or the changelog has no text for it.
    """
    version = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    if tag != f"v{version}":
        sys.exit(f"release: the tag is not the version of pyproject.toml\n  got: {tag}\n  expected: v{version}")
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    section = re.search(rf"^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if not section or not section[1].strip():
        hint = f"rename [Unreleased] to [{version}], with the date"
        sys.exit(f"release: CHANGELOG.md has no text for {version}\n  hint: {hint}")
    return section[1].strip()


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
