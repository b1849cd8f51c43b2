"""Renders the report as one HTML file that makes no request and runs only its own script.

The browser draws the page from the report's JSON. The script never turns text into HTML. The content security policy in
the head (https://www.w3.org/TR/CSP3/) allows this script and these styles by their hashes, and no requests.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from pathlib import Path
from typing import Any

from gpu_common.visible import visible, visible_lines

from ..model import Report, Stack
from ..phrases import (
    NOT_IN_COSTS,
    SECRETS_UNCHANGED,
    base_hint,
    change,
    concerns,
    failed_first,
    origin,
    outcome,
    policies,
    question,
    sentence,
    signs,
    without_repeats,
    worst_month,
)

_PAGE = Path(__file__).with_name("page")
_SCRIPTS = ("elements.js", "layout.js", "graph.js", "page.js")
# Line breaks matter in the texts of errors and policies.
_IN_LINES = {"error", "text"}


def render(report: Report) -> str:
    """Return the whole file."""
    report = report.model_copy(update={"stacks": tuple(map(_punctuated, failed_first(report.stacks)))})
    style = (_PAGE / "page.css").read_text(encoding="utf-8")
    script = "\n".join((_PAGE / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    data = {"report": _shown(report.model_dump(mode="json", by_alias=True)), "words": _texts(report)}
    sections = {
        "csp": f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'",
        "style": style,
        "script": script,
        "noscript": "".join(
            f"<p>{html.escape(visible(each.stack))}: {outcome(each, report.how)}</p>" for each in report.stacks
        ),
        "data": _as_data(data),
    }
    page = (_PAGE / "page.html").read_text(encoding="utf-8")
    before, *rest = page.split("{{")
    # Each part is inserted once, so no text of the report can act as a placeholder.
    return before + "".join(sections[name] + after for name, _, after in (each.partition("}}") for each in rest))


def _texts(report: Report) -> dict[str, Any]:
    """Return the texts of the page, which are the same as in the other forms of the report."""
    stacks = [
        {
            "outcome": outcome(each, report.how),
            "concerns": concerns(each),
            "baseHint": base_hint(each),
            "policies": visible(policies(each)),
            "cost": (rows := _cost(each)),
            "costNote": f"{signs(cell for row in rows for cell in row[1:])} {NOT_IN_COSTS}".strip(),
            "worstMonth": worst_month(each),
            "violations": _shown(
                [one.model_dump(mode="json", by_alias=True) for one in without_repeats(each.violations)]
            ),
        }
        for each in report.stacks
    ]
    return {
        "origin": origin(report),
        "asked": question(report),
        "signs": signs(map(worst_month, report.stacks)),
        "stacks": stacks,
        "secretsTaken": SECRETS_UNCHANGED,
    }


def _punctuated(stack: Stack) -> Stack:
    findings = tuple(each.model_copy(update={"text": sentence(each)}) for each in stack.findings)
    return stack.model_copy(update={"findings": findings})


def _cost(stack: Stack) -> list[list[str]]:
    """Return the rows of the cost table; none without a known cost."""
    if stack.cost is None:
        return []
    cost = stack.cost
    rows = [
        *((visible(each.pool), each.before, each.after) for each in cost.pools),
        ("all pools", cost.before, cost.after),
    ]
    fields = ("at_rest_usd_per_hour", "at_max_usd_per_hour", "worst_month_usd")
    return [[name, *(change(before, after, field) for field in fields)] for name, before, after in rows]


def _shown(value: Any, name: str = "") -> Any:
    """Return the report with all texts cleaned for display."""
    if isinstance(value, str):
        return visible_lines(value) if name in _IN_LINES else visible(value)
    if isinstance(value, list):
        return [_shown(each, name) for each in value]
    if isinstance(value, dict):
        return {key: _shown(each, key) for key, each in value.items()}
    return value


def _as_data(value: Any) -> str:
    """Return JSON in which no text can end or begin a tag.

    https://html.spec.whatwg.org/multipage/scripting.html, "Restrictions for contents of script elements".
    """
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
