"""Draws docs/pictures/make-up.svg from a real run in a terminal: `.venv/bin/python -m tools.docs.picture`."""

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
COLUMNS = 106


def terminal_output(*command: str) -> str:
    """Return the output of a command that runs in a terminal."""
    chunks: list[bytes] = []

    def read(descriptor: int) -> bytes:
        chunk = os.read(descriptor, 65536)
        chunks.append(chunk)
        return chunk

    code = os.waitstatus_to_exitcode(pty.spawn(list(command), read))
    if code:
        sys.exit(f"{command} exits with {code}; nothing was drawn")
    return b"".join(chunks).decode()


def screen_lines(output: str) -> list[str]:
    """Return the lines that are left on the screen. Rich redraws its live lines by cursor-up and erase-line codes."""
    lines, row = [""], 0
    for piece in re.split(r"(\n|\x1b\[1A|\x1b\[2K)", output.replace("\r", "")):
        if piece == "\n":
            row += 1
            lines += [""] * (row == len(lines))
        elif piece == "\x1b[1A":
            row -= 1
        elif piece == "\x1b[2K":
            lines[row] = ""
        else:
            lines[row] += re.sub(r"\x1b\[\?25[lh]", "", piece)
    return lines


def main() -> None:
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"PULUMI_SANDBOX_DIR": folder, "COLUMNS": str(COLUMNS), "LINES": "50", "TERM": "xterm-256color"}
        lines = screen_lines(terminal_output("make", "--no-print-directory", "up"))
    console = Console(record=True, width=COLUMNS, file=Path(os.devnull).open("w"), force_terminal=True)  # noqa: SIM115
    console.print("[bold]$[/] make up")
    for line in lines:
        console.print(Text.from_ansi(line), overflow="ellipsis", no_wrap=True)
    drawn = console.export_svg(title="gpu-ci")
    # Rich's SVG loads its font from a content network. Remove that, so that the picture makes no request.
    (ROOT / "docs/pictures/make-up.svg").write_text(re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL))


if __name__ == "__main__":
    main()
