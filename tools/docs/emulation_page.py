"""Writes the page docs/reference/emulation.md: behaviour of real services that the sandbox and the fakes enforce.

The rows of the page are in tools/docs/emulation/, one YAML file for each area.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import pydantic
import yaml

ROWS = Path(__file__).with_name("emulation")

Text = Annotated[str, pydantic.StringConstraints(strip_whitespace=True, min_length=1)]


class Row(pydantic.BaseModel):
    """One behaviour of a real service, with the source that documents it."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    service: Text
    behaviour: Text
    source: Text


class Enforced(Row):
    """A behaviour that the emulation has too. Code that ignores it fails one of the tests."""

    where: Text
    tests: Annotated[list[Text], pydantic.Field(min_length=1)]


class LessStrict(Row):
    """A behaviour that the emulation lacks, so no test fails for code that ignores it."""

    consequence: Text


class Area(pydantic.BaseModel):
    """The content of one file."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    enforced: list[Enforced] = []
    less_strict: list[LessStrict] = []


def areas() -> dict[str, Area]:
    """Return the rows of each file, by its name without suffix. ValidationError if a file has another form."""
    files = sorted(ROWS.glob("*.yaml"))
    return {file.stem: Area.model_validate(yaml.safe_load(file.read_text())) for file in files}


def page() -> Iterator[str]:
    rows = areas().values()
    yield "# What the emulation enforces"
    yield ""
    yield "Generated from [tools/docs/emulation](../../tools/docs/emulation) by `make docs`."
    yield "[The sandbox](../how-it-works/sandbox.md) explains how it works, and what differs from a cloud."
    yield ""
    yield "## Enforced"
    yield ""
    yield "The sandbox or the fakes of the tests behave as the real service does. The named tests fail for code that"
    yield "ignores it."
    yield ""
    yield "| service | behaviour | enforced by | tests | source |"
    yield "|---|---|---|---|---|"
    for row in sorted((row for area in rows for row in area.enforced), key=_order):
        tests = "<br>".join(_test(test) for test in row.tests)
        where = f"[{Path(row.where).name}](../../{row.where})"
        yield f"| {row.service} | {_cell(row.behaviour)} | {where} | {tests} | {_cell(row.source)} |"
    yield ""
    yield "## Less strict than the real service"
    yield ""
    yield "The emulation lacks these behaviours, so no test fails for code that ignores them."
    yield ""
    yield "| service | behaviour | effect | source |"
    yield "|---|---|---|---|"
    for lenient in sorted((row for area in rows for row in area.less_strict), key=_order):
        texts = (lenient.behaviour, lenient.consequence, lenient.source)
        yield f"| {lenient.service} | {' | '.join(_cell(text) for text in texts)} |"
    yield ""


def _order(row: Row) -> str:
    return row.service.casefold()


def _test(test: str) -> str:
    file, _, name = test.partition("::")
    return f"[`{name}`](../../{file})"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
