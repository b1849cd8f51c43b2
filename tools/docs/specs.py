"""The published schema of the file that `gpu-smoke record` writes, from the one that its reader goes by."""

from __future__ import annotations

import json

from gpu_smoke.history.measurements import FILE


def schema() -> str:
    """The schema as a file."""
    return json.dumps(FILE, indent=2) + "\n"
