"""Tests a check of two nodes with the real engine. The sandbox runs no programs that wait for each other."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from tests.engine import eks

pytestmark = pytest.mark.engine

UP = ("up", "--stack", "dev", "--yes", "--skip-preview")


@pytest.mark.slow
def test_the_check_of_two_nodes_is_assumed_to_pass_and_proves_both(tmp_path: Path) -> None:
    with closing(eks.program("whole_pool", tmp_path)) as pool:
        up = pool.run(*UP)
        assert "the sandbox assumes that the container gpu-smoke succeeds" in up.output
        assert pool.json("stack", "output", "--stack", "dev", "--json") == {"provenNodes": 2, "verdict": "pass"}
        assert [row["name"] for row in pool.world() if row["name"] == "behind"] == ["behind"]
        _, done = pool.steps(*UP)
        assert done == []
