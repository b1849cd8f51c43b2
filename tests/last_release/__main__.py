"""Writes state.json.xz from an exported state without secrets."""

from __future__ import annotations

import json
import lzma
import sys
from pathlib import Path

from tests.last_release import STATE, without_payloads

state = without_payloads(json.loads(Path(sys.argv[1]).read_text()))
for resource in state["deployment"]["resources"]:
    for name in ("created", "modified", "sourcePosition", "stackTrace"):
        resource.pop(name, None)
STATE.write_bytes(lzma.compress(json.dumps(state, indent=1).encode(), preset=9))
