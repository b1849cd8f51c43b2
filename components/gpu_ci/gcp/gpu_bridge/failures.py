"""The failures of a build step that are not failures of its command. Each has an exit code of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Failure(NamedTuple):
    """One kind of failure: its exit code, its cause, and what to do."""

    code: int
    name: str
    cause: str
    hint: str


_FAILURES = (
    Failure(200, "bad-input", "an argument or a setting of the step is wrong", "correct what the error names"),
    Failure(
        201,
        "no-capacity",
        "no zone of the bridge has such a machine now",
        "run the build again later, or add zones, other regions or market: standard to the ladder of the bridge",
    ),
    Failure(
        202,
        "over-quota",
        "a quota of the project is exceeded",
        "request more of the quota that the error names, lower the bridge's max, or add another region to its ladder",
    ),
    Failure(203, "preempted", "Google preempted the machine", "add --retry-preempted, or use market: standard"),
    Failure(204, "check-failed", "the machine did not pass its GPU check", "read the summary of the check"),
    Failure(
        205, "timed-out", "the command did not end within --timeout", "raise --timeout, or make the command faster"
    ),
    Failure(
        206,
        "wrong-digest",
        "an object in the bucket differs from its digest",
        "find out what changed the object; only the bridge may write to its bucket",
    ),
    Failure(
        207,
        "lost-machine",
        "the machine ended without a result",
        "read the machine's entry in Cloud Logging (log gpu-agent)",
    ),
    Failure(208, "refused", "Google refused a request, or did not answer", "correct what the error names"),
    Failure(
        209,
        "bad-workspace",
        "the workspace cannot be packed",
        "add what the machine does not need to .gcloudignore",
    ),
    Failure(210, "cancelled", "the step was stopped", "nothing, if you cancelled the build"),
    Failure(
        211,
        "not-started",
        "the machine could not start the command",
        "read the detail; an image needs Docker on the machine",
    ),
    Failure(212, "no-artifacts", "the artifacts could not be returned", "correct --artifact, or create the files"),
    Failure(
        213,
        "no-machine",
        "other builds used all machines of the bridge for too long",
        "raise the bridge's max, or run fewer builds at once",
    ),
    Failure(214, "crashed", "the step itself failed", "report the failure with the build's log"),
)
ACCOUNT_HINT = "the build must use the service account of the pool (output serviceAccountEmail)"
BY_NAME = {failure.name: failure for failure in _FAILURES}


@dataclass(eq=False)
class BridgeError(Exception):
    """The step ends with a failure of the bridge."""

    name: str
    """A key of BY_NAME."""
    detail: str
    hint: str = ""
    """A hint that is more precise than that of the failure."""

    def __str__(self) -> str:
        failure = BY_NAME[self.name]
        return f"{failure.cause}: {self.detail}\n  hint: {self.hint or failure.hint}\n  exit code: {failure.code}"

    @property
    def code(self) -> int:
        """The exit code of the step."""
        return BY_NAME[self.name].code
