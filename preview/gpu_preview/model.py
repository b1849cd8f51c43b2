"""The data model of a report. The Markdown and JSON forms are all made from it.

It contains no secrets: values are strings that are safe to print (values.py). docs/preview-report.schema.json is
generated from these models. `version` changes if a program that reads today's reports has to be changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

# Our own bounds, far above any real stack. They limit the numbers that a forged report can contain.
_MAX_NUMBER = 10**9
_MAX_USD = 1e12


class Model(BaseModel):
    """The base class of all parts of a report: camelCase names in JSON, no unknown fields."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        allow_inf_nan=False,
        # The docstring below a field is its description in the schema.
        use_attribute_docstrings=True,
        # A written report has every field.
        json_schema_serialization_defaults_required=True,
    )


class Operation(StrEnum):
    """The operation that the engine would perform on a resource."""

    CREATE = "create"
    UPDATE = "update"
    REPLACE = "replace"
    DELETE = "delete"
    SAME = "same"


class PropertyChange(Model):
    """One property that differs."""

    path: str
    """The path in the engine's form, such as `versions[0].instanceTemplate`; `#` precedes a path inside a JSON text."""
    kind: Literal["add", "delete", "update"]
    forces_replacement: bool = False
    before: str | None = None
    """The old value as shortened JSON, `[secret]` for a secret, `(unknown)` for a value that only an update can
    compute. None: the property did not exist."""
    after: str | None = None
    """The new value, in the same form."""


class Resource(Model):
    """One resource of the stack with its operation."""

    urn: str
    type: str
    name: str
    operation: Operation
    parent: str = ""
    """The URN of its parent component; empty for a child of the stack itself."""
    component: str = ""
    """The name of its topmost component, such as a pool; empty for a resource outside of components."""
    moved_from: str = ""
    """Its URN before the change if an alias renames or moves it; otherwise empty."""
    properties: tuple[PropertyChange, ...] = ()
    replaced_for: tuple[str, ...] = ()
    """The properties that force the replacement."""
    depends_on: tuple[str, ...] = ()
    """The URNs of the resources it depends on."""
    protected: bool = False
    retained: bool = False
    """True if the engine removes it from the state without deleting it in the cloud (retainOnDelete)."""
    may_replace: bool = False
    """True for an update that may turn out to be a replacement: an offline preview cannot decide it."""
    imported: bool = False
    """True for a resource that is listed as created, but already exists: the stack imports it."""


class Counts(Model):
    """The number of resources for each operation, without the root stack resource."""

    create: int = Field(default=0, ge=0, le=_MAX_NUMBER)
    update: int = Field(default=0, ge=0, le=_MAX_NUMBER)
    replace: int = Field(default=0, ge=0, le=_MAX_NUMBER)
    delete: int = Field(default=0, ge=0, le=_MAX_NUMBER)
    same: int = Field(default=0, ge=0, le=_MAX_NUMBER)
    moved: int = Field(default=0, ge=0, le=_MAX_NUMBER)
    """The resources with a new URN; each is also counted by its operation."""
    may_replace: int = 0
    """The updates that may be replacements; each is also counted in `update`."""

    @classmethod
    def of(cls, resources: Iterable[Resource]) -> Counts:
        """Count the operations of these resources."""
        listed = list(resources)
        operations = Counter(each.operation.value for each in listed)
        return cls(
            **operations,
            moved=sum(bool(each.moved_from) for each in listed),
            may_replace=sum(each.may_replace for each in listed),
        )


class Severity(StrEnum):
    """The severity of a finding. A `danger` does not change the exit code, and no report omits it."""

    DANGER = "danger"
    WARNING = "warning"
    NOTE = "note"


class Finding(Model):
    """A danger, or a message of the engine, the program or the catalog."""

    rule: str
    """The name of the rule in docs/reference/preview-dangers.md, such as `gate-removed`."""
    severity: Severity
    text: str
    hint: str = ""
    urn: str = ""
    component: str = ""


class Violation(Model):
    """A policy that a resource or the stack violates."""

    policy: str
    pack: str
    level: Literal["mandatory", "advisory"]
    text: str
    urn: str = ""


class Amount(Model):
    """Costs in USD. None: the price is unknown. `at_least`: only some of the prices are known."""

    at_rest_usd_per_hour: float | None = Field(default=None, ge=0, le=_MAX_USD)
    """The cost while no job runs."""
    at_max_usd_per_hour: float | None = Field(default=None, ge=0, le=_MAX_USD)
    """The cost while the pool has its maximum number of machines."""
    worst_month_usd: float | None = Field(default=None, ge=0, le=_MAX_USD)
    """The cost of a month with the maximum number of machines all the time."""
    max_machines: int | None = Field(default=None, ge=0)
    """The maximum number of machines of one pool."""
    at_least: bool = False


class PoolCost(Model):
    """The cost of one pool before and after; None where the pool does not exist."""

    pool: str
    before: Amount | None
    after: Amount | None


class Cost(Model):
    """The cost of the pools of a stack, before and after, by the prices of the catalog; without disks and traffic."""

    before: Amount | None
    after: Amount | None
    pools: tuple[PoolCost, ...] = ()
    """The pools that are added, removed or have a different cost."""


class Status(StrEnum):
    """The result of the preview of one stack."""

    PREVIEWED = "previewed"
    FAILED = "failed"
    """The head cannot be previewed. `error` has the reason, and the change is not safe to merge."""
    BASE_FAILED = "base-failed"
    """The base does not deploy, so there is no comparison."""
    NEW = "new"
    """The base has no such stack: everything is created."""
    REMOVED = "removed"
    """The head deletes the stack file; the resources stay until `pulumi destroy` deletes them."""


class Stack(Model):
    """The report on one stack."""

    stack: str
    file: str
    """Its stack file, relative to the root of the repository."""
    status: Status
    error: str = ""
    """The engine's error message, shortened and without escape codes."""
    counts: Counts = Counts()
    resources: tuple[Resource, ...] = ()
    """All resources, also the unchanged, sorted by URN."""
    outputs: tuple[PropertyChange, ...] = ()
    """The stack outputs that differ."""
    findings: tuple[Finding, ...] = ()
    violations: tuple[Violation, ...] = ()
    policies: str = ""
    """A sentence on the policy packs that ran, or why none ran."""
    cost: Cost | None = None
    """None if no stack file with pools could be read."""
    seconds: float = Field(default=0.0, ge=0, le=_MAX_NUMBER)

    @property
    def changed(self) -> tuple[Resource, ...]:
        """The resources that change, including moved ones."""
        return tuple(each for each in self.resources if each.operation != Operation.SAME or each.moved_from)


class Side(Model):
    """One of the two revisions that are compared."""

    ref: str
    """The ref as the caller gave it; for a state, a description of it."""
    commit: str = ""


class Wall(Model):
    """One kind of isolation of the head's code, and if it was active."""

    name: str
    stands: bool
    text: str


class Report(Model):
    """The report on all stacks of a change."""

    version: Literal[1] = 1
    made_by: str
    """The program and its version, such as `gpu-ci 0.1.0`."""
    how: Literal["base", "drift"]
    """The kind of comparison. `base`: with the base, deployed offline. `drift`: what exists in the cloud, with the
    state."""
    base: Side
    head: Side
    stacks: tuple[Stack, ...]
    walls: tuple[Wall, ...] = ()

    @property
    def exit_code(self) -> int:
        """The exit code of the command.

        - 0: nothing changes.
        - 1: an error.
        - 2: a change, including a changed output.
        - 3: a replacement or a deletion, including a removed stack file.
        - 4: a violation of a mandatory policy.
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
