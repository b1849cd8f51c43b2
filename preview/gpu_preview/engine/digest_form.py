"""Models of the fields of the engine's digest that are read, and their problems.

Other fields are kept unchanged. The engine leaves out empty values, or writes null.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

_PROBLEMS = 5
_CHARACTERS = 100
# A problem takes 1 KiB of memory, and a model as much, so entries are counted first. A digest of 100 pools has 741
# steps.
_MAX_ITEMS = {"steps": 20_000, "diagnostics": 20_000}

_LARGEST_COUNT = 10**8


class _Form(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, strict=True)


def _all_diffs(given: dict[str, Any]) -> dict[str, Any]:
    # Paths have no model each: there can be many, and only the first problem is reported.
    for one in given.values():
        if not (
            isinstance(one, dict)
            and isinstance(one.get("kind", ""), str)
            and isinstance(one.get("inputDiff", False), bool)
        ):
            raise ValueError("each path should have an object with `kind` and `inputDiff`")
    return given


def _all_counts(given: dict[str, Any]) -> dict[str, Any]:
    if not all(type(one) is int and 0 <= one <= _LARGEST_COUNT for one in given.values()):
        raise ValueError("each operation should have a valid count")
    return given


def _all_texts(given: list[Any]) -> list[Any]:
    if not all(isinstance(one, str) for one in given):
        raise ValueError("each should be a valid string")
    return given


_Names = Annotated[list[Any], AfterValidator(_all_texts)]


class State(_Form):
    """A resource in one revision."""

    urn: str | None = None
    parent: str | None = None
    inputs: dict[str, Any] | None = None
    outputs: dict[str, Any] | None = None
    dependencies: _Names | None = None
    protect: bool | None = None


class Step(_Form):
    """The step of one resource."""

    op: str
    urn: str
    old_state: State | None = None
    new_state: State | None = None
    detailed_diff: Annotated[dict[str, Any], AfterValidator(_all_diffs)] | None = None
    diff_reasons: _Names | None = None
    replace_reasons: _Names | None = None


class Diagnostic(_Form):
    """A message of the engine or of the program."""

    severity: str = ""
    message: str = ""
    urn: str = ""


class Document(_Form):
    """The whole digest."""

    steps: list[Step] | None = Field(default=None)
    diagnostics: list[Diagnostic] | None = None
    change_summary: Annotated[dict[str, Any], AfterValidator(_all_counts)] | None = None
    duration: int | None = None

    @property
    def is_preview(self) -> bool:
        """True if the engine has written the document. Without this check, any object would be an empty preview.

        The engine writes at least the duration for a stack without resources, and the errors of a failed program.
        """
        failed = any(each.severity == "error" for each in self.diagnostics or ())
        return failed or any(part is not None for part in (self.steps, self.change_summary, self.duration))

    @property
    def lacks_counted_steps(self) -> bool:
        """True if the summary counts changes, and the document has no steps."""
        counts = self.change_summary or {}
        failed = any(each.severity == "error" for each in self.diagnostics or ())
        return not failed and not self.steps and any(count for name, count in counts.items() if name != "same")


def too_many(document: Any) -> str:
    """Return what the digest has too much of, or an empty text."""
    for part, most in _MAX_ITEMS.items():
        if isinstance(document, Mapping) and isinstance(found := document.get(part), list) and len(found) > most:
            return f"{part}: got {len(found):,}\n  expected: {most:,} at most"
    return ""


def problems(error: ValidationError) -> Iterator[str]:
    """Return the first problems, one line each, without values."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    for one in found[:_PROBLEMS]:
        # A key can be any text.
        path = ascii(".".join(map(str, one["loc"])))[1:-1][:_CHARACTERS]
        yield f"  {path or 'the document'}: {one['msg'][:1].lower()}{one['msg'][1:]}"
    if len(found) > _PROBLEMS:
        yield f"  and {len(found) - _PROBLEMS} more"
