"""The repositories of the sandbox's GitHub: those that stacks made, and those that sandbox.yaml lists."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import Any

from pulumi_sandbox.providers.github import types
from pulumi_sandbox.providers.github.types import same_name, text_of
from pulumi_sandbox.world.store import Record, World

# The values of fixtures/github.yaml: what a lookup of the same repository answers.
FIRST_NUMBER, NUMBERS = 700_000_000, 10**8
WILDCARDS = frozenset("*?[")
_BY_NAME, _BY_NUMBER = "github-repository", "github-repository-number"


@dataclass(frozen=True)
class Repository:
    """A repository as GitHub knows it."""

    id: int
    owner: str
    name: str
    private: bool = True

    @property
    def full_name(self) -> str:
        return f"{self.owner}/{self.name}"


def number(full_name: str, first: int = FIRST_NUMBER) -> int:
    """The same number for the same name in every run."""
    return first + int(hashlib.sha256(full_name.lower().encode()).hexdigest(), 16) % NUMBERS


def remember(world: World, found: Mapping[str, Any]) -> None:
    """Keep what a lookup answered, so that a runner group finds the name of a number."""
    owner, _, name = str(found["fullName"]).rpartition("/")
    one = Repository(int(found["repoId"]), owner, name, found.get("visibility") != "public")
    _keep(world, one)


def _keep(world: World, one: Repository) -> None:
    text = json.dumps(asdict(one))
    for key in (f"{_BY_NAME}/{one.full_name.lower()}", f"{_BY_NUMBER}/{one.id}"):
        if world.setting(key) != text:
            world.keep(key, text)


@dataclass(frozen=True)
class Repositories:
    """`patterns` are the globs that sandbox.yaml lists under exists: github."""

    world: World
    patterns: tuple[str, ...] = ()

    def get(self, full_name: str) -> Repository | None:
        for made in self._made():
            if same_name(made.full_name, full_name):
                return made
        wanted = full_name.lower()
        if wanted.count("/") != 1 or not any(fnmatchcase(wanted, one.lower()) for one in self.patterns):
            return None
        if known := self.world.setting(f"{_BY_NAME}/{wanted}"):
            return Repository(**json.loads(known))
        owner, _, name = full_name.partition("/")
        one = Repository(number(full_name), owner, name)
        _keep(self.world, one)
        return one

    def by_number(self, wanted: int) -> Repository | None:
        if known := self.world.setting(f"{_BY_NUMBER}/{wanted}"):
            return Repository(**json.loads(known))
        return next((one for one in self._made() if one.id == wanted), None)

    def every(self) -> list[Repository]:
        """Those that have a name so far: made, looked up, used, or listed without a wildcard."""
        named = [self.get(one) for one in self.patterns if one.count("/") == 1 and not WILDCARDS & set(one)]
        kept = [Repository(**json.loads(text)) for text in self.world.settings(f"{_BY_NAME}/")]
        found = {one.id: one for one in [*self._made(), *named, *kept] if one}
        return sorted(found.values(), key=lambda one: one.id)

    def of(self, owner: str) -> list[Repository]:
        return [one for one in self.every() if same_name(one.owner, owner)]

    def named(self, name: str) -> list[str]:
        """The full names that a repository of this name may have."""
        listed = {one.partition("/")[0] for one in self.patterns if one.count("/") == 1}
        owners = {one for one in listed if not WILDCARDS & set(one)}
        return [f"{owner}/{name}" for owner in sorted(owners | {one.owner for one in self._made()})]

    def _made(self) -> Iterator[Repository]:
        for one in self.world.find(types.REPOSITORY):
            yield _of_record(one)


def _of_record(record: Record) -> Repository:
    owner, _, name = text_of(record.outputs, "fullName").rpartition("/")
    return Repository(int(record.outputs["repoId"]), owner, name, record.outputs.get("visibility") != "public")
