from __future__ import annotations

import pytest
from gpu_common.suggest import closest

CHOICES = ("a2-highgpu-1g", "g2-standard-4", "g2-standard-8")


@pytest.mark.parametrize(
    ("name", "cutoff", "near"),
    [
        ("g2-standrd-8", 0.6, "g2-standard-8"),
        ("a2-highgpu", 0.6, "a2-highgpu-1g"),
        ("a2-highgpu", 0.9, ""),  # a ratio of 0.87
        ("t2d", 0.6, ""),
        ("", 0.6, ""),
    ],
)
def test_the_choice_most_like_a_name_is_found_where_it_is_as_like_as_asked(name: str, cutoff: float, near: str) -> None:
    assert closest(name, CHOICES, cutoff) == near
