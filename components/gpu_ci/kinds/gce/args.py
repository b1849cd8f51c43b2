"""The arguments of the kind gce-runners."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar

from gpu_catalog import Demand
from gpu_common import google_permissions
from pydantic import AfterValidator, Field, ValidationInfo, field_validator
from pydantic.alias_generators import to_camel

from ...errors import Problem
from ...gcp import identities
from ...gcp.machine.args import GpuMachineArgs
from ...gcp.pool import ladder, rules
from ...gcp.pool.ladder import Ladder, LadderSubnetworks
from ...machines.args import MachinePoolArgs
from ...machines.rules import price_ceiling
from ...machines.runner import Registration
from ...machines.settings import Standby, Warm
from ...pool_args import PoolArgs, Surroundings
from ...secret_manager import SecretName


class RunnerPoolArgs(MachinePoolArgs, GpuMachineArgs, PoolArgs):
    """The arguments of a Compute Engine runner pool: its machines, and the software that runs on them."""

    # The fields that the program sets, not the stack file.
    WIRING: ClassVar[frozenset[str]] = GpuMachineArgs.WIRING | MachinePoolArgs.WIRING | {"ladder_subnetworks"}
    HAS_GATE: ClassVar[bool] = True
    CREATES: ClassVar[tuple[str, ...]] = (
        "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager",
        "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate",
        *identities.TYPES,
    )
    CREATES_WITH: ClassVar[Mapping[str, tuple[str, ...]]] = {"secrets": (google_permissions.SECRET_MEMBER,)}

    standby: Standby | None = Field(
        default=None,
        description="machines that are stopped until a job needs them, and start faster; by default none. Not "
        "supported if machines register their runners themselves",
    )
    warm: Warm | None = Field(
        default=None,
        examples=[{"size": 1}],
        description="machines that are on and wait for a job at certain times, so that a job begins within seconds; by "
        "default none. Only with the runner manager",
    )
    secrets: Annotated[list[SecretName], AfterValidator(rules.each_once)] = Field(
        default=[],
        max_length=50,
        description="secrets in Secret Manager that the machines may read, as projects/<project>/secrets/<name>; in "
        "pools with runners this requires runner.docker: rootful, because other jobs have no access to the machine's "
        "identity",
    )
    ladder: Ladder = Field(
        default=[],
        max_length=20,
        examples=[[{"region": "us-east1"}]],
        description="other zones, regions and machine types that the runner manager tries, in order, when the pool's "
        "own zones have no capacity; each machine must be at least as capable as the pool's machine, because a job "
        "may get any of them",
    )
    price_ceiling_usd: float | None = Field(
        default=None,
        gt=0,
        examples=[2.5],
        description="the maximum catalog price of one machine, in USD per hour; the runner manager starts no machine "
        "above that price; by default no maximum",
    )
    ladder_subnetworks: LadderSubnetworks = Field(default={})

    @field_validator("price_ceiling_usd")
    @classmethod
    def _price_ceiling(cls, value: float | None, info: ValidationInfo) -> float | None:
        if value is None or "ladder" not in info.data or not ladder.own_machine(info.data):
            return value
        offers = [info.data, *(ladder.machine_fields(rung, info.data) for rung in info.data["ladder"])]
        return price_ceiling(value, offers)

    @field_validator("github", "standby", "warm", "secrets")
    @classmethod
    def _check_with_earlier_pool_fields(cls, value: Any, info: ValidationInfo) -> Any:
        return getattr(rules, str(info.field_name))(value, info.data)

    def demand(self, name: str) -> Demand:
        """Return the machines and disks of the pool `name`, to compute its cost and its quotas."""
        return replace(
            rules.demand(name, self, self.max, self.standby.stopped_size if self.standby else 0),
            machines_at_rest=self.warm.size * self.warm.schedule.fraction if self.warm else 0,
        )

    @property
    def run_limit_sec(self) -> int:
        return super().run_limit_sec + (self.warm.most_wait_sec if self.warm else 0)

    def registration_of(self, name: str) -> Registration | None:
        found = super().registration_of(name)
        return found._replace(warm_sec=self.warm.most_wait_sec) if found and self.warm else found

    def managed_entry(self, name: str) -> dict[str, Any]:
        chosen = {
            "standby": self.standby and self.standby.stopped_size,
            "warm": self.warm and self.warm.model_dump(by_alias=True),
            "priceCeilingUsd": self.price_ceiling_usd,
        }
        return {**super().managed_entry(name), **{key: value for key, value in chosen.items() if value}}

    def ladder_demands(self, name: str) -> list[Demand]:
        """Return the demand of each rung of the ladder, as if all machines of the pool came from this rung."""
        return [rung.demand(name) for rung in self.rungs[1:]]

    @classmethod
    def problems_with_runners(cls, choices: Mapping[str, Any], registers: bool) -> list[Problem]:
        return rules.problems_with_runners(choices, registers)

    def warnings(self, path: str, around: Surroundings) -> Iterator[str]:
        yield from super().warnings(path, around)
        # docs/adr/0012
        if self.github and self.github.private_key and self.runner.docker == "rootful":
            yield (
                f"{path}.runner.docker: a job that has rootful Docker is root on its machine, and can read "
                f"{self.github.private_key}, with which it is the App in every repository the App is installed in; "
                "hint: docker: rootless, or trust every workflow that the runner group lets in"
            )
        if not around.missing_for_manager:
            return
        hint = f"hint: give {', '.join(around.missing_for_manager)}"
        if self.ladder:
            text = "its templates are checked, but only the runner manager starts machines there"
            yield f"{path}.ladder: {text}; {hint}, or leave ladder out"
        for name in ("price_ceiling_usd", "max_usd_per_day", "queue_timeout_sec", "warm", "priorities"):
            if getattr(self, name):
                key = to_camel(name)
                yield f"{path}.{key}: only the runner manager reads this field; {hint}, or remove {key}"
        if self.market == "flex-start":
            text = "a new size of the group gets no flex-start machine, only the runner manager does"
            yield f"{path}.market: {text}; {hint}"

    @property
    def rungs(self) -> list[RunnerPoolArgs]:
        """The arguments of the pool itself, followed by the arguments of a pool with the machine of each rung."""
        return ladder.rungs(self)
