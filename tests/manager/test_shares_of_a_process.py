"""The shares of a process: it takes free shares and gives them back, and status shows them."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner
from gpu_ci.cli.commands import gpu_ci
from gpu_manager.cli import options
from gpu_manager.cli.log import Log
from gpu_manager.cli.run_command import balance
from gpu_manager.cli.share_loop import ShareLoop
from gpu_manager.ports import Unavailable
from gpu_manager.stores.shares import Share
from gpu_manager.stores.storage_api import GoogleObject
from gpu_manager.stores.views import merged_view

from tests.manager.stores.test_shares import Bucket
from tests.manager.test_commands import CONFIG


@dataclass
class Kept:
    """A store that is kept or closed."""

    calls: list[str] = field(default_factory=list)

    def renew_in_background(self) -> None:
        self.calls.append("renew_in_background")


@dataclass
class Loop:
    """A share of this process."""

    own: list[Any] = field(default_factory=list)
    closed: bool = False

    def close(self) -> None:
        self.closed = True


@dataclass
class Source:
    """The shares of the bucket."""

    free: Share | None = None
    waits: bool = False
    error: Exception | None = None

    def another_waits(self) -> bool:
        return self.waits

    def spare(self, held: Collection[int]) -> Share | None:
        if self.error:
            raise self.error
        return self.free


def balanced(source: Source, held: dict[int, Loop]) -> tuple[list[Share], list[str]]:
    added: list[Share] = []
    lines: list[str] = []
    log = Log(as_json=True, write=lines.append)
    balance(cast(Any, source), cast(dict[int, ShareLoop], held), added.append, log)
    return added, [json.loads(line)["event"] for line in lines]


def test_a_share_without_a_manager_is_taken_and_its_lease_renewed() -> None:
    store = Kept()
    free = Share(1, ("t4",), cast(Any, store))
    assert balanced(Source(free), {0: Loop()}) == ([free], [])
    assert store.calls == ["renew_in_background"]


def test_of_several_shares_the_last_one_is_given_to_a_manager_that_waits_and_the_only_one_never() -> None:
    first, second = Loop(), Loop()
    held = {0: first, 1: second}
    assert balanced(Source(waits=True), held) == ([], ["share-given"])
    assert (held, first.closed, second.closed) == ({0: first}, False, True)
    assert balanced(Source(waits=True), held) == ([], [])
    assert not first.closed


def test_a_bucket_that_does_not_answer_costs_no_share() -> None:
    held = {0: Loop()}
    assert balanced(Source(error=Unavailable("503")), held) == ([], ["unavailable"])
    assert list(held) == [0]


def view(**rows: Any) -> dict[str, Any]:
    empty = {"at": 5.0, "pools": [], "machines": [], "jobs": [], "githubLimitedUntil": None, "events": []}
    return {**empty, **rows}


def test_the_views_of_all_shares_are_one_view() -> None:
    job = {"repository": "a/b", "id": 1}
    first = view(at=9.0, pools=["l4"], jobs=[job], githubLimitedUntil=20.0)
    second = view(pools=["t4"], jobs=[job, {"repository": "a/b", "id": 2}], events=["insert"])
    assert merged_view([first, second]) == view(
        pools=["l4", "t4"], jobs=[job, {"repository": "a/b", "id": 2}], githubLimitedUntil=20.0, events=["insert"]
    )
    # A value that one share does not know is unknown.
    assert merged_view([first, view(jobs=None)])["jobs"] is None


def test_status_shows_the_pools_of_all_shares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = Bucket()
    for holder, name in (("a", "l4"), ("b", "t4")):
        share = bucket.take(holder, (("l4",), ("t4",)))
        pool = {"name": name, "max": 2, "machines": 1, "labels": [name], "stopped": ""}
        share.store.publish(view(pools=[pool]))
    (tmp_path / "manager.json").write_text(json.dumps(CONFIG))
    monkeypatch.setattr(options, "GoogleObject", lambda bucket_, name: GoogleObject(bucket_, name, bucket.storage, 0))
    where = ["--config", str(tmp_path / "manager.json"), "--state", "gs://state/state.json", "--json"]
    found = CliRunner().invoke(gpu_ci, ["manager", "status", *where])
    assert [pool["name"] for pool in json.loads(found.output)["pools"]] == ["l4", "t4"]
