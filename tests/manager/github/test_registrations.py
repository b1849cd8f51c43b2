"""Runners that the manager registers: the requests to GitHub, and the result for a name that is taken."""

from __future__ import annotations

import json

import httpx2
import pytest
from gpu_manager.github.adapter import GithubAdapter
from gpu_manager.model import NewRunner, Offer, Pool
from gpu_manager.ports import Refused, Unavailable

from tests.manager.github.fake_github import FakeGithub, runner

RUNG = Offer("us-central1-a", "g2-standard-8", "spot")
POOL = Pool("l4", "example", "templates/l4", (RUNG,), 2, frozenset({"self-hosted", "gpu", "l4"}), "gpu")
NAME = "l4-0a1b2c3d-42"
CREATE = "POST /orgs/example-org/actions/runners/generate-jitconfig"
TAKEN = httpx2.Response(409, json={"message": f"Already exists - A runner with the name {NAME} already exists."})
MADE = {"runner": runner(7, NAME), "encoded_jit_config": "eyJwbGFudGVkIjoxfQ=="}


def answers(github: FakeGithub, part: str, *responses: httpx2.Response) -> list[httpx2.Request]:
    """Plan the answers to requests of one kind, and return the list of received requests."""
    left, asked = list(responses), []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return left.pop(0)

    github.faults[part] = answer
    return asked


def created() -> httpx2.Response:
    return httpx2.Response(201, json=MADE)


def test_a_runner_is_registered_for_one_job_in_the_pools_group(github: FakeGithub, manager: GithubAdapter) -> None:
    asked = answers(github, CREATE, created())
    made = manager.register(POOL, NAME)
    assert made == NewRunner(7, NAME, "eyJwbGFudGVkIjoxfQ==")
    assert "eyJ" not in repr(made)
    assert json.loads(asked[0].content) == {
        "name": NAME,
        "runner_group_id": 2,
        "labels": ["gpu", "l4", "self-hosted"],
        "work_folder": "_work",
    }
    assert github.permissions == [{"permissions": {"actions": "write", "organization_self_hosted_runners": "write"}}]


def test_an_unused_runner_of_the_name_is_unregistered_first(github: FakeGithub, manager: GithubAdapter) -> None:
    """The runner's configuration is lost with the answer or with a killed manager."""
    answers(github, CREATE, TAKEN, created())
    found = {"total_count": 2, "runners": [runner(5, NAME.upper(), online=False), runner(6, f"{NAME}0", online=False)]}
    listed = answers(github, f"/actions/runners?name={NAME}", httpx2.Response(200, json=found))
    removed = answers(github, "DELETE /orgs/example-org/actions/runners/5", httpx2.Response(204))
    assert manager.register(POOL, NAME).id == 7
    assert (len(listed), len(removed)) == (1, 1)


def test_a_runner_of_the_name_that_has_a_job_stays(github: FakeGithub, manager: GithubAdapter) -> None:
    asked = answers(github, CREATE, TAKEN)
    found = {"total_count": 1, "runners": [runner(5, NAME, busy=True)]}
    answers(github, f"/actions/runners?name={NAME}", httpx2.Response(200, json=found))
    answers(github, "DELETE", httpx2.Response(422, json={"message": f"Runner {NAME} is still running a job"}))
    with pytest.raises(Unavailable, match=f"the runner {NAME} has a job"):
        manager.register(POOL, NAME)
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("answer", "expected", "problem"),
    [
        (httpx2.Response(403, json={"message": "Resource not accessible"}), Refused, "lacks a permission"),
        (httpx2.Response(422, json={"message": "Invalid labels"}), Refused, "GitHub answered 422: Invalid labels"),
        (httpx2.Response(502), Unavailable, "GitHub answered 502"),
        (httpx2.Response(201, json={"runner": runner(7, NAME)}), Unavailable, "encoded_jit_config"),
        (httpx2.Response(201, json={**MADE, "encoded_jit_config": ""}), Unavailable, "encoded_jit_config"),
        (httpx2.Response(201, json={**MADE, "runner": {}}), Unavailable, "'id'"),
    ],
)  # fmt: skip
def test_refused_and_invalid_registrations_are_errors(
    github: FakeGithub, manager: GithubAdapter, answer: httpx2.Response, expected: type[Exception], problem: str
) -> None:
    answers(github, CREATE, answer)
    with pytest.raises(expected) as raised:
        manager.register(POOL, NAME)
    assert problem in str(raised.value)
    assert "eyJ" not in str(raised.value)
