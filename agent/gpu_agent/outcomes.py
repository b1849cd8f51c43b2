"""All reasons with which a machine can end, each with a key for programs and texts for people."""

from __future__ import annotations

import errno
from typing import NamedTuple


class Outcome(NamedTuple):
    """An end of a machine: its reason, its meaning, and what to do."""

    reason: str
    meaning: str
    next_step: str
    stops_pool: bool = False
    """True if another machine of the pool would end the same way. No machine is then started until the cause is
    corrected.
    """


_ENDS = (
    Outcome("job-done", "the one job of this machine has ended", "nothing; the job's own result is on GitHub"),
    Outcome("rehearsed", "the check passed, and GitHub would take a runner", "nothing; the pool may take the template"),
    Outcome("proven", "the check passed, and the pool registers no runners", "nothing"),
    Outcome("used", "the machine was started again after it had a runner", "nothing: it takes no second job"),
    Outcome("idle", "no job came in time", "nothing, or a smaller pool"),
    Outcome("no-config", "the machine's metadata says nothing it can go by", "bring the stack up again", True),
    Outcome(
        "no-driver",
        "the NVIDIA driver did not come up",
        "another image or driver branch (docs/how-it-works/gpu-checks.md)",
    ),
    Outcome("check-failed", "the GPU check did not pass", "the summary says what failed and what mends it"),
    Outcome("check-hung", "the GPU check did not end in time", "replace the machine; a hanging GPU rarely recovers"),
    Outcome("no-secret", "Secret Manager refuses the App's key", "grant the pool's account the secret it names", True),
    Outcome("secrets-unreachable", "Secret Manager did not answer in time", "the network's way to Google's services"),
    Outcome("refused", "GitHub refuses the App, its key or what it asks for", "mend the App or the pool's group", True),
    Outcome("rate-limited", "GitHub's limits did not let up in time", "start fewer machines at once"),
    Outcome("github-unreachable", "GitHub did not answer in time", "githubstatus.com, and the network's way out"),
    Outcome(
        "not-registered", "the runner manager registered no runner in time", "see whether the manager runs, and its log"
    ),
    Outcome("no-tool", "the image lacks a program the agent needs", "an image that has what the detail names", True),
    Outcome("no-runner", "the runner could not be fetched or unpacked", "bake it into the image, or give a way out"),
    Outcome(
        "wrong-checksum",
        "the runner's archive is not the one that is pinned",
        "set its sha256, or find who changed it",
        True,
    ),
    Outcome("disk-full", "the disk is full", "a larger diskGib"),
    Outcome("not-isolated", "a job could have reached the machine's identity", "the detail says through what", True),
    Outcome("no-docker", "rootless Docker did not start", "an image in which it starts, or docker: none", True),
    Outcome("runner-failed", "the runner itself failed", "its last lines are in the log"),
    Outcome("runner-deprecated", "GitHub takes no runner of this version any more", "a newer runner version", True),
    Outcome("gpu-unhealthy", "the GPU was not fit before or after the job", "nothing; the machine is off"),
    Outcome("preempted", "Google took the machine away", "rerun the job it names; market: standard is not taken away"),
    Outcome("maintenance", "the host was to be maintained", "rerun the job it names"),
    Outcome("stopped", "somebody stopped the machine", "nothing, where it was you"),
    Outcome("timed-out", "a step did not end within its deadline", "the detail names the step"),
    Outcome("crashed", "the agent itself failed", "report it, with the machine's serial port"),
)
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
"""The system's errors for a full disk."""
OUTCOMES = {end.reason: end for end in _ENDS}


class AgentExit(Exception):  # noqa: N818 - an end, which may be a good one
    """The machine ends for this reason. `detail` is a sentence without secrets."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.end = OUTCOMES[reason]
        self.detail = detail
