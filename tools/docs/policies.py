"""Writes the rules of the policy pack into docs/guides/policies.md. The other text of the page is not generated."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from gpu_ci_policies.rule import Rule
from gpu_ci_policies.rules import RULES

PAGE = Path(__file__).resolve().parents[2] / "docs/guides/policies.md"
_START, _END = "## Rules\n", "## Next\n"


def page() -> str:
    """Return the page with the rules of the pack."""
    text = PAGE.read_text(encoding="utf-8")
    rules = "\n".join(line for rule in RULES for line in _section(rule))
    return f"{text[: text.index(_START)]}{_START}\n{rules}\n{text[text.index(_END) :]}"


def _section(rule: Rule) -> Iterator[str]:
    yield f"### {rule.name}"
    yield ""
    yield rule.title if rule.level == "mandatory" else f"{rule.title} ({rule.level})"
    yield ""
    yield f"- Reason: {rule.why}"
    yield f"- Fix: {rule.fix}"
    for name, schema in rule.settings.items():
        default = f"by default `{json.dumps(schema['default'])}`" if "default" in schema else "no default"
        yield f"- Setting `{name}`, {default}: {schema['description']}"
    sources = (f"<{each}>" if each.startswith("https://") else f"`{each}`" for each in rule.sources)
    yield f"- Sources: {', '.join(sources)}"
    yield ""
