"""What stands on the other side of the hooks' socket: the agent's archive, and lines of a test's own."""

from __future__ import annotations

import contextlib
import shutil
import socket
import zipapp
from pathlib import Path

import gpu_agent


def pack(folder: Path) -> Path:
    """The agent's archive as far as hooks go: their part of its command line, and the modules."""
    source = folder / "source"
    shutil.copytree(Path(gpu_agent.__file__).parent, source / "gpu_agent", ignore=shutil.ignore_patterns("__pycache__"))
    (source / "__main__.py").write_text(
        "import sys\n"
        "from gpu_agent.runner import hooks\n"
        "assert sys.argv[1] == 'hook'\n"
        "sys.exit(hooks.client(sys.argv[2:]))\n"
    )
    zipapp.create_archive(source, folder / "agent.pyz")
    return folder / "agent.pyz"


def raw(folder: Path, text: bytes) -> bytes:
    """What is answered to a line of our own; nothing where we are hung up on, before or after it is written."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError), socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(str(folder / "hooks.sock"))
        connection.sendall(text)
        connection.shutdown(socket.SHUT_WR)
        return connection.recv(4096)
    return b""
