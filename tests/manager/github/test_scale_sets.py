"""Runner scale sets as the manager's second source of jobs, with the Actions service that ARC is tested with."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx2
import pytest
from gpu_manager.cli import run_command
from gpu_manager.cli.run_command import Log, Loops
from gpu_manager.config import Config, GithubConfig
from gpu_manager.github.adapter import GithubAdapter
from gpu_manager.github.app_token import App
from gpu_manager.github.scale_sets import ScaleSets
from gpu_manager.model import JobKey, NewRunner, Offer, Pool
from gpu_manager.ports import GithubView, Refused, Unavailable
from gpu_manager.stores.sqlite import SqliteStore
from pulumi_sandbox.providers.machines.local_server import Answer

from tests.control_plane.actions_service import ActionsService
from tests.manager.github.fake_github import APP, INSTALLATION, ORG, URL, FakeGithub, group, job, repository, run
from tests.manager.github.fake_github import adapter as adapter_of

RUNG = Offer("us-central1-a", "g2-standard-8", "spot")
LABELS = frozenset({"gpu", "l4"})
POOL = Pool("l4", "example", "templates/l4", (RUNG,), 2, LABELS, "gpu", registered_by="manager")
FREE_SEC = 60.0
"""Enough seconds between two sweeps for GitHub's limits."""


class Both(httpx2.BaseTransport):
    """The fake GitHub for its own address, and real requests for those of the Actions service."""

    def __init__(self, github: FakeGithub, service: ActionsService) -> None:
        self._github, self._service, self._http = github, service, httpx2.HTTPTransport()

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        path = request.url.path.removeprefix("/api/v3")
        if request.url.host != httpx2.URL(URL).host:
            return self._http.handle_request(request)
        if b'{"organization_self_hosted_runners":"write"}' in request.read().replace(b" ", b""):
            return httpx2.Response(201, json={"token": "ghs_plantedSECRET"})
        if path.endswith("/registration-token"):
            assert path == f"/orgs/{ORG}/actions/runners/registration-token"
            return httpx2.Response(201, json={"token": "registration-plantedSECRET"})
        if path == "/actions/runner-registration":
            assert request.headers["authorization"] == "RemoteAuth registration-plantedSECRET"
            assert json.loads(request.content) == {"url": f"https://github.example/{ORG}", "runner_event": "register"}
            return self._http.handle_request(httpx2.Request("POST", f"{self._service.url}{path}"))
        return self._github.handle(request)

    def close(self) -> None:
        self._http.close()


class Managed:
    """The adapter of a manager with scale sets."""

    def __init__(self, folder: Path, github: FakeGithub, service: ActionsService, *pools: Pool) -> None:
        self.github, self.service = github, service
        adapter_of(github, folder).close()  # writes the key
        transport, clocks, app = (
            Both(github, service),
            github.clock.clocks(),
            App(APP, INSTALLATION, folder / "app.pem"),
        )
        self.sets = ScaleSets(
            URL, app, ORG, "prod", pools or (POOL,), pause_sec=0.05, clocks=clocks, transport=transport
        )
        self.adapter = GithubAdapter(
            URL, app, ORG, ["gpu"], scale_sets=self.sets, clocks=clocks, transport=transport
        )  # fmt: skip
        self.sets.start()

    def observe(self) -> GithubView:
        self.github.clock.pass_time(FREE_SEC)
        self.github.asked.clear()
        return self.adapter.observe(())

    def found(self) -> list[int]:
        return sorted(each.key.job_id for each in self.observe().jobs or ())

    def settle(self) -> None:
        """Wait for the session, and read all repositories as each new session requires."""
        until(lambda: self.service.sessions and self.service.capacities)
        assert self.observe().problems == ()
        self.github.clock.pass_time(1)

    def close(self) -> None:
        self.sets.close()
        self.adapter.close()


def until(holds: Callable[[], object], seconds: float = 5.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


def queued(github: FakeGithub, run_id: int = 1, name: str = "kernels", *labels: str) -> None:
    github.runs.setdefault(name, []).append(run(run_id, "queued"))
    github.jobs[run_id] = [job(run_id * 11, run_id, "queued", *(labels or LABELS))]


@pytest.fixture
def service() -> Iterator[ActionsService]:
    made = ActionsService(hold_sec=0.2)
    yield made
    made.server.close()


@pytest.fixture
def manager(tmp_path: Path, github: FakeGithub, service: ActionsService) -> Iterator[Managed]:
    github.clock.unix_now = time.time()
    made = Managed(tmp_path, github, service)
    yield made
    made.close()


def test_a_job_is_found_within_a_second_by_reading_its_run_only(
    manager: Managed, github: FakeGithub, service: ActionsService
) -> None:
    manager.settle()
    assert not manager.adapter.is_called
    queued(github)
    service.queue("example-org/kernels", 1, LABELS)
    until(lambda: manager.adapter.is_called, 1.0)
    view = manager.observe()
    [found] = view.jobs or ()
    assert (found.key, found.runner_groups, view.problems) == (JobKey("example-org/kernels", 1, 11, 1), {"gpu"}, ())
    assert [each for each in github.asked if "/runs" in each] == [
        "GET /repos/example-org/kernels/actions/runs/1",
        "GET /repos/example-org/kernels/actions/runs/1/jobs?filter=latest&per_page=100",
    ]
    assert not manager.adapter.is_called
    assert set(service.capacities) == {"2"}
    github.jobs[1][0] |= {"status": "in_progress", "runner_name": "l4-a", "runner_id": 7}
    assert manager.found() == [11]
    github.runs["kernels"][0]["status"] = "completed"
    assert manager.found() == []
    manager.observe()
    assert not [each for each in github.asked if "/runs" in each]


def test_requests_between_sweeps_of_all_do_not_grow_with_the_repositories(
    tmp_path: Path, github: FakeGithub, service: ActionsService
) -> None:
    counts, github.clock.unix_now = [], time.time()
    for many in (1, 30):
        service.forget(next(iter(service.sets), 0))
        names = ["kernels", *(f"other-{number}" for number in range(1, many))]
        github.group_repositories[2], github.runs = [repository(each) for each in names], {}
        queued(github)
        for number, name in enumerate(names[1:], 100):  # runs without a job for the pool
            queued(github, number, name, "ubuntu-latest")
        with closing(Managed(tmp_path, github, service)) as manager:
            manager.settle()
            assert len(manager.observe().jobs or ()) == many
            counts.append(len(github.asked))
    assert counts == [5, 5]


def test_the_sweep_of_all_finds_the_job_of_a_lost_message_and_says_so(manager: Managed, github: FakeGithub) -> None:
    manager.settle()
    queued(github)
    for _ in range(19):
        github.clock.pass_time(30)
        assert manager.adapter.observe(()).jobs == ()
    github.conditions.clear()
    view = manager.observe()
    assert [each.key.job_id for each in view.jobs or ()] == [11]
    lost = "example-org/kernels: no message of a runner scale set has named run 1, whose job waits"
    assert view.problems == (lost,)
    assert "GET /repos/example-org/kernels/actions/runs?status=waiting&per_page=100" in github.conditions
    assert manager.observe().problems == ()


def test_a_repository_that_cannot_be_listed_is_listed_again_in_the_next_sweep(
    manager: Managed, github: FakeGithub
) -> None:
    github.group_repositories[2] = [repository("kernels"), repository("models")]
    queued(github)
    until(lambda: manager.service.sessions)
    github.faults["/repos/example-org/kernels/actions/runs?"] = lambda _: httpx2.Response(502)
    assert manager.observe().unread == {"example-org/kernels"}
    github.faults.clear()
    assert manager.found() == [11]
    assert not [each for each in github.asked if "models" in each]


def test_a_session_of_another_process_is_waited_for_and_no_token_is_shown(
    tmp_path: Path, github: FakeGithub, service: ActionsService
) -> None:
    github.clock.unix_now = time.time()
    first = Managed(tmp_path, github, service)
    first.settle()
    [number] = service.sets
    with closing(Managed(tmp_path, github, service)) as second:
        until(lambda: second.sets.problems)
        queued(github)
        assert second.found() == [11]
        expected = "another session receives its messages, such as that of a manager that was killed"
        assert second.observe().problems == (f"the runner scale set prod-l4: {expected}",)
        first.close()
        until(lambda: not second.sets.problems)
        token = service.sessions[number]["messageQueueAccessToken"]
        service.faults["GET /messages"] = [Answer(403, json.dumps({"message": f"not {token}"}), "application/json")]
        until(lambda: second.sets.problems)
        assert token not in f"{second.observe().problems}{second.sets._sets}"
    assert service.sessions == {}


def test_messages_continue_after_the_tokens_end(manager: Managed, github: FakeGithub, service: ActionsService) -> None:
    manager.settle()
    [number] = service.sets
    service.expire()
    queued(github)
    service.queue("example-org/kernels", 1, LABELS)
    until(lambda: manager.adapter.is_called and not service.waiting[number])
    assert manager.found() == [11]
    assert [each for each in service.asked if each.startswith("POST") and "/sessions" in each][1:] == []


def test_a_set_that_is_gone_is_created_again_by_its_name_and_its_messages_count_as_lost(
    manager: Managed, github: FakeGithub, service: ActionsService
) -> None:
    queued(github)
    manager.settle()  # the job of the first sweep needs no message
    [number] = service.sets
    service.forget(number)
    queued(github, 2)
    seen = len(service.capacities)
    until(lambda: service.sets and len(service.capacities) > seen)
    assert manager.found() == [11, 22]
    [[again, found]] = service.sets.items()
    labels = [{"type": "System", "name": "gpu"}, {"type": "System", "name": "l4"}]
    assert (again != number, found["name"], found["labels"]) == (True, "prod-l4", labels)
    made = manager.adapter.register(POOL, "l4-0a1b2c3d-42")
    assert (made, service.runners) == (NewRunner(made.id, "l4-0a1b2c3d-42", "e30="), {made.name: again})


def test_a_runner_is_one_of_the_set(manager: Managed, github: FakeGithub, service: ActionsService) -> None:
    manager.settle()
    made = manager.adapter.register(POOL, "l4-0a1b2c3d-42")
    assert (made.name, service.runners) == ("l4-0a1b2c3d-42", {"l4-0a1b2c3d-42": next(iter(service.sets))})
    # GitHub knows the runner of a lost registration by its name.
    listed = {"total_count": 1, "runners": [{"id": made.id, "name": made.name, "status": "offline", "busy": False}]}

    def removed(request: httpx2.Request) -> httpx2.Response:
        if request.method == "DELETE":
            del service.runners[made.name]
        return httpx2.Response(204) if request.method == "DELETE" else httpx2.Response(200, json=listed)

    github.faults["/actions/runners"] = removed
    assert manager.adapter.register(POOL, "l4-0a1b2c3d-42").id > made.id
    service.sets.clear()  # the session still exists
    with pytest.raises(Unavailable, match="created again"):
        manager.adapter.register(POOL, "l4-0a1b2c3d-43")
    until(lambda: service.sets)


def test_a_message_is_acknowledged_after_it_is_noted_and_may_come_twice(
    manager: Managed, github: FakeGithub, service: ActionsService
) -> None:
    manager.settle()
    noted: list[bool] = []
    service.on_acknowledged = lambda: noted.append(manager.adapter.is_called)
    service.faults["DELETE /messages"] = [Answer(500, "", "text/plain")]
    queued(github)
    service.queue("example-org/kernels", 1, LABELS)
    until(lambda: noted)
    assert (noted, manager.found()) == ([True], [11])
    assert sum(each.startswith("DELETE /messages") for each in service.asked) == 2


def test_after_a_message_that_cannot_be_read_all_repositories_are(
    manager: Managed, github: FakeGithub, service: ActionsService
) -> None:
    manager.settle()
    [number] = service.sets
    queued(github)
    service.send(number, "{")
    until(lambda: manager.adapter.is_called)
    assert manager.found() == [11]
    until(lambda: not service.waiting[number])


def test_on_an_enterprise_server_jobs_are_acquired(
    manager: Managed, github: FakeGithub, service: ActionsService
) -> None:
    manager.settle()
    [number] = service.sets
    queued(github)
    request = service.queue("example-org/kernels", 1, LABELS, "JobAvailable")
    until(lambda: service.jobs[number] == {request: "assigned"})
    assert manager.found() == [11]


def test_labels_that_github_ignores_are_reported(tmp_path: Path, github: FakeGithub, service: ActionsService) -> None:
    service.custom_labels, github.clock.unix_now = False, time.time()
    with closing(Managed(tmp_path, github, service)) as manager:
        until(lambda: manager.sets.problems)
        assert "GitHub ignores its labels; an Enterprise Server needs version 3.18" in manager.sets.problems[0]
        with pytest.raises(Unavailable, match="does not exist yet"):
            manager.adapter.register(POOL, "l4-0a1b2c3d-42")


def test_a_public_group_is_still_refused(manager: Managed, github: FakeGithub) -> None:
    manager.settle()
    github.groups = [group(2, "gpu", allows_public_repositories=True)]
    manager.observe()
    with pytest.raises(Refused, match="allows public repositories"):
        manager.adapter.register(POOL, "l4-0a1b2c3d-42")


@pytest.mark.parametrize(
    ("called", "results", "waits"), [(True, [object()], False), (True, [], True), (False, [1], True)]
)
def test_a_message_ends_the_pause_between_two_passes(called: bool, results: list[Any], waits: bool) -> None:
    loops = [SimpleNamespace(is_called=called)]
    made = cast(Any, SimpleNamespace(_loops=loops, _scale_sets=object(), pause_sec=lambda *_: 1.2))
    began = time.monotonic()
    Loops.wait(made, threading.Event(), results, None)
    assert (time.monotonic() - began >= 1.2) is waits


def test_a_process_has_one_scale_set_for_each_pool_of_all_its_loops(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, service: ActionsService, github: FakeGithub
) -> None:
    github.clock.unix_now = time.time()
    adapter_of(github, tmp_path).close()
    made, given = ScaleSets, list[Any]()
    options = {"clocks": github.clock.clocks(), "transport": Both(github, service)}
    monkeypatch.setattr("gpu_manager.github.scale_sets.ScaleSets", lambda *values: made(*values, **options))
    monkeypatch.setattr(run_command, "supplier", lambda _: SimpleNamespace(of=lambda *_: SimpleNamespace(close=int)))
    monkeypatch.setattr(
        "gpu_manager.github.adapter.GithubAdapter",
        lambda *_, scale_sets, **__: given.append(scale_sets) or SimpleNamespace(close=int),
    )
    pools = [POOL, replace(POOL, name="a10g", labels=frozenset({"gpu", "a10g"}), supplier="ec2")]
    config = Config.model_construct(
        name="prod", github=GithubConfig(owner=ORG, app_id=1, installation_id=1), pools=pools, demand="scaleSets"
    )
    store = SqliteStore(tmp_path / "state.sqlite")
    app = App(APP, INSTALLATION, tmp_path / "app.pem")
    loops = Loops(config, app, URL, store, Log(True, [].append), None, measured=False)
    until(lambda: len(service.sessions) == 2)
    assert sorted(each["name"] for each in service.sets.values()) == ["prod-a10g", "prod-l4"]
    assert given[0] is given[1]
    loops.close()
    assert service.sessions == {}
