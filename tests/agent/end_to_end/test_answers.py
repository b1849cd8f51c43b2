"""Each kind of answer from GitHub, Google and the server of releases, and how the machine ends after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.agent.fakes.events import hangs
from tests.agent.fakes.github import Fault as GithubFault
from tests.agent.fakes.google import Fault
from tests.agent.fakes.whole_machine import Plan

# These tests run whole machines on the clock of this computer: `make test-boots`.
pytestmark = pytest.mark.many_boots

RunMachine = Callable[..., dict[str, Any]]
AGAIN = {"Retry-After": "1"}


def status(*codes: int, times: int = 1, headers: Mapping[str, str] | None = None) -> list[GithubFault]:
    return [GithubFault(status=code, headers=headers or {}) for code in codes] * times


def how(word: str, times: int = 1) -> list[GithubFault]:
    return [GithubFault(word)] * times


GITHUB = {
    "a key of another App": ({"token": status(401)}, "refused"),
    "a permission that is missing": ({"token": status(403)}, "refused"),
    "an installation that is gone": ({"token": status(404)}, "refused"),
    "a permission that was not granted": ({"token": status(422)}, "refused"),
    "a group that may not be seen": ({"groups": status(403)}, "refused"),
    "a registration that is refused": ({"register": status(403)}, "refused"),
    "a registration of something unknown": ({"register": status(404)}, "refused"),
    "a registration that is impossible": ({"register": status(422)}, "refused"),
    "a name that is taken": ({"register": status(409)}, "job-done"),
    "every name taken": ({"register": status(409, times=4)}, "refused"),
    "a token that is new for a moment": ({"groups": status(401)}, "job-done"),
    "a limit with its time": ({"register": status(429, 403, headers=AGAIN)}, "job-done"),
    "a limit without a time": ({"token": status(429)}, "rate-limited"),
    "a limit that stays": ({"token": status(429, headers={"Retry-After": "60"})}, "rate-limited"),
    "a server that stumbles": ({"token": status(500), "groups": status(502), "register": status(503)}, "job-done"),
    "a server that is down": ({"groups": status(503, times=20)}, "github-unreachable"),
    "a portal": ({"token": [GithubFault(status=201, body=b"<html>")] * 20}, "github-unreachable"),
    "a request that hangs": ({"token": how("hang")}, "job-done"),
    "requests that hang": ({"token": how("hang", 20)}, "github-unreachable"),
    "an answer that drips": ({"groups": how("drip")}, "job-done"),
    "answers that drip": ({"groups": how("drip", 20)}, "github-unreachable"),
    "a connection that breaks": ({"token": how("reset"), "register": how("truncated")}, "job-done"),
}


@pytest.mark.parametrize(("github", "reason"), GITHUB.values(), ids=GITHUB.keys())
def test_what_github_answers(run_machine: RunMachine, github: Mapping[str, list[GithubFault]], reason: str) -> None:
    # A registration whose answer was a fault is a runner that GitHub has and that never starts.
    found = run_machine(Plan(github=github, register_sec=60 if reason == "job-done" else 8))
    assert (found["reason"], found["end"]["stops_pool"]) == (reason, reason == "refused"), found["serial"]
    assert found["registered"] == (reason == "job-done")


def test_a_registration_whose_answer_is_lost_is_made_again_under_another_name(run_machine: RunMachine) -> None:
    found = run_machine(Plan(github={"register": [GithubFault("truncated", done_anyway=True)]}), registered=2)
    assert (found["reason"], found["registered"]) == ("job-done", 2), found["serial"]


def test_a_runner_that_github_refuses_to_remove_may_have_a_job(run_machine: RunMachine) -> None:
    found = run_machine(Plan(does="time.sleep(2)\nend(0)", idle_sec=1, github={"remove": status(422)}))
    assert found["reason"] == "runner-failed", found["serial"]
    assert found["detail"].startswith("it ended without a job"), found["serial"]


@pytest.mark.parametrize("skew_sec", [-3600, 3600])
def test_a_clock_that_is_an_hour_off_is_allowed_for(run_machine: RunMachine, skew_sec: float) -> None:
    assert run_machine(Plan(skew_sec=skew_sec))["reason"] == "job-done"


ACCESS, CONFIG = ":access", "gpu-agent-config"
GOOGLE = {
    "a grant that takes a moment": ([Fault(ACCESS, 1, status=403)], "job-done"),
    "no grant": ([Fault(ACCESS, 99, status=403)], "no-secret"),
    "no such secret": ([Fault(ACCESS, 1, status=404)], "no-secret"),
    "a secret server that stumbles": ([Fault(ACCESS, 1, status=503)], "job-done"),
    "a secret server that hangs": ([Fault(ACCESS, 99, hang=True)], "secrets-unreachable"),
    "a secret that is cut off": ([Fault(ACCESS, 1, cut=True)], "job-done"),
    "no service account": ([Fault("default/token", 99, status=404)], "no-secret"),
    "a metadata server that hangs once": ([Fault("gpu-ci-role", 1, hang=True)], "job-done"),
    "a metadata server without the configuration": ([Fault(CONFIG, 99, hang=True)], "timed-out"),
    "a metadata server that hangs": ([Fault("/", 999, hang=True)], "no-config"),
    "guest attributes that cannot be written": ([Fault("guest-attributes", 99, status=403)], "job-done"),
    "a log that hangs": ([Fault("entries:write", 99, hang=True)], "job-done"),
}


@pytest.mark.parametrize(("google", "reason"), GOOGLE.values(), ids=GOOGLE.keys())
def test_what_google_answers(run_machine: RunMachine, google: list[Fault], reason: str) -> None:
    found = run_machine(Plan(google=google))
    assert (found["reason"], found["registered"]) == (reason, reason == "job-done"), found["serial"]


Release = Callable[[int, bytes], tuple[int, bytes, int]]
RELEASES: dict[str, tuple[Release, str]] = {
    "cut off once": (lambda asked, it: (200, it if asked else it[:-99], len(it)), "job-done"),
    "cut off": (lambda _, it: (200, it[:-99], len(it)), "no-runner"),
    "another": (lambda _, it: (200, it + b"x", len(it) + 1), "wrong-checksum"),
    "not there": (lambda _, it: (404, b"", 0), "no-runner"),
    "not there for now": (lambda asked, it: (200, it, len(it)) if asked else (503, b"", 0), "job-done"),
    "silent": (hangs, "no-runner"),
}


@pytest.mark.parametrize(("release", "reason"), RELEASES.values(), ids=RELEASES.keys())
def test_what_the_server_of_releases_answers(run_machine: RunMachine, release: Release, reason: str) -> None:
    found = run_machine(Plan(release=release, register_sec=60 if reason == "job-done" else 5))
    assert (found["reason"], found["registered"]) == (reason, reason == "job-done"), found["serial"]
