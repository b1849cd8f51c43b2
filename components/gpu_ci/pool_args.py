"""What the rest of the package asks about an entry of a stack file, a pool or an image pipeline, without its kind.

A kind overrides the answers that differ from these defaults.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from .args import ComponentArgs
from .errors import Problem

if TYPE_CHECKING:
    from gpu_catalog import Demand, Machine
    from gpu_catalog.cost import Metered


class EntryArgs(ComponentArgs):
    """The arguments of a pool or of an image pipeline."""

    CREATES: ClassVar[tuple[str, ...]] = ()
    """The types of the Google Cloud resources of each entry, in the project of its cluster or of the stack."""
    CREATES_WITH: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """The types that fields add in the project of the stack, by the name of the field in the stack file."""
    NAME_MOST: ClassVar[int] = 0
    """The maximum length of the entry's name, if it is less than that of all names (naming.py); 0 otherwise."""

    @classmethod
    def uses_google(cls, choices: Mapping[str, Any]) -> bool:  # noqa: ARG003
        """Return whether an entry with these fields has resources on Google Cloud, although its machines are not."""
        return False

    def prerequisites(self, path: str) -> Iterable[str]:  # noqa: ARG002 - most kinds have none
        """Return what the entry at `path` needs in the project that no check of the stack file sees."""
        return ()


class CheckMachine(NamedTuple):
    """The machine of a pool on which a check of its GPUs runs."""

    machine_type: str
    machine: Machine
    zones: list[str]


@dataclass(frozen=True)
class Surroundings:
    """What the warnings of a pool depend on, besides its arguments."""

    logins: Mapping[str, Collection[str]]
    """The names of the logins of registries, by cluster."""
    closed_clusters: Collection[str] = ()
    """The clusters whose network policies let runners connect to no private address."""
    missing_for_manager: Collection[str] = ()
    """The keys that the stack file lacks for a runner manager."""


@dataclass(frozen=True)
class ManagedPool:
    """What a runner manager needs to start machines of a pool."""

    entry: dict[str, Any]
    """The entry of the pool in the manager's configuration, which gpu_manager reads."""
    service_account_email: Any
    """The account of the machines at Google, which the manager must be allowed to use; None for other vendors."""
    standby_templates: list[Any]
    """The templates of machines that the manager may stop."""
    secret_files: Mapping[str, str] = field(default_factory=dict)
    """The secrets in Secret Manager that the manager reads as files, by the environment variable with the path."""
    mailboxes: Mapping[str, Any] = field(default_factory=dict)
    """The buckets of Cloud Storage with the messages between the manager and the machines, by their resource names."""


class PoolArgs(EntryArgs):
    """The arguments of a pool."""

    REGISTERED_BY: ClassVar[Literal["", "machines", "cluster"]] = ""
    """What registers the pool's runners on GitHub: its machines or the runner manager, the controller of its cluster,
    or nothing because the pool has no runners."""
    STEP_PROGRAM: ClassVar[str] = ""
    """The module that a step of Cloud Build runs on a machine of the pool, and that reports the machine."""
    SECRETS_OF_MANAGER: ClassVar[tuple[str, ...]] = ()
    """The fields that name secrets which a runner manager of the stack needs."""
    HAS_GATE: ClassVar[bool] = False
    """Whether the plugin starts the machine of the check. It uses the environment's credentials."""
    LATER_MACHINES: ClassVar[str] = "the group the rights of <project number>@cloudservices.gserviceaccount.com"
    """Who creates machines after the check, for a hint about the access to `shared_resources`."""

    def runner_labels_of(self, name: str) -> list[str]:  # noqa: ARG002 - a pool without runners
        """Return the labels of the runners of the pool `name`."""
        return []

    @classmethod
    def default_labels(cls, name: str) -> list[str]:  # noqa: ARG003 - a pool without labels of its own
        """Return the labels of the runners of a pool without `runnerLabels`."""
        return []

    @classmethod
    def problems_with_runners(cls, choices: Mapping[str, Any], registers: bool) -> list[Problem]:  # noqa: ARG003
        """Return the problems of fields that do not work in a pool with runners.

        Args:
            choices: The fields in the stack file. They may be invalid.
            registers: Whether the machines of the pool register their runners themselves.
        """
        return []

    @classmethod
    def problems_of_all(cls, pools: Mapping[str, Mapping[str, Any]]) -> Iterable[Problem]:  # noqa: ARG003
        """Return the problems of the pools of this kind together.

        Args:
            pools: The fields of each pool in the stack file, by its path. They may be invalid.
        """
        return ()

    def demand(self, name: str) -> Demand | None:  # noqa: ARG002 - a pool without machines of its own
        """Return the machines and disks of the pool `name`, to compute its cost and its quotas."""
        return None

    def ladder_demands(self, name: str) -> list[Demand]:  # noqa: ARG002 - most kinds have no ladder
        """Return the demand of each rung of the ladder, as if all machines of the pool came from this rung."""
        return []

    def metered(self, name: str) -> Metered | None:  # noqa: ARG002 - most kinds are billed by machine
        """Return how a service bills the pool by use, such as Cloud Build by the build minute."""
        return None

    @property
    def check_machine(self) -> CheckMachine | None:
        """The machine for a check of the pool's GPUs: the smallest, if there are several types."""
        return None

    @property
    def services(self) -> tuple[str, ...]:
        """The services of Google Cloud that the pool uses besides those of its resources."""
        return ()

    @property
    def alternatives(self) -> Sequence[str]:
        """The machine types of which the cloud chooses one for each machine; empty if there is only one."""
        return ()

    def shared_resources(self) -> dict[str, Any]:
        """Return the fields that can name a resource of another project, with their values."""
        return {}

    @property
    def boot_images(self) -> list[str]:
        """The images of Compute Engine from which machines boot."""
        return []

    @property
    def runner_version(self) -> str | None:
        """The version of the GitHub runner on machines of the pool; None if there is none."""
        return None

    @property
    def registered_runner(self) -> str | None:
        """The version of the GitHub runner that machines of the pool run; None if they run none."""
        return None

    def warnings(self, path: str, around: Surroundings) -> Iterable[str]:  # noqa: ARG002 - a kind without warnings
        """Return the warnings about the pool at `path` that do not prevent a deployment."""
        return ()

    def outputs(self, name: str) -> dict[str, Any]:  # noqa: ARG002 - a kind whose fields say all
        """Return outputs of the pool `name` besides its fields, its cost and the outputs of its component."""
        return {}

    def with_runner_group(self, group: Any) -> PoolArgs:  # noqa: ARG002 - a cluster passes it on
        """Return the arguments with the created runner group as an Output, so that the check waits for it."""
        return self
