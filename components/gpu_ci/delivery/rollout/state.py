"""The state of a rollout. All of it is on the endpoint: its deployed models, its traffic split and its labels."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from gpu_ci.delivery.rollout.settings import ALL

PREFIX = "gpu-ci-"
DEPLOY = 0
"""The step in which the canary is deployed. Other steps are the percentage of the canary."""
OPEN, PAUSED, DONE, ROLLED_BACK = "open", "paused", "done", "rolled-back"


class BadJournalError(Exception):
    """A label of the rollout has a value that this program did not write."""


class Deployed(NamedTuple):
    """A deployed model."""

    id: str
    model: str
    """The id of the model."""
    version: str
    name: str
    created: int
    """Seconds since 1970."""
    replicas: int = 0
    """The number of available replicas."""
    least: int = 1
    """The number of replicas with which it can take traffic."""
    definition: Mapping[str, Any] = {}
    """The fields of the API that a new version takes over, such as the machines."""

    @property
    def is_ours(self) -> bool:
        return self.name.startswith(PREFIX)

    def __str__(self) -> str:
        return f"{self.model}@{self.version} ({self.id})"


class Journal(NamedTuple):
    """The record of a rollout in the labels of the endpoint."""

    rollout: str
    """The id of the canary's deployed model."""
    model: str
    version: str
    stable: str
    """The id of the deployed model to which a rollback returns; empty for the first model of an endpoint."""
    step: int
    since: int
    """The beginning of the step, in seconds since 1970."""
    status: str
    reason: str = ""

    @property
    def is_active(self) -> bool:
        return self.status in (OPEN, PAUSED)

    def split(self) -> dict[str, int]:
        """Return the traffic split of the step. It sums to 100, or it is empty without a model for the traffic."""
        shares = {self.rollout: self.step, self.stable: ALL - self.step if self.stable else 0}
        return {key: percent for key, percent in shares.items() if percent}

    def labels(self) -> dict[str, str]:
        return {f"{PREFIX}{name}": str(value) for name, value in self._asdict().items()}

    def __str__(self) -> str:
        return f"{self.model}@{self.version} ({self.rollout})"


class State(NamedTuple):
    """An endpoint."""

    name: str
    etag: str
    deployed: Mapping[str, Deployed]
    split: Mapping[str, int]
    """The percentage of each deployed model with traffic."""
    labels: Mapping[str, str]

    def journal(self) -> Journal | None:
        """Return the record of the last rollout. Raise BadJournalError if a label was changed by another program."""
        found = {name: self.labels.get(f"{PREFIX}{name}") for name in Journal._fields}
        if found["rollout"] is None:
            return None
        for name, is_right, expected in _CHECKS:
            value = found[name]
            if value is None or not is_right(value):
                raise BadJournalError(
                    f"{self.name}: labels.{PREFIX}{name} is not the value of a rollout\n"
                    f"  got: {'nothing' if value is None else repr(value)}\n  expected: {expected}\n"
                    f"  hint: gpu-ci deploy rollback {self.name} --to DEPLOYED_MODEL_ID writes the labels again"
                )
        values: dict[str, Any] = found | {"step": int(found["step"] or 0), "since": int(found["since"] or 0)}
        return Journal(**values)

    def merged(self, journal: Journal) -> dict[str, str]:
        """Return all labels of the endpoint, with those of the rollout."""
        return {**self.labels, **journal.labels()}


def _is_id(value: str) -> bool:
    return value.isascii() and value.isdigit() and len(value) <= 10


_CHECKS = (
    ("rollout", _is_id, "the id of a deployed model, 1 to 10 digits"),
    ("model", bool, "the id of a model"),
    ("version", lambda value: value.isascii() and value.isdigit(), "the number of a version"),
    ("stable", lambda value: not value or _is_id(value), "the id of a deployed model, or nothing"),
    ("step", lambda value: value.isascii() and value.isdigit() and int(value) <= ALL, "a percentage, 0 to 100"),
    ("since", _is_id, "seconds since 1970, 1 to 10 digits"),
    ("status", (OPEN, PAUSED, DONE, ROLLED_BACK).__contains__, f"{OPEN}, {PAUSED}, {DONE} or {ROLLED_BACK}"),
    ("reason", lambda _: True, "a reason, or nothing"),
)


def deployed_id(endpoint: str, model: str, version: str, begin: int) -> str:
    """Return the id of a canary, 10 digits. The journal has it before the request, so a repeated one deploys once."""
    digest = hashlib.sha256(f"{endpoint}\n{model}@{version}\n{begin}".encode()).digest()
    return str(10**9 + int.from_bytes(digest[:8], "big") % (9 * 10**9))
