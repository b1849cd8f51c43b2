"""The arguments of the kind cloud-build-gpu."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from gpu_catalog import Demand
from pydantic import Field, ValidationInfo, field_validator

from ...args import Integer
from ...errors import at_path, invalid, raise_problems
from ...gcp import identities, schedules
from ...gcp.build import rules as build_rules
from ...gcp.build_program import TYPES
from ...gcp.gpu_bridge.protocol import REPORT_SEC
from ...gcp.machine.args import GpuMachineArgs
from ...gcp.pool import ladder, rules
from ...gcp.pool.ladder import Ladder, LadderSubnetworks
from ...gcp.regions import BUILDS_OF_RESTRICTED_PROJECTS
from ...gcp.resource_names import ImageRepositories
from ...machines.rules import DEFAULT_RUN_LIMIT_SEC
from ...machines.settings import SmokeSettings
from ...pool_args import PoolArgs

# Seconds that a machine may need for its sources and container image.
FETCH_SEC = 900
_SHORTEST_TIMEOUT_SEC = 60


def around_sec(smoke: SmokeSettings) -> int:
    """Return the time of a machine that is not for the command."""
    return smoke.deadline_sec + FETCH_SEC + REPORT_SEC


class BuildGpuBridgeArgs(GpuMachineArgs, PoolArgs):
    """The arguments of a bridge: its machines, and the limits of the steps that use them."""

    WIRING: ClassVar[frozenset[str]] = GpuMachineArgs.WIRING | {"ladder_subnetworks", "bootstrap_roles"}
    HAS_GATE: ClassVar[bool] = True
    STEP_PROGRAM: ClassVar[str] = "gpu_ci.gcp.gpu_bridge"
    CREATES: ClassVar[tuple[str, ...]] = (
        *TYPES,
        "gcp:pubsub/topicIAMMember:TopicIAMMember",
        "gcp:serviceaccount/iAMMember:IAMMember",
    )
    CREATES_WITH: ClassVar[Mapping[str, tuple[str, ...]]] = identities.WITH_IMAGES
    LATER_MACHINES: ClassVar[str] = "a build the rights of the pool's output serviceAccountEmail"

    max: Integer = Field(ge=1, le=100, description="the maximum number of machines at any time, 1 to 100")
    wait_sec: Integer = Field(
        default=3600,
        ge=60,
        le=82_800,
        description="seconds that a step waits while other builds use all machines, 60 to 82800",
    )
    source_mib: Integer = Field(
        default=4096, ge=1, le=65_536, description="the maximum size of a workspace in MiB, 1 to 65536"
    )
    artifact_mib: Integer = Field(
        default=2048, ge=1, le=65_536, description="the maximum size of the artifacts of a step in MiB, 1 to 65536"
    )
    image_repositories: ImageRepositories = Field(
        default=[],
        description="Artifact Registry repositories with private images for --image, as "
        "projects/<project>/locations/<location>/repositories/<name>; the machines may read them",
    )
    reap_schedule: schedules.Schedule = Field(
        default="0 * * * *",
        examples=["*/10 * * * *"],
        description="when a build deletes machines that no step needs, as a schedule of Cloud Scheduler in UTC; by "
        "default each hour. Independent of the schedule, such a build starts when a build with the topic of the bridge "
        "fails or is cancelled",
    )
    build_region: build_rules.BuildRegion = Field(
        default=None,
        examples=["us-central1"],
        description="the region of builds that delete machines, by default that of the machines; Google restricts some "
        "projects to a few regions of Cloud Build",
    )
    smoke: SmokeSettings = Field(
        default=SmokeSettings(),
        validate_default=True,
        description="the smoke check of the template, and of each machine before its command",
    )
    ladder: Ladder = Field(
        default=[],
        max_length=20,
        examples=[[{"region": "us-east1"}]],
        description="other zones, regions, machine types and markets that a step tries, in order, when the bridge's "
        "own zones have no capacity; each machine must be at least as capable as the bridge's machine, because a "
        "command may get any of them",
    )
    ladder_subnetworks: LadderSubnetworks = Field(default={})
    bootstrap_roles: identities.BootstrapRoles = False

    @field_validator("market")
    @classmethod
    def _market(cls, value: str) -> str:
        if value == "flex-start":
            raise invalid(
                "is not supported: a step cannot wait for a flex-start machine",
                expected="spot, standard or reservation",
                hint="use market: spot, and --retry-preempted in the step",
            )
        return value

    @field_validator("driver")
    @classmethod
    def _driver(cls, value: Any) -> Any:
        if value.source == "cos":
            raise invalid(
                "is Container-Optimized OS, on which commands of builds cannot be isolated",
                expected="source: image or source: installer",
                hint="remove driver and image",
            )
        return value

    @field_validator("smoke")
    @classmethod
    def _smoke(cls, value: Any, info: ValidationInfo) -> Any:
        limit = info.data.get("max_run_duration_sec") or DEFAULT_RUN_LIMIT_SEC
        if limit - around_sec(value) < _SHORTEST_TIMEOUT_SEC:
            problem = invalid(
                f"leaves no time for a command: maxRunDurationSec is {limit}, the start of the command has "
                f"{FETCH_SEC} s, and its artifacts and output have {REPORT_SEC} s",
                expected=f"maxRunDurationSec of at least {around_sec(value) + _SHORTEST_TIMEOUT_SEC}",
                hint="raise maxRunDurationSec, or lower smoke.deadlineSec",
            )
            raise_problems([at_path(problem, value.deadline_sec, "deadlineSec")])
        return value

    def demand(self, name: str) -> Demand:
        """Return the machines and disks of the pool `name`, to compute its cost and its quotas."""
        return rules.demand(name, self, self.max, 0)

    def ladder_demands(self, name: str) -> list[Demand]:
        """Return the demand of each rung of the ladder, as if all machines of the pool came from this rung."""
        return [rung.demand(name) for rung in ladder.rungs(self)[1:]]

    def prerequisites(self, path: str) -> Iterator[str]:
        # Google reports a refused build that deletes machines to nobody.
        if (region := self.build_region or self.region) not in BUILDS_OF_RESTRICTED_PROJECTS:
            yield f"{path}: builds in {region}, and {build_rules.RESTRICTED}; hint: set buildRegion"

    @property
    def longest_timeout_sec(self) -> int:
        """The longest --timeout of a step, in seconds."""
        return self.run_limit_sec - around_sec(self.smoke)
