"""The check against Google's discovery documents: what it finds, and exactly what it cannot see."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.sdk.shapes import Shapes
from pulumi_sandbox.providers.sdk.types import Type

from tests.sandbox.providers.gcp.conftest import SHAPES

VERSIONS = {"versions": [{"instanceTemplate": "x"}]}


@pytest.fixture
def shapes() -> Shapes:
    return SHAPES


def properties(shapes: Shapes, token: str) -> set[tuple[str, ...]]:
    """Every property of a resource, as the names on the way to it."""

    def below(kind: Type, names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        if kind.kind == "object":
            for name, declared in shapes.object(kind.name).properties.items():
                yield from below(declared.type, (*names, name))
        elif kind.kind in ("list", "union"):
            for one in kind.of:
                yield from below(one, names)
        elif kind.kind == "map":
            yield from below(kind.of[0], (*names, "any key"))
        else:
            yield names

    declared = shapes.shape(token).inputs.properties
    return {names for name, one in declared.items() for names in below(one.type, (name,))}


def test_no_rename_is_for_a_property_there_is_not(shapes: Shapes) -> None:
    wrong = {}
    for token, target in types.TARGETS.items():
        known = {names[:length] for names in properties(shapes, token) for length in range(1, len(names) + 1)}
        renames = {tuple(path.replace("*", "any key").split(".")) for path in target.fields}
        if renames - known:
            wrong[token] = renames - known
    assert wrong == {}
