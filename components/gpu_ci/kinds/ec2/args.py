"""The arguments of the kind ec2-runners."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import gpu_catalog as catalog
from gpu_catalog import Demand, Machine
from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from ... import versions
from ...args import Args, Input, Integer
from ...aws.resource_names import BucketName, ReservationId, SubnetId, Tags
from ...errors import invalid
from ...machines.args import MailboxPoolArgs
from ...machines.rules import DEFAULT_RUN_LIMIT_SEC, price_ceiling
from ...pool_args import CheckMachine, PoolArgs
from . import ladder, rules
from .ladder import Ladder

# The validators of fields that depend on earlier fields.
_RULES: dict[str, Any] = {
    "machine_type": rules.machine_type,
    "zones": rules.zones,
    "subnets": rules.subnets,
    "market": rules.market,
    "capacity_reservation_id": rules.capacity_reservation_id,
    "torch": rules.torch,
}
Port = Annotated[Integer, Field(ge=1, le=65535)]


class Ec2MachineArgs(Args):
    """A GPU instance of EC2: its type, zones, subnets, market, image and disk."""

    WIRING: ClassVar[frozenset[str]] = frozenset({"tags", "mailbox_bucket"})

    machine_type: str = Field(description="an EC2 instance type with an NVIDIA GPU, such as g5.xlarge")
    zones: list[str] = Field(
        min_length=1, description="availability zones of one region, in the order in which they are tried"
    )
    subnets: dict[str, Input[SubnetId]] = Field(
        min_length=1,
        description="a private subnet for each zone, also for those of the ladder. Machines have no public address, so "
        "it needs a route to the internet, such as a NAT gateway",
    )
    market: Literal["spot", "standard", "reservation"] = Field(
        default="spot",
        validate_default=True,
        description="how machines are bought: spot (cheaper, can be interrupted), standard, or reservation (of a "
        "Capacity Block)",
    )
    capacity_reservation_id: ReservationId | None = Field(
        default=None,
        validate_default=True,
        examples=["cr-0123456789abcdef0"],
        description="the capacity reservation, such as cr-0123456789abcdef0: a Capacity Block for market reservation, "
        "or an On-Demand Capacity Reservation for standard",
    )
    image: str | None = Field(
        default=None,
        pattern=r"^(ami-[0-9a-f]{8}([0-9a-f]{9})?|/[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)+)$",
        examples=["ami-0123456789abcdef0"],
        description="an image with Ubuntu 24.04 or newer and the NVIDIA driver: its id, or the SSM parameter with its "
        "id, which `pulumi up` resolves. By default AWS's newest Deep Learning Base AMI; a new image is then a new "
        "version of the template",
    )
    max_run_duration_sec: Integer = Field(
        default=DEFAULT_RUN_LIMIT_SEC,
        ge=600,
        le=604_800,
        description="seconds after which the machine ends, or the runner manager deletes it, even if a job runs on it, "
        "600 to 604800; a shorter time also ends machines that run already",
    )
    torch: str | None = Field(
        default=None,
        validate_default=True,
        pattern=r"^[0-9]+\.[0-9]+\.[0-9]+(\+cu[0-9]{3})?$",
        examples=["2.14.0+cu126"],
        description="the torch version that the check installs if the image has none, such as 2.14.0+cu126; by "
        f"default {versions.TORCH}",
    )
    disk_gib: Integer = Field(
        default=100,
        ge=30,
        le=65536,
        description="size of the encrypted disk in GiB, 30 to 65536, and of the image at least",
    )
    egress_ports: list[Port] = Field(
        default=[80, 443],
        max_length=50,
        description="the TCP ports to which machines may connect, on all addresses; Ubuntu's package sources need 80",
    )

    tags: Tags = Field(default={}, description="tags of every resource that supports tags")
    mailbox_bucket: Input[BucketName] = Field(
        description="the bucket of the aws.Mailbox in the region of the zones, through which the runner manager and "
        "the machines exchange messages"
    )

    @field_validator(*_RULES)
    @classmethod
    def _check_with_earlier_fields(cls, value: Any, info: ValidationInfo) -> Any:
        return _RULES[str(info.field_name)](value, info.data)

    @property
    def region(self) -> str:
        """The region of all zones."""
        return catalog.region_of(self.zones[0])

    @property
    def machine(self) -> Machine:
        """The instance type with its GPUs."""
        return catalog.machine(self.machine_type, "aws")

    @property
    def chosen_image(self) -> str:
        """The image, or the SSM parameter with its id."""
        return self.image or versions.EC2_IMAGE.format(architecture=self.machine.architecture)

    @property
    def check_machine(self) -> CheckMachine | None:
        return CheckMachine(self.machine_type, self.machine, self.zones)


class Ec2RunnerPoolArgs(MailboxPoolArgs, Ec2MachineArgs, PoolArgs):
    """The arguments of a runner pool on EC2: its machines, and the software that runs on them."""

    WIRING: ClassVar[frozenset[str]] = Ec2MachineArgs.WIRING | MailboxPoolArgs.WIRING
    MACHINES: ClassVar[str] = "machines on EC2"

    ladder: Ladder = Field(
        default=[],
        max_length=20,
        examples=[[{"market": "standard"}]],
        description="other zones, instance types and markets that the runner manager tries, in order, when the pool's "
        "own zones have no capacity; each machine must be at least as capable as the pool's machine",
    )
    price_ceiling_usd: float | None = Field(
        default=None,
        gt=0,
        examples=[2.5],
        description="the maximum price of one machine, in USD per hour: the runner manager starts no machine whose "
        "catalog price is higher, and bids at most this price for spot machines; by default no maximum",
    )

    @classmethod
    def cannot_stop(cls, others: Mapping[str, Any]) -> PydanticCustomError | None:
        market = others.get("market", "standard")
        if market == "standard":
            return None
        text = f"is not supported for market {market}, whose instances cannot wait stopped"
        return invalid(text, "market-cannot-stop", hint="use market: standard, or remove standby")

    @field_validator("price_ceiling_usd")
    @classmethod
    def _price_ceiling(cls, value: float | None, info: ValidationInfo) -> float | None:
        if value is None or not {"ladder", "machine_type", "zones", "market"} <= info.data.keys():
            return value
        offers = [info.data, *(ladder.machine_fields(rung, info.data) for rung in info.data["ladder"])]
        return price_ceiling(value, [{**each, "market": rules.market_of(each["market"])} for each in offers])

    def demand(self, name: str) -> Demand:
        """Return the machines and disks of the pool `name`, to compute its cost and its quotas."""
        return Demand(
            pool=name,
            machine=self.machine,
            market=rules.market_of(self.market),
            region=self.region,
            max_machines=self.max,
            stopped_machines=self.stopped_size,
            boot_disk="gp3",
            boot_disk_gib=self.disk_gib,
        )

    def ladder_demands(self, name: str) -> list[Demand]:
        """Return the demand of each rung of the ladder, as if all machines of the pool came from this rung."""
        return [rung.demand(name) for rung in self.rungs[1:]]

    @property
    def rungs(self) -> list[Ec2RunnerPoolArgs]:
        """The arguments of the pool itself, followed by the arguments of a pool with the machine of each rung."""
        changed = (ladder.machine_fields(rung, dict(self)) for rung in self.ladder)
        return [self, *(self.model_copy(update={**each, "ladder": []}) for each in changed)]
