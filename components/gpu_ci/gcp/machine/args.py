"""The arguments of a machine with GPUs on Compute Engine, shared by instance templates and pools."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import gpu_catalog as catalog
from gpu_catalog import Machine, region_of
from pydantic import ConfigDict, Field, ValidationInfo, field_validator

from ... import versions
from ...args import Args, Input, Integer
from ...labels import Labels
from ...machines.rules import DEFAULT_RUN_LIMIT_SEC, machine_of
from ...pool_args import CheckMachine, Surroundings
from ..resource_names import Network, Project, Reservation, Subnetwork
from . import rules, software

Json = dict[str, Any]

_NEEDS = {"flex-start": "maxRunDurationSec", "reservation": "reservation"}
"""The additional field that a market requires."""


def _add_machines(schema: Json) -> None:
    """Add the machine types with descriptions, the zones with a GPU, and the fields that other fields require.

    `gpu-ci check` and the preview check which machine types and zones go together.
    """
    fields = schema["properties"]
    own = list(catalog.machines(cloud="gcp", n1=False))
    hosts = catalog.n1_shapes()
    fields["machineType"] |= {
        "enum": [*(machine.machine_type for machine in own), *(host.machine_type for host in hosts)],
        "markdownEnumDescriptions": [
            *map(_machine_text, own),
            *(f"{host.vcpus} vCPUs, {host.memory_gib:g} GiB; takes a `guestAccelerator`" for host in hosts),
        ],
    }
    fields["zones"] |= {"uniqueItems": True, "items": _zones([*own, *map(_attached, catalog.attachable())])}
    # The machine type decides which of the two variants applies. With `anyOf`, an editor would report an error inside
    # the map as an error of the whole map.
    model, _ = fields["guestAccelerator"].pop("anyOf")
    n1 = {"properties": {"machineType": {"enum": [host.machine_type for host in hosts]}}, "required": ["machineType"]}
    schema["allOf"] = [
        *(
            {"if": {"properties": {"market": {"const": market}}, "required": ["market"]}, "then": {"required": [key]}}
            for market, key in _NEEDS.items()
        ),
        {
            "if": n1,
            "then": {"required": ["guestAccelerator"], "properties": {"guestAccelerator": {"type": "object", **model}}},
            "else": {"properties": {"guestAccelerator": {"type": "null"}}},
        },
    ]


def _add_accelerators(schema: Json) -> None:
    """Add the accelerators of N1 machines, and the possible numbers of each."""
    names = catalog.attachable()
    schema["properties"]["type"] |= {
        "enum": list(names),
        "markdownEnumDescriptions": [_gpu_text(_attached(name)) for name in names],
    }
    schema["allOf"] = [
        {
            "if": {"properties": {"type": {"const": name}}, "required": ["type"]},
            "then": {"properties": {"count": {"enum": list(catalog.attachment_counts(name))}}},
        }
        for name in names
    ]


def _attached(accelerator: str) -> Machine:
    """Return the smallest N1 machine with one GPU of this type. Every zone with the accelerator has this machine."""
    host = min(catalog.n1_shapes(), key=lambda host: (host.vcpus, host.memory_gib))
    return catalog.attached(host.machine_type, accelerator)


def _zones(machines: list[Machine]) -> Json:
    """Return the schema of a zone that has one of the machines.

    For some regions, Google does not publish the zones with the machine. There, every zone is allowed.
    """
    known = sorted({zone for machine in machines for zone in machine.zones})
    regions = sorted({region for machine in machines for region in machine.zoneless_regions})
    if not regions:
        return {"enum": known}
    return {"anyOf": [{"enum": known}, {"pattern": f"^({'|'.join(regions)})-(ai[0-9]+)?[a-z]$"}]}


def _machine_text(machine: Machine) -> str:
    return f"{_gpu_text(machine)}; {machine.vcpus} vCPUs, {machine.memory_gib:g} GiB; {', '.join(machine.markets)}"


def _gpu_text(machine: Machine) -> str:
    gpu = machine.gpu
    return f"{machine.gpu_count:g} x {gpu.name}, {gpu.memory_gib} GiB each, compute capability {gpu.compute_capability}"


class GuestAccelerator(Args):
    """GPUs attached to an N1 machine."""

    model_config = ConfigDict(json_schema_extra=_add_accelerators)

    type: str = Field(description="an accelerator type for N1 machines, such as nvidia-tesla-t4")
    count: Integer = Field(default=1, description="the number of GPUs of each machine")

    @field_validator("type")
    @classmethod
    def _type(cls, value: str) -> str:
        return rules.accelerator_type(value)

    @field_validator("count")
    @classmethod
    def _count(cls, value: int, info: ValidationInfo) -> int:
        return rules.accelerator_count(value, info.data)


class ImageDriver(Args):
    """The boot image contains the driver, like Google's accelerator images and Deep Learning VM images."""

    source: Literal["image"] = Field(description="the image contains the driver")


class InstallerDriver(Args):
    """Google's cuda_installer installs the driver on a plain image at the first boot.

    The installation takes minutes and one restart. The installed kernel modules are not signed, so secure boot is off.
    Source: github.com/GoogleCloudPlatform/compute-gpu-installation, version 1.9.1.
    """

    source: Literal["installer"] = Field(description="Google's cuda_installer installs the driver at the first boot")
    branch: Integer = Field(
        default=580,
        description="the driver branch: 580, 595 or 610, which cuda_installer names lts, prod and nfb",
    )
    sha256: str = Field(
        pattern="^[0-9a-f]{64}$",
        description="the SHA-256 of cuda_installer.pyz of version 1.9.1, which runs as root; Google publishes none, so "
        "download the file once, review it, and run sha256sum",
        examples=["0" * 64],
    )

    @field_validator("branch")
    @classmethod
    def _branch(cls, value: int) -> int:
        return software.installer_branch(value)


class CosDriver(Args):
    """Container-Optimized OS installs the driver. The check runs in a container, because the OS has no Python."""

    source: Literal["cos"] = Field(
        description="Container-Optimized OS installs its own signed driver at the first boot"
    )
    branch: Integer = Field(default=580, ge=470, le=999, description="the driver branch, such as 580")
    check_image: str = Field(
        pattern=r"^[a-z0-9][a-z0-9.-]*(:[0-9]+)?(/[a-z0-9._-]+)+(:[A-Za-z0-9._-]+)?@sha256:[0-9a-f]{64}$",
        description="the container image with Python and torch in which the check runs, by its digest, as "
        "registry/name:tag@sha256:…",
        examples=["docker.io/pytorch/pytorch:2.9.1-cuda12.8-cudnn9-runtime@sha256:…"],
    )


Driver: TypeAlias = Annotated[ImageDriver | InstallerDriver | CosDriver, Field(discriminator="source")]


# The validators of fields that depend on earlier fields.
_CHOICE_RULES: dict[str, Any] = {
    "guest_accelerator": rules.accelerator,
    "zones": rules.zones,
    "market": rules.market,
    "reservation": rules.reservation,
}
_RULES: dict[str, Any] = {
    "max_run_duration_sec": rules.run_limit,
    "driver": software.driver,
    "image": software.image,
    "torch": software.torch,
    "disk_type": rules.disk_type,
    "local_ssd_count": rules.local_ssd_count,
    "nic_type": rules.nic_type,
}

_FROM_IMAGE = ImageDriver(source="image")


class GpuMachineChoices(Args):
    """A machine type with GPUs, its zones, and how it is bought: the fields of VMs and of GKE nodes."""

    model_config = ConfigDict(json_schema_extra=_add_machines)

    machine_type: str = Field(description="a Compute Engine machine type with a GPU, such as g2-standard-8")
    guest_accelerator: GuestAccelerator | None = Field(
        default=None,
        validate_default=True,
        examples=[{"type": "nvidia-tesla-t4"}],
        description="the GPUs to attach; required for N1 machine types, and not allowed for others",
    )
    zones: list[str] = Field(
        min_length=1, description="zones of one region that have the GPU, such as [us-central1-a, us-central1-b]"
    )
    market: Literal["spot", "standard", "flex-start", "reservation"] = Field(
        default="spot",
        validate_default=True,
        description="how machines are bought: spot (cheaper, can be preempted), standard, flex-start (waits for "
        "capacity; a machine then runs for a limited time) or reservation (runs in a reservation)",
    )
    reservation: Reservation | None = Field(
        default=None,
        validate_default=True,
        description="the reservation from which machines are taken, by name, or as "
        "projects/<project>/reservations/<name> if another project shares it; required for market reservation, "
        "optional for standard",
    )

    @field_validator("machine_type")
    @classmethod
    def _machine_type(cls, value: str) -> str:
        return rules.machine_type(value)

    @field_validator(*_CHOICE_RULES)
    @classmethod
    def _check_choice(cls, value: Any, info: ValidationInfo) -> Any:
        return _CHOICE_RULES[str(info.field_name)](value, info.data)

    @property
    def region(self) -> str:
        """The region of all zones."""
        return region_of(self.zones[0])

    @property
    def machine(self) -> Machine:
        """The machine type with its GPUs."""
        found = machine_of(dict(self))
        assert found is not None, "validated arguments always name a machine"  # noqa: S101 - for the type checker
        return found

    @property
    def check_machine(self) -> CheckMachine | None:
        """The machine for a check of the GPUs."""
        return CheckMachine(self.machine_type, self.machine, self.zones)

    def shared_resources(self) -> dict[str, Any]:
        """Return the fields that can name a resource of another project, with their values."""
        fields = dict(self)
        return {name: fields.get(name) for name in ("subnetwork", "image", "reservation")}

    def warnings(self, path: str, around: Surroundings) -> Iterator[str]:  # noqa: ARG002 - kinds of pools use it
        """Yield a warning for each zone that Google's page does not list for the GPU."""
        for zone in self.zones:
            if zone in self.machine.undated_zones:
                yield (
                    f"{path}.zones: Google's page of GPU zones has no {self.machine.gpu.name} in {zone}, only an old "
                    "copy of an answer of Google's API has; hint: gpu-ci doctor asks Google"
                )


class GpuMachineArgs(GpuMachineChoices):
    """A GPU machine of the catalog: its type, market, driver, boot image, disks and network."""

    WIRING: ClassVar[frozenset[str]] = frozenset({"project", "network", "subnetwork", "labels"})

    max_run_duration_sec: Integer | None = Field(
        default=None,
        validate_default=True,
        ge=rules.RUN_LIMIT_SEC[0],
        le=rules.RUN_LIMIT_SEC[1],
        description="seconds after which a machine is deleted, even if a job runs on it, 600 to 604800; by default "
        f"{DEFAULT_RUN_LIMIT_SEC}; required for flex-start",
    )
    driver: Driver = Field(
        default=_FROM_IMAGE,
        validate_default=True,
        description="the source of the NVIDIA driver: the image, Google's installer, or Container-Optimized OS",
    )
    image: str = Field(
        default=versions.GCE_IMAGE,
        validate_default=True,
        pattern=r"^(https://[a-z.]+/compute/v1/)?projects/[a-z0-9.:-]+/global/images/(family/)?[a-z0-9-]+$",
        description="the boot image, as projects/<project>/global/images/<name>",
    )
    torch: str | None = Field(
        default=None,
        validate_default=True,
        pattern=r"^[0-9]+\.[0-9]+\.[0-9]+(\+cu[0-9]{3})?$",
        examples=["2.14.0+cu126"],
        description="the torch version that the check installs if the image has none, such as 2.14.0+cu126; by "
        f"default {versions.TORCH}",
    )
    disk_gib: Integer = Field(default=100, ge=30, le=65536, description="size of the boot disk in GiB, 30 to 65536")
    disk_type: Literal["pd-balanced", "pd-ssd", "pd-standard", "hyperdisk-balanced"] | None = Field(
        default=None, description="type of the boot disk; by default pd-balanced if the machine series supports it"
    )
    local_ssd_count: Integer = Field(
        default=0,
        ge=0,
        le=32,
        description=f"number of local SSDs of {rules.LOCAL_SSD_GIB} GiB, whose data is lost with the machine; the "
        "machine type limits the possible numbers",
    )
    nic_type: Literal["GVNIC", "VIRTIO_NET", "IDPF"] | None = Field(
        default=None,
        description="the network interface type; by default the type that the machine series requires, or else the "
        "type that Google chooses",
    )

    project: Input[Project] = Field(description="the id (not the number) of the Google Cloud project of the machines")
    subnetwork: Input[Subnetwork] = Field(
        description="the subnetwork of the machines, in the region of the zones, as "
        "projects/<project>/regions/<region>/subnetworks/<name>"
    )
    network: Input[Network] | None = Field(
        default=None,
        description="the network, as projects/<project>/global/networks/<name>; by default the subnetwork's network",
    )
    labels: Labels = Field(default={}, description="labels of every resource that supports labels")

    @field_validator(*_RULES)
    @classmethod
    def _check_with_earlier_fields(cls, value: Any, info: ValidationInfo) -> Any:
        return _RULES[str(info.field_name)](value, info.data)

    @property
    def boot_images(self) -> list[str]:
        """The image from which machines boot."""
        return [self.image]

    @property
    def run_limit_sec(self) -> int:
        """Seconds after which a machine is deleted."""
        return self.max_run_duration_sec or DEFAULT_RUN_LIMIT_SEC

    @property
    def boot_disk_type(self) -> str:
        """The type of the boot disk: the given type, or the default."""
        return self.disk_type or rules.default_disk_type(self.machine)
