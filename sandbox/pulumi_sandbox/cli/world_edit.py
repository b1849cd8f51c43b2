"""Change one nested value of a stored resource, and report problems of the change (`pulumi-sandbox world edit`)."""

from __future__ import annotations

import json
from pathlib import Path as Folder
from typing import Any

import click

from pulumi_sandbox.providers import paths
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.secret_digests import digest_paths, is_digest
from pulumi_sandbox.providers.values import at
from pulumi_sandbox.world.store import Record, World

Path = tuple[str | int, ...]


def parse_change(change: str) -> tuple[Path, Any]:
    """Return the path and the value of one PATH=VALUE. A value that is not JSON is a text."""
    path_text, separator, value = change.partition("=")
    try:
        if not separator:
            raise ValueError("no value")
        path = paths.parse(path_text)
    except ValueError as error:
        raise click.BadParameter(
            f"{printable(change)}: {error}\n  expected: PATH=VALUE, such as targetSize=3"
        ) from None
    try:
        parsed = json.loads(value)
    except ValueError:
        parsed = value
    # JSON allows half of a surrogate pair, which can be neither stored nor shown.
    text = json.dumps((path, parsed), ensure_ascii=False)
    if text != printable(text):
        raise click.BadParameter(f"{printable(change)}: is not Unicode text\n  expected: PATH=VALUE in UTF-8")
    return path, parsed


def printable(text: str) -> str:
    """Return the text with everything escaped that is not valid Unicode."""
    return text.encode("utf-8", "backslashreplace").decode()


def with_value(tree: Any, path: Path, value: Any) -> Any:
    """Return a copy of a tree with another value at a path. The value None removes the property.

    Raises:
        LookupError: The tree has no such path. The text is the problem.
    """
    if not path:
        return value
    step, *rest = path
    if isinstance(step, int):
        items = [] if tree is None else tree
        if not isinstance(items, list):
            raise LookupError("the value is not a list")
        if step > len(items) or (step == len(items) and value is None):
            raise LookupError(f"the list has {len(items)} items")
        new_value = with_value(items[step] if step < len(items) else None, tuple(rest), value)
        following = items[step + 1 :]
        return [*items[:step], *([] if new_value is None else [new_value]), *following]
    properties = {} if tree is None else tree
    if not isinstance(properties, dict):
        raise LookupError("the value is not an object")
    new_value = with_value(properties.get(step), tuple(rest), value)
    changed = {**properties, step: new_value}
    if new_value is None:
        del changed[step]
    return changed


def refuse_part_of_secret(tree: Any, path: Path, value: Any) -> None:
    """Raise LookupError if a change is inside a hashed secret, or replaces an object that contains one.

    The world has only the digest of a secret, so nothing inside it can change. A new object would store its secret in
    plain text. A property with a secret may be removed as a whole.
    """
    for length in range(1, len(path)):
        if is_digest(at(tree, path[:length])):
            secret_path = paths.text(path[:length])
            raise LookupError(
                f"{secret_path} is a secret; the world stores only its digest\n"
                f"  hint: replace the whole secret: {secret_path}=VALUE"
            )
    current = at(tree, path)
    secrets_below = [paths.text((*path, *below)) for below in digest_paths(current)]
    if secrets_below and not is_digest(current) and value is not None:
        raise LookupError(
            f"the value contains secrets, of which the world stores only digests: {', '.join(secrets_below)}\n"
            f"  hint: change each property by its own path, such as {secrets_below[0]}=VALUE"
        )


def checked_value(row: Record, path: Path, inputs: dict[str, Any], outputs: dict[str, Any], cache: Folder) -> Any:
    """Return the changed value in the form in which its provider stores it.

    A property name must be in the SDK or already in the resource. A resource without a stack is not checked: it is
    stored as in the vendor's API, which the SDK does not describe.

    Raises:
        LookupError: The change adds problems. The text lists them, without the problems that the resource had before.
    """
    from pulumi_sandbox.providers.sdk.shape_check import ShapeCheck, did_you_mean
    from pulumi_sandbox.providers.sdk.shapes import Shapes, UnknownTypeError

    name, package = str(path[0]), row.type.partition(":")[0]
    unchecked = at(outputs, path)
    if row.origin != "stack":
        return unchecked
    shapes, coerces = Shapes.for_package(package, cache), package != "kubernetes"
    try:
        shape = shapes.shape(row.type)
    except UnknownTypeError:
        return unchecked

    def check_properties(kind: str, properties: dict[str, Any]) -> tuple[Any, list[Problem]]:
        check = ShapeCheck(shapes.object, shapes.enum, coerces)
        if kind == "input":
            checked_inputs = shapes.check(row.type, properties, coerces_scalars=coerces)
            return checked_inputs.inputs, [one for one in checked_inputs.problems if one.path.startswith(name)]
        return {name: check.value(shape.outputs[name], properties.get(name), (name,))}, check.problems

    if name in shape.inputs.properties:
        kind, before, after = "input", {**row.inputs, name: row.outputs.get(name)}, {**inputs, name: outputs.get(name)}
    elif name in shape.outputs:
        kind, before, after = "output", row.outputs, outputs
    elif name in row.outputs or shape.open_ended:
        return unchecked
    else:
        suggestion = did_you_mean(name, {*shape.inputs.properties, *shape.outputs})
        raise LookupError(
            f"{row.type} has no such property" + (f"\n  hint: did you mean {suggestion}?" if suggestion else "")
        )
    checked_properties, problems = check_properties(kind, after)
    problems_before = check_properties(kind, before)[1]
    if new_problems := [problem for problem in problems if problem not in problems_before]:
        raise LookupError(
            "; ".join(
                f"{problem.path}: {problem}" if problem.path != name else str(problem) for problem in new_problems
            )
        )
    return at(checked_properties, path, unchecked)


def owned_objects(world: World, row: Record) -> list[Record]:
    """Return the objects that Kubernetes' garbage collection would remove too, such as the pods of a Job."""

    def is_owned(candidate: Record) -> bool:
        metadata, owner_metadata = candidate.inputs.get("metadata") or {}, row.inputs.get("metadata") or {}
        owners = [owner.get("name") for owner in metadata.get("ownerReferences") or ()]
        return owner_metadata.get("name") in owners and metadata.get("namespace") == owner_metadata.get("namespace")

    return [
        candidate
        for candidate in world.find("kubernetes:*")
        if candidate.cluster == row.cluster and is_owned(candidate)
    ]
