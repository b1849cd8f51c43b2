"""Change one nested value of a stored resource (`pulumi-sandbox world edit`)."""

from __future__ import annotations

import json
from typing import Any

import click

from pulumi_sandbox.providers import paths
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
        raise click.BadParameter(f"{change}: {error}\n  expected: PATH=VALUE, such as targetSize=3") from None
    try:
        return path, json.loads(value)
    except ValueError:
        return path, value


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
