"""Decide if a Job has failed, and for what reason (k8s.io/kubernetes v1.36.0, pkg/controller/job)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pulumi_sandbox.providers.kubernetes.rules.pod_rules import inner, items
from pulumi_sandbox.providers.kubernetes.workloads.containers import ContainerResult

BACKOFF = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
DEADLINE = ("DeadlineExceeded", "Job was active longer than specified deadline")
INDEXES = ("FailedIndexes", "Job has failed indexes")
TOO_MANY = ("MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes")
DEFAULT_BACKOFF_LIMIT = 6
# An Ignore rule may match forever. After this number of pods, the sandbox gives up.
MAX_IGNORED_PODS = 6


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

    def count(self, pod: str, index: int | None, containers: Sequence[ContainerResult]) -> None:
        """Count one more pod that has ended."""
        if not any(one.exit_code for one in containers):
            self.succeeded += 1
            return
        self.failed += 1
        action, number, container = self._matching_rule(containers)
        if action == "FailJob" and container:
            code = container.exit_code
            text = f"Container {container.name} for pod {pod} failed with exit code {code} matching FailJob rule"
            self.condition = ("PodFailurePolicy", f"{text} at index {number}")
        elif action == "Ignore":
            self.ignored += 1
        else:
            self._count_failure(index, at_once=action == "FailIndex")

    def _count_failure(self, index: int | None, *, at_once: bool) -> None:
        self.counted += 1
        self.by_index[index] = self.by_index.get(index, 0) + 1
        limit_per_index = self.spec.get("backoffLimitPerIndex")
        if index is not None and limit_per_index is not None and (at_once or self.by_index[index] > limit_per_index):
            self.failed_indexes.add(index)
            max_failed = self.spec.get("maxFailedIndexes")
            if max_failed is not None and len(self.failed_indexes) > max_failed:
                self.condition = TOO_MANY
        limit = self.spec.get("backoffLimit")
        if limit is None and limit_per_index is None:
            limit = DEFAULT_BACKOFF_LIMIT
        if limit is not None and self.counted > limit:
            self.condition = BACKOFF

    def _matching_rule(self, containers: Sequence[ContainerResult]) -> tuple[str, int, ContainerResult | None]:
        """Return the first matching rule on exit codes (pod_failure_policy.go, matchPodFailurePolicy)."""
        for number, rule in items(inner(self.spec, "podFailurePolicy", "rules")):
            condition = rule.get("onExitCodes") or {}
            values = condition.get("values") or ()
            for container in containers:
                names_container = condition.get("containerName") in (None, container.name)
                if (
                    container.exit_code
                    and names_container
                    and condition
                    and (container.exit_code in values) == (condition.get("operator") == "In")
                ):
                    return str(rule.get("action")), number, container
        return "", 0, None

    def is_over(self, completions: int) -> bool:
        if self.succeeded + len(self.failed_indexes) >= completions and self.failed_indexes:
            self.condition = self.condition or INDEXES
        return self.condition is not None or self.succeeded >= completions


def status(tally: Tally, started: str, ended: str, active: int) -> dict[str, Any]:
    fields: dict[str, Any] = {"startTime": started, "succeeded": tally.succeeded, "failed": tally.failed}
    if active:
        fields["active"] = active
    if tally.condition:
        reason, message = tally.condition
        fields["conditions"] = [{"type": "Failed", "status": "True", "reason": reason, "message": message}]
    elif ended:
        fields |= {"completionTime": ended, "conditions": [{"type": "Complete", "status": "True"}]}
    return {name: value for name, value in fields.items() if value != 0}
