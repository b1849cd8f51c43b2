"""The arguments of the kind rented-runners."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from gpu_catalog import Demand, Machine
from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from ... import versions
from ...args import Args, Input, Integer, MayBeOpen
from ...aws.resource_names import BucketName, Tags
from ...errors import Problem, in_yaml, invalid
from ...gcp.resource_names import Project
from ...labels import Labels
from ...machines.args import MailboxPoolArgs
from ...machines.rules import DEFAULT_RUN_LIMIT_SEC, price_ceiling, torch_of
from ...naming import PATTERN
from ...pool_args import CheckMachine, PoolArgs
from ...secret_manager import SecretName
from . import rules

_OF_ALL = ("vendor", "account", "apiKey", "sshKey", "mailboxRegion")
"""The fields that all pools of a stack share, because a manager has one account of a vendor and one mailbox."""


class RentedRung(Args):
    """A rung of the ladder: other zones or another machine type. An omitted field has the pool's value."""

    machine_type: str | None = Field(
        default=None,
        examples=["1xH200"],
        description="a machine type with as many GPUs as the pool's type, and at least the same GPU memory and compute "
        "capability; by default the pool's type",
    )
    zones: list[str] | None = Field(default=None, min_length=1, description="zones; by default the pool's zones")


class HostReuse(Args):
    """Hosts that run several jobs, one after the other. A job can leave something that no cleaning removes."""

    max_jobs: Integer = Field(ge=2, le=50, examples=[10], description="the most jobs of one host, 2 to 50")


class RentedMachineArgs(Args):
    """A rented GPU VM: its vendor, account, type, zones and disk, and the bucket for its messages."""

    WIRING: ClassVar[frozenset[str]] = frozenset({"project", "labels", "tags", "mailbox_bucket", "managers"})

    vendor: Literal["jarvislabs"] = Field(description="the vendor of the machines: jarvislabs (Jarvis Labs)")
    account: str = Field(
        pattern=r"^[!-~]{1,100}$",
        description="the user id of the account at the vendor; the runner manager refuses API keys of other accounts",
    )
    machine_type: str = Field(description="the number of GPUs and the vendor's name of the GPU, such as 1xH100")
    zones: list[str] = Field(
        min_length=1, description="the vendor's regions, in the order in which they are tried: IN1, IN2 or EU1"
    )
    storage_gb: Integer = Field(
        default=100,
        ge=100,
        le=10_000,
        description="size of the disk in GB, 100 to 10000; a paused machine costs its disk",
    )
    max_run_duration_sec: Integer = Field(
        default=DEFAULT_RUN_LIMIT_SEC,
        ge=600,
        le=604_800,
        description="seconds after which the agent ends the machine, or the runner manager deletes it, even if a job "
        "runs on it, 600 to 604800; the vendor has no time limit",
    )
    torch: str | None = Field(
        default=None,
        validate_default=True,
        pattern=r"^[0-9]+\.[0-9]+\.[0-9]+(\+cu[0-9]{3})?$",
        examples=["2.14.0+cu126"],
        description="the torch version that the check installs if the image has none, such as 2.14.0+cu126; by "
        f"default {versions.TORCH}",
    )
    mailbox_region: str = Field(
        description="the region of the bucket for messages between the runner manager and the machines: of Google "
        "Cloud, such as us-central1, which standby needs, or of AWS, such as us-east-1"
    )
    api_key: SecretName | None = Field(
        default=None,
        description="the secret in Secret Manager that holds the API key, as projects/<project>/secrets/<name>; "
        "gpu-ci:manager needs it",
    )
    ssh_key: SecretName | None = Field(
        default=None,
        description="the secret in Secret Manager that holds the private SSH key whose public key the account has; "
        "gpu-ci:manager needs it",
    )

    project: Input[Project] | None = Field(default=None, description="the Google Cloud project of the mailbox")
    labels: Labels = Field(default={}, description="labels of a mailbox on Google Cloud")
    tags: Tags = Field(default={}, description="tags of a mailbox on AWS")
    mailbox_bucket: Input[BucketName] = Field(
        description="the bucket of a gcp.Mailbox or aws.Mailbox in the region mailboxRegion"
    )
    managers: Annotated[list[Annotated[str, Field(pattern=f"^{PATTERN}$")]], MayBeOpen] = Field(
        description="the names of the runner managers, as in the stack's output `manager`"
    )

    @field_validator("machine_type", "zones")
    @classmethod
    def _check_with_earlier_fields(cls, value: Any, info: ValidationInfo) -> Any:
        return getattr(rules, str(info.field_name))(value, info.data)

    @field_validator("torch")
    @classmethod
    def _torch(cls, value: str | None, info: ValidationInfo) -> str | None:
        if not {"vendor", "machine_type"} <= info.data.keys():
            return value
        return torch_of(value, rules.machine_of(info.data["machine_type"], info.data["vendor"]))

    @field_validator("mailbox_region")
    @classmethod
    def _mailbox_region(cls, value: str) -> str:
        if not rules.GOOGLE_REGION.fullmatch(value) and not rules.AWS_REGION.fullmatch(value):
            expected = "a region of Google Cloud or AWS"
            raise invalid("is not a region", "not-a-region", expected=expected, hint="such as us-central1 or us-east-1")
        return value

    @property
    def on_google(self) -> bool:
        """True if the mailbox is on Google Cloud, False if it is on AWS."""
        return self.uses_google({"mailboxRegion": self.mailbox_region})

    @classmethod
    def uses_google(cls, choices: Mapping[str, Any]) -> bool:
        return bool(rules.GOOGLE_REGION.fullmatch(str(choices.get("mailboxRegion"))))

    @property
    def machine(self) -> Machine:
        """The machine with its GPUs."""
        return rules.machine_of(self.machine_type, self.vendor)

    @property
    def check_machine(self) -> CheckMachine | None:
        return CheckMachine(self.machine_type, self.machine, self.zones)


class RentedRunnerPoolArgs(MailboxPoolArgs, RentedMachineArgs, PoolArgs):
    """The arguments of a pool on rented hosts: its machines, and the software that runs on them."""

    WIRING: ClassVar[frozenset[str]] = RentedMachineArgs.WIRING | MailboxPoolArgs.WIRING
    MACHINES: ClassVar[str] = "rented machines"
    CREATES: ClassVar[tuple[str, ...]] = ("gcp:storage/bucket:Bucket", "gcp:storage/bucketObject:BucketObject")
    NAME_MOST: ClassVar[int] = 11
    SECRETS_OF_MANAGER: ClassVar[tuple[str, ...]] = ("apiKey", "sshKey")

    reuse: HostReuse | None = Field(
        default=None,
        examples=[{"maxJobs": 10}],
        description="hosts that are paused after a job and run later jobs, after a cleaning; it needs "
        "gpu-ci:github.runnerGroup, and no runner.docker: rootful; by default each host runs one job",
    )
    ladder: list[RentedRung] = Field(
        default=[],
        max_length=20,
        examples=[[{"machineType": "1xH200"}]],
        description="other zones and machine types that the runner manager tries, in order, when the pool's own zones "
        "have no capacity; each machine must be at least as capable as the pool's machine",
    )
    price_ceiling_usd: float | None = Field(
        default=None,
        gt=0,
        examples=[2.5],
        description="the maximum catalog price of one machine, in USD per hour; the runner manager starts no machine "
        "above that price; by default no maximum",
    )

    @classmethod
    def cannot_stop(cls, others: Mapping[str, Any]) -> PydanticCustomError | None:
        region = others.get("mailbox_region", "")
        if not region or cls.uses_google({"mailboxRegion": region}):
            return None
        text = "needs a mailbox on Google Cloud: URLs that a role of AWS has signed end after some hours"
        return invalid(text, "stopped-on-s3", hint="mailboxRegion: us-central1, or remove this field")

    @field_validator("reuse")
    @classmethod
    def _reuse(cls, value: HostReuse | None, info: ValidationInfo) -> HostReuse | None:
        if value is None:
            return value
        if problem := cls.cannot_stop(info.data):
            raise problem
        rules.require_trust(info.data)
        return value

    @field_validator("ladder")
    @classmethod
    def _ladder(cls, value: list[RentedRung], info: ValidationInfo) -> list[RentedRung]:
        return rules.ladder(value, info.data)

    @field_validator("price_ceiling_usd")
    @classmethod
    def _price_ceiling(cls, value: float | None, info: ValidationInfo) -> float | None:
        if value is None or not {"ladder", "vendor", "machine_type", "zones"} <= info.data.keys():
            return value
        offers = [info.data, *(rules.rung_fields(rung, info.data) for rung in info.data["ladder"])]
        return price_ceiling(value, [{**each, "market": "standard"} for each in offers])

    def demand(self, name: str) -> Demand:
        """Return the machines of the pool `name`, to compute its cost. The vendor publishes no quotas."""
        return Demand(
            pool=name,
            machine=self.machine,
            market="standard",
            region=self.zones[0],
            max_machines=self.max,
            stopped_machines=self.max if self.reuse else self.stopped_size,
            boot_disk_gib=self.storage_gb,
        )

    def outputs(self, name: str) -> dict[str, Any]:
        return {**super().outputs(name), "market": "standard"}

    def ladder_demands(self, name: str) -> list[Demand]:
        """Return the demand of each rung of the ladder, as if all machines of the pool came from this rung."""
        return [rung.demand(name) for rung in self.rungs[1:]]

    @property
    def rungs(self) -> list[Self]:
        """The arguments of the pool itself, followed by the arguments of a pool with the machine of each rung."""
        changed = (rules.rung_fields(rung, dict(self)) for rung in self.ladder)
        return [self, *(self.model_copy(update={**each, "ladder": []}) for each in changed)]

    @classmethod
    def problems_of_all(cls, pools: Mapping[str, Mapping[str, Any]]) -> Iterator[Problem]:
        (first, wanted), *others = pools.items()
        for path, choices in others:
            for name in _OF_ALL:
                if choices.get(name) != wanted.get(name):
                    text = f"differs from {first}: a runner manager has one account of the vendor, and one mailbox"
                    got, expected = in_yaml(choices.get(name)), in_yaml(wanted.get(name))
                    shown = (
                        (got, expected) if name not in ("apiKey", "sshKey") else ("another secret", "the same secret")
                    )
                    yield Problem(f"{path}.{name}", text, *shown, f"use one {name} for all", "differs-from-pool")
