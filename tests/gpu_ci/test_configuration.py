"""A rule on the components' source that is no import; import-linter holds the rest (pyproject.toml, make check)."""

from __future__ import annotations

from tests.conftest import ROOT


def test_components_read_no_configuration_of_a_stack() -> None:
    sources = sorted((ROOT / "components").rglob("*.py"))
    assert sources, "components/ has no Python files"
    assert [str(path) for path in sources if "pulumi.Config" in path.read_text()] == []
