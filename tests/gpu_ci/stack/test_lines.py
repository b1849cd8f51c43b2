"""The lines of a stack file that problems are about."""

from __future__ import annotations

import pytest
from gpu_ci.stack.lines import lines_of

TEXT = """\
encryptionsalt: v1:x
config:
  gpu-ci:pools:
    l4:
      zones: [us-central1-a,
        us-central1-b]
    "a.b":
      max: 1
  gpu-ci:site: '{"labels": {}}'
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("gpu-ci:pools", 3),
        ("gpu-ci:pools.l4", 4),
        ("gpu-ci:pools.l4.zones", 5),
        ("gpu-ci:pools.l4.zones[1]", 6),
        ('gpu-ci:pools["a.b"].max', 8),
        ("gpu-ci:pools.l4.zones[2]", 5),
        ("gpu-ci:pools.l4.max", 4),
        ("gpu-ci:site.labels.team", 9),
        ("gpu-ci:quotas", None),
        ("", None),
    ],
)
def test_the_line_is_that_of_the_path_or_of_the_innermost_map_around_it(path: str, line: int | None) -> None:
    assert lines_of(TEXT)(path) == line


@pytest.mark.parametrize("text", ["", "- a", "config: [", "config:\n\tx: 1", "\x07"])
def test_a_text_without_configuration_has_no_lines(text: str) -> None:
    assert lines_of(text)("gpu-ci:pools") is None
