"""The loops of one process, each with its supplier in a world of its own, while one supplier is down."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from gpu_manager.cli import run_command
from gpu_manager.cli.run_command import Log, Loops
from gpu_manager.config import Config, GithubConfig
from gpu_manager.ports import Refused, Unavailable
from gpu_manager.stores.sqlite import SqliteStore

from tests.manager.simulated_vendors import FakeCompute, FakeGithub, Faulty
from tests.manager.simulated_world import World, pool

PASS_SEC, DOWN_PASSES = 60, 60
LABELS = {"compute-engine": ("self-hosted", "gpu", "t4"), "ec2": ("self-hosted", "gpu", "l4")}


class Down(Faulty):
    """A vendor whose requests fail in each way while it is down. The second kind of error is a fault of our code."""

    is_down = False

    def before(self) -> None:
        if self.is_down:
            raise self.world.chance.choice((Unavailable("no answer"), KeyError("instances"), Refused("no")))


def test_a_supplier_that_is_down_for_an_hour_costs_the_pools_of_the_other_one_no_pass(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    worlds = {
        name: World(1, [pool(labels[-1], 2, *labels, market="standard")], faults=False)
        for name, labels in LABELS.items()
    }
    vendors = {name: Down(world, 0.0, 0.0) for name, world in worlds.items()}
    githubs = iter([FakeGithub(world, Faulty(world, 0.0, 0.0)) for world in worlds.values()])
    made = {name: FakeCompute(world, vendors[name], 0.0) for name, world in worlds.items()}
    monkeypatch.setattr(run_command, "supplier", lambda name: SimpleNamespace(of=lambda *_: made[name]))
    monkeypatch.setattr("gpu_manager.github.adapter.GithubAdapter", lambda *_, **__: next(githubs))
    monkeypatch.setattr(Config, "pools_by_supplier", lambda _: {name: world.pools for name, world in worlds.items()})
    config = Config.model_construct(
        name="staging", github=GithubConfig(owner="acme", app_id=1, installation_id=1), pools=worlds["ec2"].pools
    )
    store, lines = SqliteStore(tmp_path / "state.sqlite"), list[str]()
    loops = Loops(config, cast(Any, None), "", store, Log(True, lines.append), None, measured=False)

    def run(passes: int) -> list[tuple[bool, bool]]:
        found = []
        for _ in range(passes):
            first, second = loops.step()
            found.append((first.complete, second.complete))
            for world in worlds.values():
                world.advance(PASS_SEC)
        return found

    assert all(map(all, run(2)))
    vendors["compute-engine"].is_down = True
    queued = {name: [world.queue(LABELS[name], 60) for _ in range(2)] for name, world in worlds.items()}
    assert run(DOWN_PASSES) == [(False, True)] * DOWN_PASSES
    assert {name: {job.conclusion for job in queued[name]} for name in LABELS} == {
        "compute-engine": {""},
        "ec2": {"success"},
    }
    vendors["compute-engine"].is_down = False
    assert all(map(all, run(DOWN_PASSES)))
    assert {job.conclusion for job in queued["compute-engine"]} == {"success"}
    store.close()
