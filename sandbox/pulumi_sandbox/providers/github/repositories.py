"""The repositories of the emulated GitHub: those that stacks created, and those in sandbox.yaml."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import Any

from pulumi_sandbox.providers.github import types
from pulumi_sandbox.providers.github.types import same_name
from pulumi_sandbox.providers.inputs import text_of
from pulumi_sandbox.world.store import Record, World

# The same values as in fixtures/github.yaml, from which lookups of a repository are answered.
FIRST_NUMBER, NUMBERS = 700_000_000, 10**8
WILDCARDS = frozenset("*?[")
_BY_NAME, _BY_NUMBER = "github-repository", "github-repository-number"


@dataclass(frozen=True)
class Repository:
    """A repository on GitHub."""

    id: int
    owner: str
    name: str
    private: bool = True

    @property
    def full_name(self) -> str:
        return f"{self.owner}/{self.name}"


def number(full_name: str, first: int = FIRST_NUMBER) -> int:
    """Return the number of a repository. It depends on the name alone, so it is the same in every run."""
    return first + int(hashlib.sha256(full_name.lower().encode()).hexdigest(), 16) % NUMBERS


def remember(world: World, result: Mapping[str, Any]) -> Repository:
    """Store the result of a lookup, and return it. A runner group uses it to find the name of a repository's number."""
    owner, _, name = str(result["fullName"]).rpartition("/")
    repository_id = int(result.get("repoId") or number(str(result["fullName"])))
    repository = Repository(repository_id, owner, name, result.get("visibility") != "public")
    _store(world, repository)
    return repository


def _store(world: World, repository: Repository) -> None:
    text = json.dumps(asdict(repository))
    for key in (f"{_BY_NAME}/{repository.full_name.lower()}", f"{_BY_NUMBER}/{repository.id}"):
        if world.setting(key) != text:
            world.set_setting(key, text)


@dataclass(frozen=True)
class Repositories:
    """The repositories of a world. `patterns` are the globs under `exists: github` in sandbox.yaml."""

    world: World
    patterns: tuple[str, ...] = ()

    def get(self, full_name: str) -> Repository | None:
        for created in self._created():
            if same_name(created.full_name, full_name):
                return created
        lower_name = full_name.lower()
        if lower_name.count("/") != 1 or not any(
            fnmatchcase(lower_name, repository.lower()) for repository in self.patterns
        ):
            return None
        if stored := self.world.setting(f"{_BY_NAME}/{lower_name}"):
            return Repository(**json.loads(stored))
        owner, _, name = full_name.partition("/")
        repository = Repository(number(full_name), owner, name)
        _store(self.world, repository)
        return repository

    def by_number(self, number: int) -> Repository | None:
        if stored := self.world.setting(f"{_BY_NUMBER}/{number}"):
            return Repository(**json.loads(stored))
        return next((one for one in self._created() if one.id == number), None)

    def all(self) -> list[Repository]:
        """Return the repositories with a known name: created, looked up, used, or listed without a wildcard."""
        listed = [self.get(one) for one in self.patterns if one.count("/") == 1 and not WILDCARDS & set(one)]
        stored = [Repository(**json.loads(text)) for text in self.world.settings(f"{_BY_NAME}/")]
        by_id = {one.id: one for one in [*self._created(), *listed, *stored] if one}
        return sorted(by_id.values(), key=lambda one: one.id)

    def of(self, owner: str) -> list[Repository]:
        return [one for one in self.all() if same_name(one.owner, owner)]

    def named(self, name: str) -> list[str]:
        """Return the possible full names of a repository with this name."""
        listed = {one.partition("/")[0] for one in self.patterns if one.count("/") == 1}
        owners = {one for one in listed if not WILDCARDS & set(one)}
        return [f"{owner}/{name}" for owner in sorted(owners | {one.owner for one in self._created()})]

    def _created(self) -> Iterator[Repository]:
        for one in self.world.find(types.REPOSITORY):
            yield from_record(one)


def from_record(record: Record) -> Repository:
    owner, _, name = text_of(record.outputs, "fullName").rpartition("/")
    return Repository(int(record.outputs["repoId"]), owner, name, record.outputs.get("visibility") != "public")
