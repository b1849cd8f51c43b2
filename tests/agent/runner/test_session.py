"""The runner with its hooks: the reason for which the machine ends, before and after a job."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest
from gpu_agent.clock import Clock
from gpu_agent.outcomes import OUTCOMES
from gpu_agent.runner import process
from gpu_agent.runner.hooks import Job
from gpu_agent.runner.process import _CODES
from gpu_agent.runner.session import StartedRunner

from tests.agent.fakes import machine
from tests.agent.fakes.started_runner import long_enough, start_runner

TRAIN = Job("acme/kernels", "77", "1", "train", "ci")


def started(does: str, job: Job | None = None, refused: str = "") -> StartedRunner:
    """Start the fake runner with this code, and hooks that know this job."""
    nothing = cast(Any, None)
    hooks = cast(Any, SimpleNamespace(job=job, refused=refused))
    return StartedRunner(start_runner(does), hooks, nothing, nothing, nothing, Clock())


def nobody_asks(_: Mapping[str, str]) -> None:
    pass


@pytest.mark.parametrize("code", [*_CODES, 8, 99])
@pytest.mark.parametrize("job", [None, TRAIN])
def test_no_exit_code_that_a_job_may_choose_stops_the_pool(
    code: int, job: Job | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job is known from the runner's own line or from its hook."""
    monkeypatch.setattr(process, "_PAUSE_SEC", 0.1)  # The pause before a restart, which two of these codes cause.
    says = "" if job else 'say("Running job: train"); '
    reason, words = machine.inside(lambda: started(f"{says}end({code})", job).finish(nobody_asks))
    assert reason == ("runner-failed" if code else "job-done")
    assert not OUTCOMES[reason].stops_pool
    assert "without a job" not in words
    assert words.startswith(_CODES.get(code, ("", f"it ended with code {code}"))[1])


def test_a_runner_that_github_removed_before_any_job_is_reported_as_such() -> None:
    """The runner writes the lines of actions/runner#4726 and exits with 0."""
    gone = "The runner no longer exists on the server. Cleaning up local configuration."
    reason, text = machine.inside(lambda: started(f'say("{gone}"); end(0)').wait(long_enough()))
    assert reason == "runner-failed"
    assert text.startswith("it ended without a job; its last output: ")
    assert gone in text


def test_a_job_that_the_hook_refused_is_reported_as_a_gpu_problem() -> None:
    ended = machine.inside(lambda: started("end(7)", TRAIN, "GPU 0 is lost").finish(nobody_asks))
    assert ended == ["gpu-unhealthy", "the job was refused: GPU 0 is lost"]
