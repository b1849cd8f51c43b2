"""Components are found by reading sources; none may be missed for the folder it is in."""

from __future__ import annotations

from pathlib import Path

from gpu_ci.kinds import components_below

SOURCE = """
class RunnerPool(Component):
    TYPE: ClassVar[str] = "gpu-ci:gcp:RunnerPool"
    KIND: ClassVar[str] = "gce-runners"
"""


def test_components_are_found_at_any_depth(tmp_path: Path) -> None:
    for folder in ("gcp", "gcp/pool"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "runner_pool.py").write_text(SOURCE)
    found = components_below(tmp_path, "gpu_ci")
    assert {each.module for each in found} == {"gpu_ci.gcp.runner_pool", "gpu_ci.gcp.pool.runner_pool"}
    assert {(each.token, each.kind, each.name) for each in found} == {
        ("gpu-ci:gcp:RunnerPool", "gce-runners", "RunnerPool")
    }
