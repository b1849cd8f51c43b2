"""What the rest of the package asks about a kind of pool, before there is a pool of this kind."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .component import Component

EXAMPLE_KIND = "gce-runners"
"""The kind in examples and hints: GPU runners on VMs, which need no cluster."""


@dataclass(frozen=True)
class PoolKind:
    """One kind of pool: the answers of its `kind.py`, which loads no Pulumi package.

    `component` loads the rest of the kind. The answers that depend on the fields of a pool are methods of its
    arguments (pool_args.py). The runner manager gets its entry from `Component.managed`.
    """

    name: str
    """The value of `kind` in a stack file, such as gce-runners."""
    resource_type: str
    """The type token of the component, `gpu-ci:<cloud>:<Class>`. The class is in component.py. State files contain the
    token, so it never changes."""
    package: str
    """The package with component.py and args.py: `__package__` of kind.py."""
    example: dict[str, Any]
    """The fields of a valid pool, for the documentation, for hints and for the tests of all kinds."""
    entry_name: str = "l4"
    """The name of the pool in the example of a stack file."""
    on_cluster: str = ""
    """The kind of the cluster that the field `clusterName` names; empty if the pools need none."""
    init_options: tuple[str, ...] = ()
    """The options of `gpu-ci init` that a pool needs; empty if the command writes no pools of this kind."""
    job_types: tuple[str, ...] = ()
    """The types of the resources that jobs run on. A preview warns if a change deletes or replaces one of them."""
    doctor: bool = False
    """Whether doctor.py has STEPS of `gpu-ci doctor` for stacks with a pool of this kind. Their target is a
    `Deployment`."""

    @property
    def component(self) -> type[Component]:
        """The component. Loading it imports the Pulumi package of its cloud."""
        module = importlib.import_module(f"{self.package}.component")
        loaded: type[Component] = getattr(module, self.resource_type.rpartition(":")[2])
        return loaded

    @property
    def doctor_module(self) -> str:
        """The name of the module with the steps of `gpu-ci doctor`."""
        return f"{self.package}.doctor"
