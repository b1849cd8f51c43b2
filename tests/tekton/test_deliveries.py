"""Deliveries of GitHub start a run on Tekton's own listener, with the account of the component, as in the sandbox."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass, field
from typing import Any

import pytest
from pulumi_sandbox.providers.kubernetes.tekton.listener import Delivery, Listener, signed

from tests.control_plane.api import until
from tests.tekton.conftest import WEBHOOK_KEY, Tier
from tests.tekton.processes import PROGRAMS
from tests.tekton.twins import TEKTON
from tools.notebook import NAME, OWNER, REPOSITORY

OURS = {"name": REPOSITORY, "full_name": f"{OWNER}/{REPOSITORY}"}
JSON = {"content-type": "application/json"}
GONE = "0" * 40


def examples() -> list[tuple[str, dict[str, Any]]]:
    """Return GitHub's examples of all events, as deliveries of our repository."""
    listed = json.loads((PROGRAMS / "deliveries.json").read_text())
    found = [(one["name"], each) for one in listed for each in one["examples"]]
    return [(name, {**each, "repository": {**each.get("repository", {}), **OURS}}) for name, each in found]


@dataclass(frozen=True)
class Case:
    """A change of GitHub's example of a push to the default branch."""

    starts: bool
    changes: dict[str, Any] = field(default_factory=dict)
    repository: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    content: bytes | None = None
    status: int = 202


CASES = {
    "push": Case(True),
    "forced": Case(True, {"forced": True}),
    "deleted-branch": Case(False, {"deleted": True, "after": GONE}),
    "tag": Case(False, {"ref": "refs/tags/master"}),
    "other-branch": Case(False, {"ref": "refs/heads/feature"}),
    "fork": Case(False, {}, {"fork": True, "full_name": f"octocat/{REPOSITORY}"}),
    "other-repository": Case(False, {}, {"full_name": f"{OWNER}/web"}),
    "no-repository": Case(False, {"repository": None}),
    "ping": Case(False, headers={"x-github-event": "ping"}),
    "pull-request": Case(False, headers={"x-github-event": "pull_request"}),
    "wrong-signature": Case(False, headers={"x-hub-signature-256": signed(b"another body", WEBHOOK_KEY)}),
    "no-signature": Case(False, headers={"x-hub-signature-256": ""}),
    "old-signature": Case(False, headers={"x-hub-signature-256": "sha1=" + "0" * 40}),
    "form": Case(False, headers={"content-type": "application/x-www-form-urlencoded"}),
    "no-json": Case(False, content=b"{nothing", status=400),
}


def delivery(event: str, content: bytes, **headers: str) -> Delivery:
    own = {**JSON, "x-github-event": event, "x-hub-signature-256": signed(content, WEBHOOK_KEY)}
    return Delivery({key: each for key, each in {**own, **headers}.items() if each}, content)


def of_case(name: str) -> tuple[str, Delivery]:
    """Return the name of the run that a case would start, and its delivery."""
    case = CASES[name]
    pushes = [each for event, each in examples() if event == "push" and each["ref"] == "refs/heads/master"]
    sha = case.changes.get("after") or hashlib.sha1(name.encode()).hexdigest()  # noqa: S324 - as git does
    repository = {**pushes[0]["repository"], **case.repository}
    body = {**pushes[0], "repository": repository, **case.changes, "after": sha}
    content = case.content or json.dumps(body).encode()
    return f"run-{REPOSITORY}-{sha[:12]}", delivery("push", content, **case.headers)


def started(tier: Tier) -> set[str]:
    """Return the runs, after all deliveries until now were handled."""
    name = f"{time.monotonic_ns():040x}"[-40:]
    body = {"ref": "refs/heads/m", "after": name[::-1], "deleted": False}
    body["repository"] = {"default_branch": "m", "id": 1, **OURS}
    tier.deliver(delivery("push", json.dumps(body).encode()))
    last = f"run-{REPOSITORY}-{name[::-1][:12]}"
    until(lambda: tier.api.get(TEKTON, "PipelineRun", NAME, last), "the last delivery is handled")
    time.sleep(1)
    found = {each["metadata"]["name"] for each in tier.api.get(TEKTON, "PipelineRun", NAME)}
    for each in found:
        tier.api.delete(TEKTON, "PipelineRun", each, NAME)
    return found - {last}


@pytest.fixture(scope="module")
def answers(pipeline: Tier, listener: Listener) -> dict[str, list[tuple[int, bool]]]:
    """Return the status of each case, and whether a run started: on Tekton and in the sandbox."""
    cases = {name: of_case(name) for name in CASES}
    statuses = {name: pipeline.deliver(each) for name, (_, each) in cases.items()}
    runs = started(pipeline)
    found = {}
    for name, (run, each) in cases.items():
        receipt = listener.receive(each)
        found[name] = [(statuses[name], run in runs), (receipt.status, receipt.runs == [f"{NAME}/{run}"])]
    return found


@pytest.mark.parametrize("name", CASES)
def test_a_delivery_starts_what_it_should(answers: dict[str, list[tuple[int, bool]]], name: str) -> None:
    case = CASES[name]
    assert answers[name] == [(case.status, case.starts)] * 2


def test_of_all_examples_only_pushes_to_the_default_branch_start_a_run(pipeline: Tier, listener: Listener) -> None:
    of_executor = set()
    for event, body in examples():
        each = delivery(event, json.dumps(body).encode())
        receipt = listener.receive(each)
        assert pipeline.deliver(each) == receipt.status == 202
        of_executor |= {run.partition("/")[2] for run in receipt.runs}
    assert started(pipeline) == of_executor == {f"run-{REPOSITORY}-6113728f27ae"}


def test_the_same_delivery_twice_starts_one_run(pipeline: Tier, listener: Listener) -> None:
    body = next(each for event, each in examples() if event == "push" and not each["deleted"])
    content = json.dumps({**body, "ref": "refs/heads/master", "after": "b" * 40}).encode()
    each = delivery("push", content)
    assert [pipeline.deliver(each), pipeline.deliver(each)] == [202, 202]
    assert [len(listener.receive(each).runs) for _ in range(2)] == [1, 0]
    assert len(started(pipeline)) == 1
