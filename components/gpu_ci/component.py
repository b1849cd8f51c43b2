"""The base of every component: a literal type token, children that stay inside, outputs that are what is annotated."""

from __future__ import annotations

import copy
import inspect
from typing import Any, ClassVar

import pulumi
from pydantic.alias_generators import to_camel

from . import naming
from .args import Args


class Component(pulumi.ComponentResource):
    """A group of resources with one set of arguments and a few outputs."""

    TYPE: ClassVar[str]
    """The type token, `gpu-ci:<gcp|aws|kubernetes|github>:<Class>`; it is in every state file and never changes."""

    ARGS: ClassVar[type[Args]]
    """The model of its arguments."""

    KIND: ClassVar[str] = ""
    """What a stack file calls it; empty for what is no pool."""

    EXAMPLE: ClassVar[dict[str, Any]] = {}
    """Arguments that work, for documentation and for the tests that hold every component to the same rules."""

    def __init__(self, name: str, args: Args, opts: pulumi.ResourceOptions | None = None) -> None:
        naming.check(type(self).__name__, name)
        args.about(f"{type(self).__name__} '{name}'")
        self._after = pulumi.ResourceOptions(depends_on=opts.depends_on if opts else None)
        own = copy.copy(opts)
        if own:
            # Its children wait. With --continue-on-error the engine leaves out whatever waits for what failed; a
            # component that it left out fails at its outputs, which ends the program: "cannot complete a resource …
            # whose registration isn't pending" (pulumi 3.272.0).
            own.depends_on = None
        super().__init__(self.TYPE, name, None, own)

    def child(self, **options: Any) -> pulumi.ResourceOptions:
        """Options of a child: never the caller's own, which Pulumi already applies to what it should.

        But for one: what the component is to wait for. Pulumi has only the component itself wait, which is nothing in
        any cloud, and its children would be made at once.
        """
        return pulumi.ResourceOptions.merge(self._after, pulumi.ResourceOptions(parent=self, **options))

    @classmethod
    def output_names(cls) -> tuple[str, ...]:
        """The annotated outputs, in the order of the class."""
        own = [base for base in reversed(cls.__mro__) if issubclass(base, Component)]
        hints = {name: str(hint) for base in own for name, hint in inspect.get_annotations(base).items()}
        return tuple(name for name, hint in hints.items() if hint.startswith("pulumi.Output["))

    def register(self) -> None:
        """Register exactly the annotated outputs; the last statement of a constructor."""
        self.register_outputs(self.state())

    def state(self) -> dict[str, pulumi.Output[Any]]:
        """The outputs as the engine and other languages name them."""
        return {to_camel(name): getattr(self, name) for name in self.output_names()}
