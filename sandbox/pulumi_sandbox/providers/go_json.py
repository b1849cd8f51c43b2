"""JSON text in the format of Go's encoding/json."""

from __future__ import annotations

import json
from typing import Any

# Go's encoding/json always escapes these characters. JSON has them only in strings.
ESCAPED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def go_json(value: Any, *, indented: bool = False) -> str:
    """Return JSON in the format of Go's json.Marshal, or of json.MarshalIndent with two spaces."""
    separators = (",", ": ") if indented else (",", ":")
    text = json.dumps(value, ensure_ascii=False, indent=2 if indented else None, separators=separators)
    return "".join(ESCAPED.get(one, one) for one in text)
