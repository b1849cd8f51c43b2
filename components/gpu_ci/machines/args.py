"""The arguments that pools of machines have in common, whatever vendor's machines they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

import pulumi
from pydantic import AfterValidator, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from ..args import Args, Integer
from ..errors import Problem, invalid
from ..pool_args import Surroundings
from . import rules
from .runner import Registration, RunnerGithub, RunnerSettings
from .settings import Priorities, RunnerLabel, SmokeSettings, StandbySize


class MachinePoolArgs(Args):
    """The arguments of a pool whose machines run one job each, and are started by the runner manager.

    A kind derives from this class, then from its machine, then from PoolArgs. Fields are validated in the opposite
    order, so the machine is known here.
    """

    WIRING: ClassVar[frozenset[str]] = frozenset({"github"})
    REGISTERED_BY: ClassVar[Literal["", "machines", "cluster"]] = "machines"

    max: Integer = Field(ge=1, le=1000, description="the maximum number of machines at any time, 1 to 1000")
    runner_labels: Annotated[list[RunnerLabel], AfterValidator(rules.runner_labels)] | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="the labels that jobs name in runs-on; by default self-hosted, gpu and the pool's name",
    )
    wait_objective_sec: Integer | None = Field(
        default=None,
        ge=60,
        le=86400,
        examples=[1800],
        description="seconds that a job may wait for its runner before the alert about late jobs, 60 to 86400; by "
        "default waitObjectiveSec of gpu-ci:manager.alerts",
    )
    max_usd_per_day: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        examples=[100],
        description="the catalog price in USD of the pool's machines on one day in UTC at which the runner manager "
        "starts no further one; running jobs continue, and a machine without a price costs 0; by default no maximum",
    )
    queue_timeout_sec: Integer | None = Field(
        default=None,
        ge=300,
        le=86400,
        examples=[3600],
        description="seconds that a job may be queued, 300 to 86400, before the runner manager cancels its run "
        "with all its jobs; longer than a machine needs to boot; by default never",
    )
    github: RunnerGithub | None = Field(
        default=None,
        description="the registration of the machines' runners on GitHub; by default the pool has no runners",
    )
    priorities: Priorities | None = Field(
        default=None,
        examples=[{"order": ["merge_group", "push:main", "pull_request", "schedule"]}],
        description="the order in which jobs get machines when the pool is at max; by default the repositories take "
        "turns (docs/operate/a-job-waits.md#priorities)",
    )
    smoke: SmokeSettings = Field(
        default=SmokeSettings(),
        validate_default=True,
        description="the smoke check that a template must pass before the pool uses it",
    )
    runner: RunnerSettings = Field(
        default=RunnerSettings(),
        validate_default=True,
        description="settings of the GitHub runner on each machine, for pools with runners",
    )

    @field_validator("priorities")
    @classmethod
    def _priorities(cls, value: Priorities | None, info: ValidationInfo) -> Priorities | None:
        github = info.data.get("github")
        if value is not None and github is not None and github.registered_by == "machine":
            text, hint = rules.PRIORITIES_OF_OWN_RUNNERS, rules.REMOVE_PRIORITIES
            raise invalid(text, "priorities-of-own-runners", safe_hint=hint)
        return value

    @field_validator("smoke", "runner")
    @classmethod
    def _check_with_the_machine(cls, value: Any, info: ValidationInfo) -> Any:
        return getattr(rules, str(info.field_name))(value, info.data)

    @field_validator("runner", "secrets", "standby", "warm", "reuse", check_fields=False)
    @classmethod
    def _public(cls, value: Any, info: ValidationInfo) -> Any:
        return rules.not_for_the_public(value, info.data.get("github"), str(info.field_name))

    def runner_labels_of(self, name: str) -> list[str]:
        """Return the runner labels of the pool `name`."""
        return self.runner_labels or rules.default_runner_labels(name)

    @classmethod
    def default_labels(cls, name: str) -> list[str]:
        return rules.default_runner_labels(name)

    @property
    def runner_version(self) -> str:
        return self.runner.version

    @property
    def registered_runner(self) -> str | None:
        return self.runner.version if self.github else None

    def with_runner_group(self, group: pulumi.Output[str]) -> Self:
        if self.github is None:
            return self
        return self.model_copy(update={"github": self.github.model_copy(update={"runner_group": group})})

    def outputs(self, name: str) -> dict[str, Any]:
        return {"runnerLabels": self.runner_labels_of(name), "registersRunners": self.github is not None}

    def registration_of(self, name: str) -> Registration | None:
        """Return the registration settings of machines of the pool `name`, or None for a pool without runners."""
        return Registration(self.github, self.runner, self.runner_labels_of(name)) if self.github else None

    def managed_entry(self, name: str) -> dict[str, Any]:
        """Return what the runner manager reads about the pool `name` with runners, whatever the vendor."""
        assert self.github is not None  # noqa: S101 - for the type checker
        # A machine has registerSec to download the runner. If the manager registers the runner, the machine then waits
        # for the registration, for at most registerSec.
        ready_sec = self.runner.register_sec * (2 if self.github.registered_by == "manager" else 1)
        limits = {
            "waitObjectiveSec": self.wait_objective_sec,
            "maxUsdPerDay": self.max_usd_per_day,
            "queueTimeoutSec": self.queue_timeout_sec,
            "priorities": self.priorities and self.priorities.model_dump(by_alias=True, exclude_none=True),
        }
        return {
            **{key: value for key, value in limits.items() if value is not None},
            "name": name,
            "max": self.max,
            "labels": self.runner_labels_of(name),
            "runnerGroup": self.github.runner_group,
            "registeredBy": self.github.registered_by,
            **({"public": True} if self.github.public_repositories else {}),
            "bootSec": self.smoke.deadline_sec + ready_sec,
            "idleSec": self.runner.idle_sec,
        }


class MailboxPoolArgs(MachinePoolArgs):
    """The arguments of a pool whose machines have a mailbox and no identity, so the manager registers their runners."""

    MACHINES: ClassVar[str]
    """The machines as messages name them, such as "machines on EC2"."""

    standby: StandbySize | None = Field(
        default=None,
        examples=[{"stoppedSize": 1}],
        description="machines that are stopped until a job needs them, and start faster; by default none",
    )

    @field_validator("github")
    @classmethod
    def _no_app(cls, value: RunnerGithub | None) -> RunnerGithub | None:
        if value is not None and value.registered_by == "machine":
            hint = "remove appId, installationId and privateKey"
            raise invalid(cls._registers_itself(), "registers-itself", safe_hint=hint)
        return value

    @field_validator("standby")
    @classmethod
    def _standby(cls, value: StandbySize | None, info: ValidationInfo) -> StandbySize | None:
        if value is None:
            return value
        if value.stopped_size > info.data.get("max", value.stopped_size):
            expected = f"at most max, which is {info.data['max']}"
            raise invalid("has more stopped machines than max", "more-than-max", expected=expected, hint="raise max")
        if problem := cls.cannot_stop(info.data):
            raise problem
        return value

    @classmethod
    def cannot_stop(cls, others: Mapping[str, Any]) -> PydanticCustomError | None:  # noqa: ARG003 - for the kinds
        """Return why machines of a pool with these fields cannot wait stopped, or None."""
        return None

    def managed_entry(self, name: str) -> dict[str, Any]:
        return {**super().managed_entry(name), **({"standby": self.stopped_size} if self.standby else {})}

    @property
    def stopped_size(self) -> int:
        """The number of machines on standby."""
        return self.standby.stopped_size if self.standby else 0

    @classmethod
    def problems_with_runners(cls, choices: Mapping[str, Any], registers: bool) -> list[Problem]:  # noqa: ARG003
        text, hint = cls._registers_itself(), "give gpu-ci:site.github.managerApp (docs/guides/runner-manager-setup.md)"
        return [Problem("kind", text, "runnerApp", "managerApp", hint, "registers-itself")] if registers else []

    @classmethod
    def _registers_itself(cls) -> str:
        return (
            f"{cls.MACHINES} cannot register their own runners, because they have no access to a secret store; the "
            "runner manager registers them"
        )

    def warnings(self, path: str, around: Surroundings) -> Iterator[str]:
        if around.missing_for_manager:
            hint = f"hint: give {', '.join(around.missing_for_manager)}"
            yield f"{path}: only the runner manager starts {self.MACHINES}; {hint}"
