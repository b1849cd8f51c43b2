"""Reads the files of a report: machine records, the rows of a bill, and the teams of a stack file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gpu_ci.cli.mistakes import Mistakes, read_bytes, start_of
from gpu_ci.cli.output import Failure, note
from gpu_ci.machine_records import MachineRecord

if TYPE_CHECKING:
    from gpu_ci.stack.teams import Team

_RECORDS = (
    "a machine record (docs/machine-record.schema.json) on each line", "gpu-ci manager records > records.jsonl"
)  # fmt: skip
_ROWS_OF_BQ = 100
_ROWS = (
    "a list of rows in JSON, the result of gpu-ci cost query google",
    "bq query --use_legacy_sql=false --format=json --max_rows=10000000 < bill.sql > bill.json",
)
_STACK = "a stack file with gpu-ci:teams"
_NEWER = "use the version of gpu-ci that wrote the record, or a newer one"

Amount = Annotated[float, Field(ge=-1_000_000_000, le=1_000_000_000, allow_inf_nan=False)]
Seconds = Annotated[int, Field(ge=0, lt=2**40)]


class BillRow(BaseModel):
    """The cost of a resource, or of a service, on a day. bq writes each number as text."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    day: date
    """The day of the usage in UTC."""
    service: str
    """The service, such as Compute Engine."""
    instance_id: str | None
    """The id of the machine; null for all other resources."""
    disk_id: str | None
    """The id of the disk; null for all other resources."""
    disk_name: str | None
    """The name of the disk, which a boot disk has from its machine."""
    begin_sec: Seconds
    """The beginning of the first usage, in seconds since 1970."""
    end_sec: Seconds
    """The end of the last usage, in seconds since 1970."""
    cost: Amount
    """The cost before credits, in USD."""
    discounts: Amount
    """The sum of all credits but promotions, in USD: 0 or less."""
    promotions: Amount
    """The sum of promotions, in USD: 0 or less."""

    @property
    def usd(self) -> float:
        """The cost after discounts. Promotions are apart."""
        return self.cost + self.discounts


def read_records(names: Sequence[str], mistakes: Mistakes) -> list[MachineRecord]:
    """Return the records of files of JSON lines.

    Of several records with one key, that with the fewest missing things is returned, and of equal ones the last.
    """
    found: dict[str, MachineRecord] = {}
    for name in names:
        for number, line in enumerate(read_bytes(name, *_RECORDS, mistakes).split(b"\n"), 1):
            if not line.strip():
                continue
            try:
                record = MachineRecord.model_validate_json(line)
                known = found.get(record.key)
                if known is None or len(record.incomplete) <= len(known.incomplete):
                    found[record.key] = record
            except ValidationError as error:
                _add_record(f"{name}:{number}", line, error, mistakes)
    return list(found.values())


def _add_record(subject: str, line: bytes, error: ValidationError, mistakes: Mistakes) -> None:
    first, (expected, hint) = error.errors(include_url=False)[0], _RECORDS
    if first["type"] == "json_invalid":
        mistakes.add(
            subject, "", "is not JSON", start_of(line), expected, f"{hint}; jq -c . makes one line of a document"
        )
    else:
        hint = _NEWER if first["loc"] == ("schema",) else hint
        mistakes.add_invalid(subject, error, MachineRecord, expected, hint)


def read_bill(name: str, mistakes: Mistakes) -> list[BillRow]:
    """Return the rows of a bill."""
    before = mistakes.count
    text = read_bytes(name, *_ROWS, mistakes)
    if mistakes.count > before:
        return []
    try:
        rows: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        mistakes.add(f"{name}:{getattr(error, 'lineno', 1)}", "", "is not JSON", start_of(text), *_ROWS)
        return []
    if not isinstance(rows, list):
        mistakes.add(f"{name}:1", "", "is not a list of rows", type(rows).__name__, *_ROWS)
        return []
    if len(rows) == _ROWS_OF_BQ:
        note(f"{name}: has {_ROWS_OF_BQ} rows, which is what bq prints without --max_rows; machines may be missing")
    found = []
    for at, row in enumerate(rows):
        try:
            found.append(BillRow.model_validate(row))
        except ValidationError as error:
            mistakes.add_invalid(name, error, BillRow, *_ROWS, f"[{at}]")
    return found


def read_teams(name: str, mistakes: Mistakes) -> Mapping[str, Team]:
    """Return the teams of a stack file by name."""
    from gpu_ci.cli import stack_files  # loads Pulumi, which a report without teams does not need

    try:
        file = stack_files.read(Path(name))
    except Failure as failure:
        for each in failure.problems:
            subject, _, text = each["text"].partition(": ")
            got = each.get("got", "a file that cannot be used")
            mistakes.add(subject, "", text, got, each.get("expected", _STACK), each.get("hint", f"gpu-ci check {name}"))
        return {}
    for problem in file.problems_of_teams:
        line = file.line_of(problem.path)
        mistakes.add_problem(f"{name}:{line}" if line else name, problem)
    if not file.teams and not file.problems_of_teams:
        expected, hint = "gpu-ci:teams below config", "such as gpu-ci:teams: {vision: {repositories: [kernels]}}"
        mistakes.add(name, "gpu-ci:teams", "is missing", "nothing", expected, hint)
    return file.teams
