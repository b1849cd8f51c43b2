"""The report on a change: what every form of it (Markdown, HTML, annotations, JSON) is made from.

It holds nothing secret: values are texts that are fit to be shown (values.py). docs/preview-report.schema.json is made
from these models, and `version` changes with any field that a reader of an older report would miss.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

# Bounds of ours: no stack comes near them, and whoever forges a report can make no other figure of it.
_MOST = 10**9
_MOST_USD = 1e12


class Model(BaseModel):
    """A part of the report; camelCase in JSON, and nothing beyond the fields it has."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        allow_inf_nan=False,
        # What stands below a field is its description in the schema.
        use_attribute_docstrings=True,
        # A report that is written has every field.
        json_schema_serialization_defaults_required=True,
    )


class Operation(StrEnum):
    """What the engine would do with a resource."""

    CREATE = "create"
    UPDATE = "update"
    REPLACE = "replace"
    DELETE = "delete"
    SAME = "same"


class PropertyChange(Model):
    """One property that differs."""

    path: str
    """As the engine writes it, such as `versions[0].instanceTemplate`; parts of a JSON text are behind a `#`."""
    kind: Literal["add", "delete", "update"]
    forces_replacement: bool = False
    before: str | None = None
    """As JSON, shortened; `[secret]` and `(unknown)` stand for what nobody may or can see. None: there was none."""
    after: str | None = None


class Resource(Model):
    """One resource of the stack, and what would happen to it."""

    urn: str
    type: str
    name: str
    operation: Operation
    parent: str = ""
    """The URN of the component it belongs to; empty below the stack itself."""
    component: str = ""
    """The name of the topmost component it is in, such as a pool; empty where it is in none."""
    moved_from: str = ""
    """Its URN before the change, where that is another one: renamed or moved, and told to the engine by an alias."""
    properties: tuple[PropertyChange, ...] = ()
    replaced_for: tuple[str, ...] = ()
    """The properties that force the replacement."""
    depends_on: tuple[str, ...] = ()
    """URNs."""
    protected: bool = False
    retained: bool = False
    """Whether the engine forgets it without deleting it in the cloud (retainOnDelete)."""
    may_replace: bool = False
    """Whether it is told as an update, and nobody here knows whether that replaces it."""
    imported: bool = False
    """Whether it is told as created, and exists already: the stack takes it over."""


class Counts(Model):
    """How many resources of each operation; the stack itself, which is no resource of a cloud, is left out."""

    create: int = Field(default=0, ge=0, le=_MOST)
    update: int = Field(default=0, ge=0, le=_MOST)
    replace: int = Field(default=0, ge=0, le=_MOST)
    delete: int = Field(default=0, ge=0, le=_MOST)
    same: int = Field(default=0, ge=0, le=_MOST)
    moved: int = Field(default=0, ge=0, le=_MOST)
    """Those among the others that have a new URN."""
    may_replace: int = 0
    """Those among the updated of which nobody here knows whether they are replaced."""

    @classmethod
    def of(cls, resources: Iterable[Resource]) -> Counts:
        """Those of these resources."""
        listed = list(resources)
        operations = Counter(each.operation.value for each in listed)
        return cls(
            **operations,
            moved=sum(bool(each.moved_from) for each in listed),
            may_replace=sum(each.may_replace for each in listed),
        )


class Place(Model):
    """Where something stands in the head's files; lines count from 1."""

    file: str
    line: int = Field(ge=1, le=_MOST)
    end_line: int = Field(ge=1, le=_MOST)


class Severity(StrEnum):
    """`danger` fails nothing by itself and is never left out of a report."""

    DANGER = "danger"
    WARNING = "warning"
    NOTE = "note"


class Finding(Model):
    """What a reviewer should know: a danger, or a word of the engine, the program or the catalog."""

    rule: str
    """A name of docs/reference/preview-dangers.md, such as `gate-removed`."""
    severity: Severity
    text: str
    hint: str = ""
    urn: str = ""
    component: str = ""
    place: Place | None = None


class Violation(Model):
    """A policy that a resource, or the stack, breaks."""

    policy: str
    pack: str
    level: Literal["mandatory", "advisory"]
    text: str
    urn: str = ""
    place: Place | None = None


class Amount(Model):
    """USD. None where a price is unknown; `at_least` where only a part of the prices is known."""

    at_rest_usd_per_hour: float | None = Field(default=None, ge=0, le=_MOST_USD)
    at_max_usd_per_hour: float | None = Field(default=None, ge=0, le=_MOST_USD)
    worst_month_usd: float | None = Field(default=None, ge=0, le=_MOST_USD)
    at_least: bool = False


class PoolCost(Model):
    """One pool before and after; None where there is none."""

    pool: str
    before: Amount | None
    after: Amount | None


class Cost(Model):
    """What the pools of a stack cost before and after, by the catalog's prices; disks and traffic are not in it."""

    before: Amount | None
    after: Amount | None
    pools: tuple[PoolCost, ...] = ()
    """Those whose cost differs, or that come or go."""


class Status(StrEnum):
    """How it went with a stack."""

    PREVIEWED = "previewed"
    FAILED = "failed"
    """The head cannot be previewed; `error` says why, and the change is not safe to merge."""
    BASE_FAILED = "base-failed"
    """The base itself does not come up, so there is nothing to compare with."""
    NEW = "new"
    """The base has no such stack: everything is created."""
    REMOVED = "removed"
    """The head has no such stack file any more; its resources stay until somebody destroys them."""


class Stack(Model):
    """One stack."""

    stack: str
    file: str
    """Its file, relative to the root of the repository."""
    state: str = ""
    """The name of the file with the exported state that it was compared with; empty for the base, brought up."""
    status: Status
    error: str = ""
    """The engine's own words, without escape codes, shortened."""
    place: Place | None = None
    """Where in its file the error says that something is wrong."""
    counts: Counts = Counts()
    resources: tuple[Resource, ...] = ()
    """All of them, the unchanged too, in the order of their URNs."""
    outputs: tuple[PropertyChange, ...] = ()
    """Outputs of the stack that differ."""
    findings: tuple[Finding, ...] = ()
    violations: tuple[Violation, ...] = ()
    policies: str = ""
    """Which policies were asked, or why none were."""
    cost: Cost | None = None
    """None where no stack file of pools could be read."""
    seconds: float = Field(default=0.0, ge=0, le=_MOST)

    @property
    def changed(self) -> tuple[Resource, ...]:
        """Those that something happens to, moves included."""
        return tuple(each for each in self.resources if each.operation != Operation.SAME or each.moved_from)


class Side(Model):
    """One of the two that are compared."""

    ref: str
    """As it was asked for; for a state, its file."""
    commit: str = ""


class Wall(Model):
    """One thing the head's code was kept from, or was not."""

    name: str
    stands: bool
    text: str


class Report(Model):
    """All stacks."""

    version: Literal[1] = 1
    made_by: str
    """Such as `gpu-ci 0.1.0`."""
    how: Literal["base", "state", "credentials", "drift"]
    """Against a base that was brought up offline, against an exported state, from a preview with credentials, or what
    exists against what the stacks' states say."""
    base: Side
    head: Side
    stacks: tuple[Stack, ...]
    walls: tuple[Wall, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 nothing changes, 1 an error, 2 changes, 3 a replacement or a deletion, 4 a mandatory policy is broken.

        An output that changes is a change; a stack file that goes is a deletion.
        """
        if any(each.status in (Status.FAILED, Status.BASE_FAILED) for each in self.stacks):
            return 1
        if any(violation.level == "mandatory" for each in self.stacks for violation in each.violations):
            return 4
        counts = [each.counts for each in self.stacks]
        if any(each.replace or each.delete for each in counts) or any(s.status == Status.REMOVED for s in self.stacks):
            return 3
        outputs = any(each.outputs for each in self.stacks)
        return 2 if outputs or any(each.create or each.update or each.moved for each in counts) else 0
