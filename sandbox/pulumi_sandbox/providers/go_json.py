"""JSON text as Go's encoding/json writes it."""

from __future__ import annotations

import json
from typing import Any

# Go's encoding/json writes these as escapes wherever they stand; outside of strings JSON has none of them.
ESCAPED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def go_json(value: Any, *, indented: bool = False) -> str:
    """JSON as Go's json.Marshal, or json.MarshalIndent with two spaces, writes it."""
    separators = (",", ": ") if indented else (",", ":")
    text = json.dumps(value, ensure_ascii=False, indent=2 if indented else None, separators=separators)
    return "".join(ESCAPED.get(one, one) for one in text)
