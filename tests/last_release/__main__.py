"""Writes state.json.xz from an exported state, without its secrets."""

from __future__ import annotations

import json
import lzma
import sys
from pathlib import Path
from typing import Any

from gpu_common import pulumi_wire
from pulumi_sandbox.providers.values import STRIPPED

from tests.last_release import STATE, without_payloads


def without_secrets(value: Any) -> Any:
    """Return the value with the sandbox's word in place of each secret."""
    if isinstance(value, list):
        return [without_secrets(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.get(pulumi_wire.SIGNATURE) == pulumi_wire.SECRET:
        return {pulumi_wire.SIGNATURE: pulumi_wire.SECRET, "plaintext": json.dumps(STRIPPED)}
    return {key: without_secrets(each) for key, each in value.items() if key != "secrets_providers"}


state = without_payloads(without_secrets(json.loads(Path(sys.argv[1]).read_text())))
for resource in state["deployment"]["resources"]:
    for name in ("created", "modified", "sourcePosition", "stackTrace"):
        resource.pop(name, None)
STATE.write_bytes(lzma.compress(json.dumps(state, indent=1).encode(), preset=9))
