"""Changes the resources of a component before they are registered: the argument `transform` of every component."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pulumi
from pulumi import _types

from . import naming
from .args import ComponentArgs, Transform
from .errors import Problem, did_you_mean, unknown_field

if TYPE_CHECKING:
    from .component import Component


class Transformation:
    """The transformation of Pulumi that applies `transform` to the resources of a component and of its parts."""

    def __init__(self, owner: Component, args: ComponentArgs) -> None:
        self._owner = owner
        self._args = args
        self._roles: list[str] = []

    def __call__(self, found: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        parent: Any = found.opts.parent
        if not isinstance(found.resource, pulumi.CustomResource):
            return None
        role = _role(self._owner, found.name)
        # A part of the component, such as the nodes of a pool, says itself what is fixed.
        fixed = ("*",) if found.type_.startswith("gpu-ci:") else _fixed(parent, found.name)
        if "*" not in fixed:
            self._roles.append(role)
        if role not in self._args.transform:
            return None
        if "*" in fixed:
            text = "is part of the check of the GPUs, or of gpu-ci itself, and cannot be changed"
            raise self._args.wrong([Problem(f"transform.{role}", text, hint="remove it", rule="fixed-resource")])
        props, opts = self._changed(f"transform.{role}", self._args.transform[role], found)
        if problems := [*_problems(f"transform.{role}", found, props, fixed)]:
            raise self._args.wrong(problems)
        return pulumi.ResourceTransformationResult(props, opts)

    def check_roles(self) -> None:
        """Raise ArgsError if `transform` has a role that no resource has."""
        problems = [
            Problem(f"transform.{role}", "unknown role of a resource", repr(role), f"one of {', '.join(self._roles)}",
                    did_you_mean(role, self._roles) or "roles depend on the other fields", "unknown-role")
            for role in self._args.transform if role not in self._roles
        ]  # fmt: skip
        if problems:
            raise self._args.wrong(problems)

    def _changed(
        self, path: str, transform: Transform, found: pulumi.ResourceTransformationArgs
    ) -> tuple[Mapping[str, Any], pulumi.ResourceOptions]:
        """Return the new properties and options. The component's own are not changed."""
        if isinstance(transform, Mapping):
            return merged(found.props, transform), found.opts
        returned = transform(_copied(found.props), pulumi.ResourceOptions.merge(None, found.opts))
        match returned:
            case (Mapping() as props, pulumi.ResourceOptions() as opts):
                # Without what the resource waits for, runners would not wait for the check of their GPUs.
                kept = pulumi.ResourceOptions(depends_on=found.opts.depends_on, parent=found.opts.parent)
                return props, pulumi.ResourceOptions.merge(opts, kept)
        got, expected = type(returned).__name__, "the properties and the options"
        problem = Problem(path, "returns a wrong value", got, expected, "such as return args, opts", "wrong-type")
        raise self._args.wrong([problem])


def _problems(
    path: str, found: pulumi.ResourceTransformationArgs, props: Mapping[str, Any], fixed: tuple[str, ...]
) -> Iterator[Problem]:
    """Yield the problems of unknown properties, and of fixed properties with another value."""
    cls = type(found.resource)
    signature = inspect.signature(getattr(cls, "_internal_init", cls.__init__))
    known = {*signature.parameters} - {"self", "__self__", "resource_name", "opts", "__props__", "kwargs"}
    known |= {name for name, value in found.props.items() if value is not None}
    for name, value in props.items():
        if name not in known and (name not in found.props or value != found.props[name]):
            choices = sorted(known if "_" in name else map(_camel, known))
            yield unknown_field(f"{path}.{name}", name, choices)
    for place in fixed:
        if _at(props, place) != _at(found.props, place):
            text = "is what the check of the GPUs has checked, and cannot be changed"
            hint = "use the fields of the component"
            yield Problem(f"{path}.{place}", text, hint=hint, rule="fixed-property")


def merged(old: Any, new: Any) -> Any:
    """Merge maps at every depth. Other values, also lists, are replaced.

    The names of `new` may be in camelCase, as in stack files, where those of `old` are in snake_case.
    """
    if isinstance(old, pulumi.Output) and isinstance(new, Mapping):
        return old.apply(lambda value: merged(value, new))
    if _types.is_input_type(type(old)):
        old = _types.input_type_to_untranslated_dict(old)
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return new
    names = {_camel(name): name for name in old}
    own = {name if name in old else names.get(name, name): value for name, value in new.items()}
    return {**old, **{name: merged(old.get(name), value) for name, value in own.items()}}


def _copied(value: Any) -> Any:
    """Return a copy of the maps and lists in a value, which a function may change."""
    if _types.is_input_type(type(value)):
        copied = copy.copy(value)
        vars(copied).update(_copied(vars(value)))
        return copied
    if isinstance(value, Mapping):
        return {key: _copied(each) for key, each in value.items()}
    return [_copied(each) for each in value] if isinstance(value, list) else value


def _fixed(parent: Any, name: str) -> tuple[str, ...]:
    """Return the fixed properties of a part. A long name of the part is cut, and ends with a digest."""
    owner = parent.pulumi_resource_name
    return next((places for role, places in parent.FIXED.items() if naming.is_fit(name, f"{owner}-{role}")), ())


def _at(props: Any, place: str) -> Any:
    """Return the value that the provider gets for a place. Of two spellings of a name it gets the last one."""
    for step in place.split("."):
        if _types.is_input_type(type(props)):
            props = _types.input_type_to_untranslated_dict(props)
        found = {_camel(str(name)): value for name, value in props.items()} if isinstance(props, Mapping) else {}
        props = found.get(_camel(step))
    return props


def _role(component: pulumi.Resource, name: str) -> str:
    """Return the name of a resource without the name of the component."""
    return name.removeprefix(f"{component.pulumi_resource_name}-")


def _camel(name: str) -> str:
    return re.sub(r"_([a-z0-9])", lambda found: found[1].upper(), name)
