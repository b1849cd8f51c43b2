"""Draws docs/pictures/make-up.svg from a real run: `.venv/bin/python -m tools.docs.picture`.

What is drawn is what the command printed in a terminal of this width; nothing is written by hand. Lines that only say
that something begins are left out.
"""

from __future__ import annotations

import os
import pty
import re
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = 104


def printed_by(*command: str) -> str:
    """Everything a command prints when it believes that it talks to a terminal."""
    chunks: list[bytes] = []

    def read(descriptor: int) -> bytes:
        chunk = os.read(descriptor, 65536)
        chunks.append(chunk)
        return chunk

    code = os.waitstatus_to_exitcode(pty.spawn(list(command), read))
    if code:
        sys.exit(f"{command} ended with {code}; nothing was drawn")
    return b"".join(chunks).decode()


def main() -> None:
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"PULUMI_SANDBOX_DIR": folder, "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
        # The plain view prints each step once; the interactive one redraws its lines, which a picture cannot show.
        text = printed_by(
            "make",
            "--no-print-directory",
            "up",
            "ARGS=--suppress-progress --non-interactive --color always",
        )
    begins = re.compile(r"creating \(\d+s\)\x1b\[0m *$")
    lines = [line for line in re.sub(r"\r", "", text).split("\n") if line.strip() and not begins.search(line)]
    console = Console(record=True, width=COLUMNS, file=Path(os.devnull).open("w"), force_terminal=True)  # noqa: SIM115
    console.print("[bold]$[/] make up")
    for line in lines:
        console.print(Text.from_ansi(line), overflow="ellipsis", no_wrap=True)
    drawn = console.export_svg(title="gpu-ci")
    # Rich asks a content network for its font; a picture in a repository asks nobody.
    (ROOT / "docs/pictures/make-up.svg").write_text(re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL))


if __name__ == "__main__":
    main()
