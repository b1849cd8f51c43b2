"""A rule on the components' source that is no import; import-linter holds the rest (pyproject.toml, make check)."""

from __future__ import annotations

from tests.conftest import ROOT


def test_components_read_no_configuration_of_a_stack() -> None:
    package = ROOT / "components" / "gpu_ci"
    sources = sorted(package.rglob("*.py"))
    readers = [str(path.relative_to(package)) for path in sources if "pulumi.Config" in path.read_text()]
    assert readers == ["program/stack_file.py"], "only the program of a stack file reads the configuration"
