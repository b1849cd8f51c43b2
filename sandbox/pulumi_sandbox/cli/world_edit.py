"""Changes one nested value of a stored resource, and reports problems of the change."""

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


def parsed(change: str) -> tuple[Path, Any]:
    """Return the path and the value of one PATH=VALUE. A value that is not JSON is a text."""
    written, equals, value = change.partition("=")
    try:
        if not equals:
            raise ValueError("no value")
        path = paths.parse(written)
    except ValueError as wrong:
        raise click.BadParameter(
            f"{printable(change)}: {wrong}\n  expected: PATH=VALUE, such as targetSize=3"
        ) from None
    try:
        found = json.loads(value)
    except ValueError:
        found = value
    # JSON allows half of a surrogate pair, which can be neither stored nor shown.
    text = json.dumps((path, found), ensure_ascii=False)
    if text != printable(text):
        raise click.BadParameter(f"{printable(change)}: is not Unicode text\n  expected: PATH=VALUE in UTF-8")
    return path, found


def printable(text: str) -> str:
    """Return the text with everything escaped that is not valid Unicode."""
    return text.encode("utf-8", "backslashreplace").decode()


def put(tree: Any, path: Path, value: Any) -> Any:
    """Return a copy of a tree with another value at a path; None removes it. LookupError has the problem."""
    if not path:
        return value
    step, *rest = path
    if isinstance(step, int):
        items = [] if tree is None else tree
        if not isinstance(items, list):
            raise LookupError("there is no list there")
        if step > len(items) or (step == len(items) and value is None):
            raise LookupError(f"the list has {len(items)} items")
        inner = put(items[step] if step < len(items) else None, tuple(rest), value)
        after = items[step + 1 :]
        return [*items[:step], *([] if inner is None else [inner]), *after]
    properties = {} if tree is None else tree
    if not isinstance(properties, dict):
        raise LookupError("there is no object there")
    inner = put(properties.get(step), tuple(rest), value)
    changed = {**properties, step: inner}
    if inner is None:
        del changed[step]
    return changed


def guard_secrets(tree: Any, path: Path, value: Any) -> None:
    """Raise LookupError if a change touches a part of a hashed secret.

    A secret has only its digest below it, and a new value around it would be stored in plain text. Removing the whole
    property is allowed.
    """
    for length in range(1, len(path)):
        if is_digest(at(tree, path[:length])):
            whole = paths.text(path[:length])
            raise LookupError(
                f"{whole} is a secret, of which the world keeps a digest only\n"
                f"  hint: give the secret another value as a whole: {whole}=VALUE"
            )
    here = at(tree, path)
    inside = [paths.text((*path, *one)) for one in digest_paths(here)]
    if inside and not is_digest(here) and value is not None:
        raise LookupError(
            f"there are secrets in it, of which the world keeps digests only: {', '.join(inside)}\n"
            f"  hint: change a secret by its own path: {inside[0]}=VALUE; and so what is beside it"
        )


def checked(row: Record, path: Path, inputs: dict[str, Any], outputs: dict[str, Any], cache: Folder) -> Any:
    """Return the changed value as its provider stores it. LookupError has every problem of the change.

    A property name must be in the SDK or already in the resource. Problems from before the change are ignored. A
    resource without a stack is stored as in the vendor's API, which the SDK does not describe.
    """
    from pulumi_sandbox.providers.sdk.shape_check import ShapeCheck, did_you_mean
    from pulumi_sandbox.providers.sdk.shapes import Shapes, UnknownTypeError

    name, package = str(path[0]), row.type.partition(":")[0]
    plain = at(outputs, path)
    if row.origin != "stack":
        return plain
    shapes, coerces = Shapes.for_package(package, cache), package != "kubernetes"
    try:
        shape = shapes.shape(row.type)
    except UnknownTypeError:
        return plain

    def run(kind: str, given: dict[str, Any]) -> tuple[Any, list[Problem]]:
        check = ShapeCheck(shapes.object, shapes.enum, coerces)
        if kind == "input":
            whole = shapes.check(row.type, given, coerces_scalars=coerces)
            return whole.inputs, [one for one in whole.problems if one.path.startswith(name)]
        return {name: check.value(shape.outputs[name], given.get(name), (name,))}, check.problems

    if name in shape.inputs.properties:
        kind, before, after = "input", {**row.inputs, name: row.outputs.get(name)}, {**inputs, name: outputs.get(name)}
    elif name in shape.outputs:
        kind, before, after = "output", row.outputs, outputs
    elif name in row.outputs or shape.open_ended:
        return plain
    else:
        meant = did_you_mean(name, {*shape.inputs.properties, *shape.outputs})
        raise LookupError(f"{row.type} has no such property" + (f"\n  hint: did you mean {meant}?" if meant else ""))
    kept, problems = run(kind, after)
    known = run(kind, before)[1]
    if new := [problem for problem in problems if problem not in known]:
        raise LookupError(
            "; ".join(f"{problem.path}: {problem}" if problem.path != name else str(problem) for problem in new)
        )
    return at(kept, path, plain)


def owned(here: World, row: Record) -> list[Record]:
    """Return the objects that Kubernetes' garbage collection would remove too, such as the pods of a Job."""

    def names_it(one: Record) -> bool:
        meta, mine = one.inputs.get("metadata") or {}, row.inputs.get("metadata") or {}
        owners = [owner.get("name") for owner in meta.get("ownerReferences") or ()]
        return mine.get("name") in owners and meta.get("namespace") == mine.get("namespace")

    return [one for one in here.find("kubernetes:*") if one.cluster == row.cluster and names_it(one)]
