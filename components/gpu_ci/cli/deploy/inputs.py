"""Reads the counts of requests by minute, and the options with the rules of a verdict."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

import click
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, field_validator

from gpu_ci.cli.mistakes import Mistakes, read_bytes, start_of
from gpu_ci.delivery.judge import Counts, Minute, Rules

_EXPECTED = "the counts of a minute in JSON on each line, or one list of them"
_HINT = (
    'such as {"minute": "2026-11-30T10:05:00Z", "canary": {"requests": 50, "errors": 1}, '
    '"stable": {"requests": 450, "errors": 2}}'
)

# Prometheus's increase() is not a whole number. Counts above the limit are no requests of a minute.
Count = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
# Python has no times after the year 9999 and before the year 1, also not in another time zone.
Time = Annotated[AwareDatetime, Field(ge=datetime(1970, 1, 1, tzinfo=UTC), lt=datetime(9999, 1, 1, tzinfo=UTC))]
Function = TypeVar("Function", bound=Callable[..., Any])


class CountsLine(BaseModel):
    """The requests of one model in one minute."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    requests: Count
    """The number of requests, 0 or more."""
    errors: Count
    """The number of requests that failed, at most all of them."""
    slow: Count | None = None
    """The number of requests slower than a limit, at most all of them; in all minutes or in none."""

    @field_validator("errors", "slow")
    @classmethod
    def _part_of_requests(cls, value: float | None, info: Any) -> float | None:
        if value is not None and value > info.data.get("requests", value):
            from gpu_ci.errors import invalid

            raise invalid("is more than the requests", hint="count both over the same minute and the same labels")
        return value


class MinuteLine(BaseModel):
    """The requests of both models in one minute."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    minute: Time
    """The beginning of the minute: RFC 3339 with a time zone, or seconds since 1970."""
    canary: CountsLine | None = None
    """The counts of the canary; without them, the canary has no data in this minute."""
    stable: CountsLine | None = None
    """The counts of the stable model; without them, the stable model has no data in this minute."""

    @field_validator("minute")
    @classmethod
    def _whole(cls, value: Any) -> Any:
        return whole_minute(value)

    def counted(self) -> Minute:
        canary, stable = (
            Counts(each.requests, each.errors, each.slow) if each else None for each in (self.canary, self.stable)
        )
        return Minute(minute_of(self.minute), canary, stable)


class Options(Rules):
    """The rules, and two times."""

    since: Time | None = None
    """The first minute of this step, as in FILE. By default the first minute with requests of the canary."""
    now: Time | None = None
    """Judge as of this time, not the current one."""

    @field_validator("since")
    @classmethod
    def _whole(cls, value: Any) -> Any:
        return value and whole_minute(value)


def whole_minute(time: Any) -> Any:
    """Return a time if a minute begins then, and raise PydanticCustomError otherwise."""
    if time.timestamp() % 60:
        from gpu_ci.errors import invalid

        raise invalid("is not the beginning of a minute", hint="round it down to a multiple of 60 s")
    return time


def minute_of(time: Any) -> int:
    """Return the minutes from 1970 to a datetime."""
    return int(time.timestamp() // 60)


def rules_options(*names: str) -> Callable[[Function], Function]:
    """Return a decorator that adds an option for each of these fields of Options. Its value stays text."""

    def decorate(function: Function) -> Function:
        for name in reversed(names):
            field = Options.model_fields[name]
            kind: dict[str, Any] = {"is_flag": True} if field.default is False else {"metavar": "VALUE"}
            if field.default:
                kind |= {"default": f"{field.default}", "show_default": True}
            flag = f"--{name.replace('_', '-')}"
            function = click.option(flag, name, help=field.description, **kind)(function)
        return function

    return decorate


def read_options(given: Mapping[str, Any], where: str, mistakes: Mistakes) -> Options:
    """Return the options. After a mistake, the defaults are returned."""
    try:
        return Options.model_validate({name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        from gpu_ci.validation_errors import explain

        for each in explain(error, Options):
            path = f"--{each.path.replace('_', '-')}"
            mistakes.add_problem(where, replace(each, path=path, hint=each.hint or f"{where} --help"))
        return Options()


def read_minutes(name: str, mistakes: Mistakes) -> list[Minute]:
    """Return the minutes of a file of JSON lines, or of one list; `-` is standard input."""
    found: dict[Any, str] = {}
    lines: list[tuple[str, str, MinuteLine]] = []
    for subject, at, value in _values(name, mistakes):
        try:
            line = MinuteLine.model_validate(value)
        except ValidationError as error:
            mistakes.add_invalid(subject, error, MinuteLine, _EXPECTED, _HINT, at)
            continue
        lines.append((subject, at, line))
        if first := found.get(line.minute):
            text = line.minute.isoformat()
            hint = f"{first} has this minute, too; add up the counts"
            mistakes.add(subject, f"{at}.minute".lstrip("."), "is in the file twice", text, "each minute once", hint)
        found[line.minute] = at or subject
    _refuse_mixed_slow(lines, mistakes)
    return [line.counted() for _, _, line in lines]


def _values(name: str, mistakes: Mistakes) -> Iterator[tuple[str, str, Any]]:
    """Yield each value with the file and line, and with the path in the file."""
    content = read_bytes(name, _EXPECTED, _HINT, mistakes)
    if content.lstrip().startswith(b"["):
        try:
            yield from ((name, f"[{at}]", each) for at, each in enumerate(json.loads(content)))
        except (ValueError, RecursionError) as error:
            mistakes.add(
                f"{name}:{getattr(error, 'lineno', 1)}", "", "is not JSON", start_of(content), _EXPECTED, _HINT
            )
        return
    for number, line in enumerate(content.split(b"\n"), 1):
        if line.strip():
            try:
                yield f"{name}:{number}", "", json.loads(line)
            except (ValueError, RecursionError):
                hint = f"{_HINT}; jq -c . makes one line of a document"
                mistakes.add(f"{name}:{number}", "", "is not JSON", start_of(line), _EXPECTED, hint)


def _refuse_mixed_slow(lines: list[tuple[str, str, MinuteLine]], mistakes: Mistakes) -> None:
    """Add a mistake for the first counts without `slow`, if other counts have it."""
    counts = [
        (subject, f"{at}.{model}.slow".lstrip("."), each.slow)
        for subject, at, line in lines
        for model, each in (("canary", line.canary), ("stable", line.stable))
        if each
    ]
    missing = [(subject, path) for subject, path, slow in counts if slow is None]
    if missing and len(missing) < len(counts):
        mistakes.add(*missing[0], "is missing, but other counts have it", "nothing",
                     "a number in all counts, or in none", "0 if no request was slow")  # fmt: skip
