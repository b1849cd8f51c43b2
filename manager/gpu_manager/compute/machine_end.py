"""The end of a machine, from the guest attribute gpu-agent/end that its agent wrote (agent/gpu_agent/report.py)."""

from __future__ import annotations

import json

from ..model import End
from ..text import printable

GUEST_ATTRIBUTE = "gpu-agent/end"
_CHARACTERS = 1024


def read(text: str) -> End | None:
    """Return the end, or None if the machine wrote none or something that no agent writes."""
    try:
        value = json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    reason = value.get("reason")
    if not isinstance(reason, str) or not reason:
        return None
    return End(_line(reason), _line(str(value.get("detail", ""))), value.get("stops_pool") is True)


def _line(text: str) -> str:
    """Return the text as one line without terminal control characters, because a job may have written it."""
    return printable(text[:_CHARACTERS])
