"""The parts of the engine's digest that are read, and what is wrong with those of another form.

What is not named here is kept as it is. The engine leaves out what is empty, or writes null for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

_PROBLEMS = 5
_CHARACTERS = 100


class _Form(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, strict=True)


class State(_Form):
    """A resource at one side."""

    urn: str | None = None
    parent: str | None = None
    inputs: dict[str, Any] | None = None
    outputs: dict[str, Any] | None = None
    dependencies: list[str] | None = None
    protect: bool | None = None


class PropertyDiff(_Form):
    """What the engine says of one path."""

    kind: str = "update"
    input_diff: bool = False


class Step(_Form):
    """What happens to one resource."""

    op: str
    urn: str
    old_state: State | None = None
    new_state: State | None = None
    detailed_diff: dict[str, PropertyDiff] | None = None
    diff_reasons: list[str] | None = None
    replace_reasons: list[str] | None = None


class Diagnostic(_Form):
    """A word of the engine or of the program."""

    severity: str = ""
    message: str = ""
    urn: str = ""


class Document(_Form):
    """The whole."""

    steps: list[Step] | None = Field(default=None)
    diagnostics: list[Diagnostic] | None = None
    change_summary: dict[str, int] | None = None
    duration: int | None = None

    @property
    def says_something(self) -> bool:
        """Whether it is a preview's: any other object would be one in which nothing changes.

        Of a stack without resources the engine writes how long it took, and of a program that failed its errors.
        """
        failed = any(each.severity == "error" for each in self.diagnostics or ())
        return failed or any(part is not None for part in (self.steps, self.change_summary, self.duration))

    @property
    def counts_what_it_lacks(self) -> bool:
        """Whether it tells of changes in its summary alone."""
        counts = self.change_summary or {}
        failed = any(each.severity == "error" for each in self.diagnostics or ())
        return not failed and not self.steps and any(count for name, count in counts.items() if name != "same")


def problems(error: ValidationError) -> Iterator[str]:
    """The first few, a line each, without any value."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    for one in found[:_PROBLEMS]:
        # A key may be anybody's text.
        path = ascii(".".join(map(str, one["loc"])))[1:-1][:_CHARACTERS]
        yield f"  {path or 'the document'}: {one['msg'][:1].lower()}{one['msg'][1:]}"
    if len(found) > _PROBLEMS:
        yield f"  and {len(found) - _PROBLEMS} more"
