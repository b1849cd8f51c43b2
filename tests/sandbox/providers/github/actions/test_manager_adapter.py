"""The runner manager's adapter against the sandbox's GitHub."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from cryptography.hazmat.primitives import serialization
from gpu_manager.github.adapter import GithubAdapter
from gpu_manager.github.app_token import App
from gpu_manager.github.rest_client import Clocks
from gpu_manager.model import JobKey, Report, RunKey, Runner
from gpu_manager.ports import Refused, Unavailable
from pulumi_sandbox.providers.github.actions.runs_api import CHECK_RUN
from pulumi_sandbox.providers.machines.local_services import Call
from pulumi_sandbox.world.faults import Fault
from pulumi_sandbox.world.store import World

from tests.sandbox.providers.github.actions.conftest import APP, INSTALLATION, MANAGER, Hub, key


@pytest.fixture
def manager(hub: Hub, tmp_path: Path) -> Iterator[GithubAdapter]:
    file = tmp_path / "app.pem"
    plain = (serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
    file.write_bytes(key().private_bytes(serialization.Encoding.PEM, *plain))

    def answer(request: httpx2.Request) -> httpx2.Response:
        url = urlsplit(request.url.raw_path.decode())
        body = json.loads(request.content) if request.content else None
        headers = {name.lower(): value for name, value in request.headers.items()}
        call = Call(request.method, url.path, parse_qs(url.query), headers["authorization"], body, headers)
        found = hub.api.answer(call)
        return httpx2.Response(found.status, text=found.body, headers={**found.headers})

    made = GithubAdapter(
        "https://api.github.com",
        App(int(APP), int(INSTALLATION), file),
        "acme",
        ["Default"],
        clocks=Clocks(lambda: hub.unix, lambda: hub.unix),
        transport=httpx2.MockTransport(answer),
    )
    yield made
    made.close()


def test_a_job_is_seen_from_the_queue_to_its_end(hub: Hub, manager: GithubAdapter) -> None:
    run, [first, second] = hub.queue("unit", "waits", labels=("self-hosted", "GPU"))
    view = manager.observe(())
    assert view.problems == ()
    assert view.jobs is not None
    assert {(job.key, job.status) for job in view.jobs} == {
        (JobKey("acme/kernels", run, number, 1), "queued") for number in (first, second)
    }
    assert {job.labels for job in view.jobs} == {frozenset({"self-hosted", "gpu"})}
    machine = hub.runner("l4-0a1b2c3d", labels=("self-hosted", "gpu")).connect()
    assert machine.take() == first
    view = manager.observe(())
    labels = frozenset({"self-hosted", "gpu"})
    assert view.runners == (Runner(machine.id, "l4-0a1b2c3d", True, True, labels),)
    assert {(job.key.job_id, job.status, job.runner_name) for job in view.jobs or ()} == {
        (first, "in_progress", "l4-0a1b2c3d"),
        (second, "queued", ""),
    }
    assert manager.remove_runner(view.runners[0]) is False
    machine.end(first, "failure")
    view = manager.observe([RunKey("acme/kernels", run)])
    assert view.runners == ()
    assert [job.key.job_id for job in view.jobs or ()] == [second]
    assert view.runs[RunKey("acme/kernels", run)].status in ("queued", "in_progress")


def test_an_idle_runner_is_removed_and_one_that_is_gone_is_no_error(hub: Hub, manager: GithubAdapter) -> None:
    machine = hub.runner().connect()
    runner = Runner(machine.id, "vm-1", True, False, frozenset({"gpu"}))
    assert manager.observe(()).runners == (runner,)
    assert manager.remove_runner(runner) is True
    assert manager.remove_runner(runner) is True
    assert manager.observe(()).runners == ()


def test_a_failed_job_runs_again_once_its_run_has_ended(hub: Hub, manager: GithubAdapter) -> None:
    run, [first, _] = hub.queue("a", "b")
    key_of_run = RunKey("acme/kernels", run)
    machine = hub.runner().connect()
    machine.end(machine.take(), "failure")
    with pytest.raises(Unavailable, match="already running"):
        manager.rerun(key_of_run, None)
    machine = hub.runner("vm-2").connect()
    machine.end(machine.take())
    state = manager.observe([key_of_run]).runs[key_of_run]
    assert (state.attempt, state.status, state.conclusion, state.failed_jobs) == (1, "completed", "failure", (first,))
    manager.rerun(key_of_run, None)
    view = manager.observe([key_of_run])
    assert view.runs[key_of_run].attempt == 2
    [job] = view.jobs or ()
    assert (job.name, job.key.attempt, job.status) == ("a", 2, "queued")


def test_a_repository_outside_of_the_installation_stops_no_other(
    hub: Hub, world: World, manager: GithubAdapter
) -> None:
    run, [job] = hub.queue()
    hub.queue(repository="website")
    world.add_fault(Fault("refuse", on="/repos/acme/website/*", message="404 Not Found", times=0))
    view = manager.observe(())
    assert [each.key for each in view.jobs or ()] == [JobKey("acme/kernels", run, job, 1)]
    assert view.unread == {"acme/website"}


def test_a_check_run_needs_its_permission_and_the_sweep_does_not(
    hub: Hub, world: World, manager: GithubAdapter
) -> None:
    run, [job] = hub.queue()
    report = Report(JobKey("acme/kernels", run, job, 1), "GPU fault (Xid 79), not your change", "Job failed.")
    with pytest.raises(Refused, match="permissions requested are not granted"):
        manager.check_run(report)
    hub.api.organizations.apps[APP] = {**MANAGER, "checks": "write"}  # type: ignore[index]
    manager.check_run(report)
    [found] = [each.outputs for each in world.find(CHECK_RUN)]
    assert (found["head_sha"], found["conclusion"]) == (hub.run(run)["head_sha"], "neutral")
    assert found["details_url"].endswith(f"/actions/runs/{run}/job/{job}")
