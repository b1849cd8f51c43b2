"""Draws each diagram of docs/pictures from its D2 source: `make diagrams`. Needs Go.

An SVG has the SHA-256 of its source, so that a test finds an outdated SVG without drawing it.
"""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "pictures"
D2 = "oss.terrastruct.com/d2@v0.7.1"
# Neutral colours, and dark colours if the reader's browser prefers dark pages.
_OPTIONS = ("--theme", "0", "--dark-theme", "200", "--pad", "20", "--layout", "elk")


def sources() -> list[Path]:
    """Return the D2 sources."""
    return sorted(PICTURES.glob("*.d2"))


def mark(source: Path) -> str:
    """Return the line that an SVG of this source ends with."""
    return f"<!-- {source.name} {hashlib.sha256(source.read_bytes()).hexdigest()} -->\n"


def main() -> None:
    """Draw all diagrams."""
    for source in sources():
        picture = source.with_suffix(".svg")
        subprocess.run(["go", "run", D2, *_OPTIONS, source, picture], check=True)
        picture.write_text(picture.read_text() + "\n" + mark(source))


if __name__ == "__main__":
    main()
