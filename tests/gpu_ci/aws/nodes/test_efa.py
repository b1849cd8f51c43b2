"""EFA: what nodes need to reach each other faster than over TCP."""

from __future__ import annotations

import gpu_catalog as catalog
import pytest
from gpu_ci.aws.nodes.launch_template import cards


@pytest.mark.parametrize(
    ("name", "expected"),
    [("g6e.24xlarge", (0, 1)), ("p5.48xlarge", tuple(range(32))), ("p6-b300.48xlarge", tuple(range(1, 17))),
     ("p6e-gb200.36xlarge", (1, 5, 9, 13))],
)  # fmt: skip
def test_there_is_one_interface_on_each_card_that_has_efa(name: str, expected: tuple[int, ...]) -> None:
    assert cards(catalog.machine(name)) == expected
