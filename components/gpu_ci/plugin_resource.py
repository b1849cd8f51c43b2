"""The base class of the custom resources of this package's plugin."""

from __future__ import annotations

from typing import ClassVar

import pulumi
from pydantic.alias_generators import to_camel

from . import versions
from .args import Args


class PluginResource(pulumi.CustomResource):
    """A custom resource that the plugin of this package provides. Each output is an attribute."""

    TYPE: ClassVar[str]
    ARGS: ClassVar[type[Args]]
    OUTPUTS: ClassVar[tuple[str, ...]] = ()

    def __init__(self, name: str, args: Args, opts: pulumi.ResourceOptions | None = None) -> None:
        args.set_subject(f"{type(self).__name__} '{name}'")
        # The engine loads the plugin of this version.
        defaults = pulumi.ResourceOptions(version=versions.PACKAGE)
        # The fields get the engine's names here. Pulumi's own translation of names would also change the keys of maps,
        # such as labels and tags.
        fields = {field: getattr(args, field) for field in self.ARGS.model_fields}
        given = {to_camel(field): value for field, value in fields.items() if value is not None}
        outputs = dict.fromkeys(map(to_camel, self.OUTPUTS))
        super().__init__(self.TYPE, name, {**given, **outputs}, pulumi.ResourceOptions.merge(defaults, opts))
        for output in self.OUTPUTS:
            setattr(self, output, self.__dict__[to_camel(output)])
