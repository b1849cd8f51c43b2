"""The client of the hooks' socket: the agent's archive as the runner starts it, and raw lines of a test."""

from __future__ import annotations

import contextlib
import shutil
import socket
import zipapp
from pathlib import Path

import gpu_agent


def pack(folder: Path) -> Path:
    """Pack the part of the agent that the hooks use: their command, and the modules."""
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
    """Send a raw line and return the answer. The answer is empty if the server closes the connection."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError), socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(str(folder / "hooks.sock"))
        connection.sendall(text)
        connection.shutdown(socket.SHUT_WR)
        return connection.recv(4096)
    return b""
