"""The outcomes: all reasons for which a machine can end, each with a key for programs and texts for people."""

from __future__ import annotations

import errno
from typing import NamedTuple


class Outcome(NamedTuple):
    """One way in which a machine ends: the reason, its meaning, and what to do."""

    reason: str
    meaning: str
    next_step: str
    stops_pool: bool = False
    """True if every machine of the template would end for the same reason. The pool then stops using the template."""


_ENDS = (
    Outcome("job-done", "the one job of this machine has ended", "nothing; the job's own result is on GitHub"),
    Outcome(
        "job-refused",
        "GitHub sent a job of another run",
        "nothing: the approved job gets another machine",
    ),
    Outcome("build-done", "the command of a build has ended", "nothing; the build's log has the output"),
    Outcome(
        "rehearsed", "the check passed, and GitHub would accept a runner", "nothing; the pool may use the template"
    ),
    Outcome("proven", "the check passed, and the pool registers no runners", "nothing"),
    Outcome("used", "the machine was started again after it had a runner", "nothing: a machine takes no second job"),
    Outcome("not-clean", "what an earlier job has left on the host cannot be removed", "nothing: the host is deleted"),
    Outcome("idle", "GitHub sent no job in time", "nothing, or use a smaller pool"),
    Outcome("no-config", "the machine's metadata has no valid configuration", "run pulumi up again", True),
    Outcome(
        "no-driver",
        "the NVIDIA driver did not start",
        "use another image or driver branch (docs/how-it-works/gpu-checks.md)",
    ),
    Outcome("check-failed", "the smoke check did not pass", "the summary has the failure and the fix"),
    Outcome("check-hung", "the smoke check did not end in time", "replace the machine; a hanging GPU rarely recovers"),
    Outcome("no-secret", "Secret Manager refuses the App's key", "grant the pool's account access to the secret", True),
    Outcome("secrets-unreachable", "Secret Manager did not answer in time", "check the network's route to Google"),
    Outcome("refused", "GitHub refuses the App, its key or its request", "correct the App or the pool's group", True),
    Outcome("rate-limited", "GitHub's rate limit did not end in time", "start fewer machines at once"),
    Outcome("github-unreachable", "GitHub did not answer in time", "check githubstatus.com and internet access"),
    Outcome(
        "not-registered", "the runner manager registered no runner in time", "check that the manager runs, and its log"
    ),
    Outcome(
        "no-tool", "the image lacks a program that the agent needs", "use an image with the program in the detail", True
    ),
    Outcome(
        "no-runner", "the runner could not be fetched or unpacked", "add the runner to the image, or allow the download"
    ),
    Outcome(
        "wrong-checksum",
        "the checksum of the runner's archive or of the driver's installer is not the pinned one",
        "correct sha256, or find out why the file changed",
        True,
    ),
    Outcome("no-source", "the sources of a build could not be used", "read the detail; run the build again"),
    Outcome("wrong-source", "the sources of a build differ from their digest", "find out what changed the object"),
    Outcome("no-image", "the container image of a build could not be pulled", "correct the image in the build step"),
    Outcome(
        "storage-refused",
        "Cloud Storage refuses an object of a build",
        "grant the bridge's machine account access to its bucket",
    ),
    Outcome("storage-unreachable", "Cloud Storage did not answer in time", "check the network's route to Google"),
    Outcome("no-artifacts", "the artifacts of a build could not be packed", "correct --artifact in the build step"),
    Outcome("disk-full", "the disk is full", "increase diskGib"),
    Outcome("not-isolated", "a job could have reached the machine's identity", "correct the cause in the detail", True),
    Outcome("no-docker", "rootless Docker did not start", "use an image in which Docker starts, or docker: none", True),
    Outcome("runner-failed", "the runner itself failed", "check the runner's last lines in the log"),
    Outcome("runner-deprecated", "GitHub no longer accepts this runner version", "use a newer runner version", True),
    Outcome("gpu-unhealthy", "the GPU was not usable before or after the job", "nothing: the machine has powered off"),
    Outcome("gpu-fault", "a GPU failed", "nothing: the runner manager runs a failed job once more"),
    Outcome("preempted", "the cloud preempted the machine", "rerun the job, or use market: standard"),
    Outcome("maintenance", "the host had maintenance", "rerun the job that the detail names"),
    Outcome("stopped", "a user or program stopped the machine", "nothing, if you stopped it"),
    Outcome("timed-out", "a step did not end within its deadline", "check the step in the detail"),
    Outcome("crashed", "the agent itself failed", "report the failure, with the serial port output"),
)
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
"""The numbers of the operating system's errors for a full disk or quota."""
OUTCOMES = {end.reason: end for end in _ENDS}


class AgentExit(Exception):  # noqa: N818 - not always an error: a finished job also ends the machine
    """The machine ends for this reason. `detail` is a sentence without secrets."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.end = OUTCOMES[reason]
        self.detail = detail
