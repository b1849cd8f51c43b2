"""The lock of the process that serves a sandbox (`pulumi-sandbox serve`)."""

from __future__ import annotations

import fcntl

from pulumi_sandbox.workspace import Workspace

LOCK = "serve.lock"


def serving_process(workspace: Workspace) -> str | None:
    """Return the id of the process that serves this sandbox, or None."""
    file = workspace.root / LOCK
    if not file.exists():
        return None
    with file.open("r+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return lock.read().strip()
    return None
