"""The page that compares names only checks that the code has."""

from __future__ import annotations

import ast
import re

from .conftest import ROOT

PAGE = ROOT / "docs" / "compared-checks.md"
SOURCES = [ast.parse(file.read_text()) for file in (ROOT / "smoke" / "gpu_smoke").rglob("*.py")]
TEXTS = {node.value for tree in SOURCES for node in ast.walk(tree) if isinstance(node, ast.Constant)}


def named() -> set[str]:
    """Every check in the last column of the page's second table."""
    table = PAGE.read_text().partition("| checks here |\n")[2].partition("\n\n")[0]
    return {name for row in table.splitlines()[1:] for name in re.findall(r"`([^`]+)`", row.split("|")[3])}


def test_every_check_that_the_page_names_is_one() -> None:
    assert len(named()) == 33
    # `gemm.peers` is put together from the check it compares.
    made = {f"{what}.{kind}" for what in ("gemm", "mem") for kind in ("peers", "history") if f".{kind}" in TEXTS}
    assert named() <= {text for text in TEXTS if isinstance(text, str)} | made
