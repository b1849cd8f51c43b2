"""The pools of a stack file: their shape, their kinds and names, and what two of them may not share."""

from __future__ import annotations

from tests.gpu_ci.program.stack import L4, config, load, refused


def test_pools_given_as_json_text_are_read() -> None:
    text = '{"l4": {"kind": "gce-runners", "machineType": "g2-standard-8", "zones": ["us-central1-a"], "max": 1}}'
    assert [pool.name for pool in load(config(text)).specs] == ["l4"]


def test_the_proposed_name_is_itself_accepted() -> None:
    for name in ("L4", "l4_spot", "4l", "l4.spot", "-", "", "x" * 60, "Ä" * 50):
        [problem] = refused(config({name: L4})).problems
        assert [pool.name for pool in load(config({problem.hint.removeprefix("such as "): L4})).specs]


def test_a_pool_with_one_label_more_is_another_pool() -> None:
    pools = {"a": L4 | {"runnerLabels": ["gpu"]}, "b": L4 | {"runnerLabels": ["gpu", "big"]}}
    assert [pool.name for pool in load(config(pools)).specs] == ["a", "b"]
