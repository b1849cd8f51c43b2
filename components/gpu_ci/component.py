"""The base class of every Pulumi component of this package."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pulumi
from pydantic.alias_generators import to_camel

from . import naming
from .args import Args, ComponentArgs
from .pool_args import ManagedPool
from .transform import Transformation


class Component(pulumi.ComponentResource):
    """A group of resources with one set of arguments and a few outputs."""

    TYPE: ClassVar[str]
    """The type token, `gpu-ci:<gcp|aws|kubernetes|github>:<Class>`. State files contain it, so it never changes."""

    ARGS: ClassVar[type[Args]]
    """The model of the arguments."""

    ON_CLUSTER: ClassVar[str] = ""
    """The kind of the cluster that the field `clusterName` names; empty if the component is not for a cluster."""

    ENTRY_NAME: ClassVar[str] = "l4"
    """The name of the entry in the example of a stack file."""

    EXAMPLE: ClassVar[dict[str, Any]] = {}
    """Valid arguments, for the documentation and for the tests of all components."""

    FIXED: ClassVar[dict[str, tuple[str, ...]]] = {}
    """The properties that `transform` cannot change, by the role of the resource, because the check of the GPUs relies
    on them, such as `node_config.image_type`. The property `*` stands for the whole resource."""

    def __init__(self, name: str, args: ComponentArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        naming.check(type(self).__name__, name, getattr(args, "NAME_MOST", 0))
        args.set_subject(f"{type(self).__name__} '{name}'")
        self._options_of_children = pulumi.ResourceOptions(depends_on=opts.depends_on if opts else None)
        own = copy.copy(opts)
        if own:
            # Only the children get `depends_on`, not the component. With --continue-on-error, the engine skips all
            # resources that depend on a failed resource. If the engine skipped a component, the program would end when
            # the component registers its outputs: "cannot complete a resource … whose registration isn't pending"
            # (pulumi 3.272.0).
            own.depends_on = None
        self.transformation = Transformation(self, args)
        if args.transform:
            ours = pulumi.ResourceOptions(transformations=[self.transformation])
            own = pulumi.ResourceOptions.merge(own, ours)
        super().__init__(self.TYPE, name, None, own)

    def child(self, **options: Any) -> pulumi.ResourceOptions:
        """Return the options of a child resource.

        The options contain the `depends_on` of the component, because Pulumi does not pass this option on to children.
        Pulumi passes on other options, such as providers.
        """
        return pulumi.ResourceOptions.merge(self._options_of_children, pulumi.ResourceOptions(parent=self, **options))

    def managed(self) -> ManagedPool | None:
        """Return what a runner manager needs to start machines; None if it starts none for this component."""
        return None

    @classmethod
    def shared(cls, pools: Mapping[str, Any], managers: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:  # noqa: ARG003
        """Create what the pools of this kind in a stack share. Return the wiring that each pool gets from it.

        Args:
            pools: The arguments of the pools, by their names.
            managers: The names of the stack's runner managers.
        """
        return {}

    @classmethod
    def own_names(cls, name: str, stack: str) -> dict[str, list[str]]:  # noqa: ARG003 - a component without such grants
        """Return how the names of machines, disks and images start that the component's account may change.

        The keys are collections of the Compute Engine API.
        """
        return {}

    @classmethod
    def output_names(cls) -> tuple[str, ...]:
        """Return the names of the annotated outputs, in the order of the class."""
        bases = [base for base in reversed(cls.__mro__) if issubclass(base, Component)]
        hints = {name: str(hint) for base in bases for name, hint in inspect.get_annotations(base).items()}
        return tuple(name for name, hint in hints.items() if hint.startswith("pulumi.Output["))

    def register(self) -> None:
        """Register exactly the annotated outputs. Constructors call this last.

        Raises ArgsError if the argument `transform` has a role that no resource of the component has.
        """
        self.transformation.check_roles()
        self.register_outputs(self.state())

    def state(self) -> dict[str, pulumi.Output[Any]]:
        """Return the outputs by their names in the engine and in other languages."""
        return {to_camel(name): getattr(self, name) for name in self.output_names()}


class ImagePipeline(Component):
    """Builds images and checks them. An image that passed its check is a candidate, which no pool uses by itself."""

    IMAGE_KIND: ClassVar[str]
    """The `kind` of the pipeline under gpu-ci:images in a stack file."""

    PINS: ClassVar[tuple[tuple[str, ...], ...]]
    """The fields of pools that can name an image of this pipeline, each by the keys below the pool."""
