"""Writes docs/gpu-smoke-specs.schema.json, the JSON Schema of the file that `gpu-smoke record` writes and reads."""

from __future__ import annotations

import json

from gpu_smoke.history.measurements import FILE


def schema() -> str:
    """Return the schema as the text of a file."""
    return json.dumps(FILE, indent=2) + "\n"
