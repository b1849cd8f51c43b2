"""The names of torch wheels."""

from __future__ import annotations

import pytest
from gpu_smoke.compat import data, rules


@pytest.mark.parametrize("text", ["2", "2.9.1cu130", "latest", "2.9.1+", ""])
def test_an_invalid_torch_version_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="not a torch version"):
        rules.parse_wheel(text)


@pytest.mark.parametrize(
    ("torch", "build"),
    [("2.7.1", "cu126"), ("2.10.0", "cu128"), ("2.11.0", "cu130"), ("2.14.0", "cu130"), ("2.15.0", "cu132")],
)
def test_a_wheel_without_a_build_is_the_one_that_pypi_has(torch: str, build: str) -> None:
    assert str(rules.parse_wheel(torch)) == f"{torch}+{build}"


def test_a_default_build_is_one_that_exists() -> None:
    for release in data.X86.values():
        assert release.default in release.builds
