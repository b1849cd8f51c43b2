"""Decide if a Job has failed, and for what reason (k8s.io/kubernetes v1.36.0, pkg/controller/job)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pulumi_sandbox.providers.kubernetes.rules.pod_rules import inner, items
from pulumi_sandbox.providers.kubernetes.workloads.containers import Ended

BACKOFF = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
DEADLINE = ("DeadlineExceeded", "Job was active longer than specified deadline")
INDEXES = ("FailedIndexes", "Job has failed indexes")
TOO_MANY = ("MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes")
DEFAULT_BACKOFF_LIMIT = 6
# An Ignore rule may match forever. After this number of pods, the sandbox gives up.
IGNORED_MOST = 6


@dataclass
class Tally:
    """The ended pods of a Job, and the condition that the controller sets."""

    spec: Mapping[str, Any]
    succeeded: int = 0
    failed: int = 0
    ignored: int = 0
    counted: int = 0
    """Failures that count towards the backoff limit."""
    by_index: dict[int | None, int] = field(default_factory=dict)
    failed_indexes: set[int] = field(default_factory=set)
    condition: tuple[str, str] | None = None

    def count(self, pod: str, index: int | None, containers: Sequence[Ended]) -> None:
        """Count one more pod that has ended."""
        if not any(one.exit_code for one in containers):
            self.succeeded += 1
            return
        self.failed += 1
        action, number, container = self._matched(containers)
        if action == "FailJob" and container:
            code = container.exit_code
            text = f"Container {container.name} for pod {pod} failed with exit code {code} matching FailJob rule"
            self.condition = ("PodFailurePolicy", f"{text} at index {number}")
        elif action == "Ignore":
            self.ignored += 1
        else:
            self._counted(index, at_once=action == "FailIndex")

    def _counted(self, index: int | None, *, at_once: bool) -> None:
        self.counted += 1
        self.by_index[index] = self.by_index.get(index, 0) + 1
        each = self.spec.get("backoffLimitPerIndex")
        if index is not None and each is not None and (at_once or self.by_index[index] > each):
            self.failed_indexes.add(index)
            most = self.spec.get("maxFailedIndexes")
            if most is not None and len(self.failed_indexes) > most:
                self.condition = TOO_MANY
        limit = self.spec.get("backoffLimit")
        if limit is None and each is None:
            limit = DEFAULT_BACKOFF_LIMIT
        if limit is not None and self.counted > limit:
            self.condition = BACKOFF

    def _matched(self, containers: Sequence[Ended]) -> tuple[str, int, Ended | None]:
        """Return the first matching rule on exit codes (pod_failure_policy.go, matchPodFailurePolicy)."""
        for number, rule in items(inner(self.spec, "podFailurePolicy", "rules")):
            wanted = rule.get("onExitCodes") or {}
            values = wanted.get("values") or ()
            for one in containers:
                named = wanted.get("containerName") in (None, one.name)
                if one.exit_code and named and wanted and (one.exit_code in values) == (wanted.get("operator") == "In"):
                    return str(rule.get("action")), number, one
        return "", 0, None

    def is_over(self, wanted: int) -> bool:
        if self.succeeded + len(self.failed_indexes) >= wanted and self.failed_indexes:
            self.condition = self.condition or INDEXES
        return self.condition is not None or self.succeeded >= wanted


def status(tally: Tally, started: str, ended: str, active: int) -> dict[str, Any]:
    found: dict[str, Any] = {"startTime": started, "succeeded": tally.succeeded, "failed": tally.failed}
    if active:
        found["active"] = active
    if tally.condition:
        reason, message = tally.condition
        found["conditions"] = [{"type": "Failed", "status": "True", "reason": reason, "message": message}]
    elif ended:
        found |= {"completionTime": ended, "conditions": [{"type": "Complete", "status": "True"}]}
    return {name: value for name, value in found.items() if value != 0}
