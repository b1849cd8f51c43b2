"""What a person reads when something is wrong: one problem, and the report of all of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import pulumi
from gpu_common.secret_patterns import redact
from gpu_common.suggest import closest
from pydantic import WrapValidator
from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./:@…-]*")
_LAST_NUMBER = re.compile(r"([0-9]+)([^0-9]*)$")


# What the SDK and the engine put before a provider's own words, as often as they hand them on.
_HANDED_ON = re.compile(
    r"^((invoke|invocation) of \S+ (failed|returned an error): |invoking \S+: |\d+ errors? occurred:\s*\* )*"
)


def provider_message(error: Exception) -> str:
    """What a provider said when it refused, on one line and without what was put before it."""
    return _HANDED_ON.sub("", " ".join(str(error).split()))


@dataclass(frozen=True)
class Problem:
    """One mistake: where it is, what is wrong, and what would be right. What looks like a secret is never in it."""

    path: str
    text: str
    got: str = ""
    expected: str = ""
    hint: str = ""

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, redact(getattr(self, field.name)))

    def under(self, prefix: str) -> Problem:
        """The same problem seen from further out, such as `gpu-ci:pools.l4`."""
        joint = "" if not self.path or self.path.startswith("[") else "."
        return Problem(f"{prefix}{joint}{self.path}", self.text, self.got, self.expected, self.hint)

    def render(self, subject: str) -> str:
        """The problem in the house form, under the file or thing it is about."""
        lines = [f"{subject}: {self.path}: {self.text}" if self.path else f"{subject}: {self.text}"]
        details = (("got", self.got), ("expected", self.expected), ("hint", self.hint))
        return "\n".join([*lines, *(f"  {label}: {value}" for label, value in details if value)])

    @property
    def reason(self) -> str:
        """The problem without its path, for a report that names the property itself."""
        details = (("expected", self.expected), ("hint", self.hint))
        return "; ".join([self.text, *(f"{label}: {value}" for label, value in details if value)])


def report(subject: str, problems: Iterable[Problem], line_of: Callable[[str], int | None] = lambda _: None) -> str:
    """Every problem, one after the other, in the order they were found.

    Args:
        line_of: returns the line of the file `subject` that a path stands in, where it is known.
    """
    places = ((problem, line_of(problem.path)) for problem in problems)
    return "\n".join(problem.render(f"{subject}:{line}" if line else subject) for problem, line in places)


class ArgsError(pulumi.InputPropertiesError, pulumi.RunError):
    """Arguments that cannot be used.

    It is both things Pulumi asks for: a program that fails with a RunError shows its text and no traceback, and the
    plugin passes an InputPropertiesError on to the engine property by property.
    """

    def __init__(self, subject: str, problems: Sequence[Problem]) -> None:
        super().__init__(
            report(subject, problems),
            [{"property_path": problem.path, "reason": problem.reason} for problem in problems],
        )
        self.subject = subject
        self.problems = tuple(problems)


def invalid(text: str, *, hint: str = "", expected: str = "", safe_hint: str = "") -> PydanticCustomError:
    """What a validator raises: never with the value in its text, which may be a secret.

    A hint that was made from the value is left out for a secret; one given as `safe_hint` was not, and always stays.
    """
    context = {"text": text, "hint": hint, "expected": expected, "safe_hint": safe_hint}
    return PydanticCustomError("gpu_ci", "{text}", context)


def at_path(problem: PydanticCustomError, value: Any, *at: int | str) -> InitErrorDetails:
    """A problem with a value that stands this many steps below the field being checked."""
    return InitErrorDetails(type=problem, loc=at, input=value)


def raise_problems(problems: Sequence[InitErrorDetails]) -> None:
    """Raise all of these from a validator, so that they join the one report; nothing where there are none."""
    if problems:
        raise ValidationError.from_exception_data("", list(problems))


def whole_value(rule: Callable[[Any], Any]) -> WrapValidator:
    """Hold a list or map to a rule about the whole of it also where some of its entries are wrong, and tell both.

    The rule then sees the entries as they were given, of whatever type.
    """

    return WrapValidator(lambda value, entries: validate_whole_and_entries(value, entries, rule))


def validate_whole_and_entries(value: Any, entries: Callable[[Any], Any], rule: Callable[[Any], Any]) -> Any:
    """The same, for a field whose rule needs the fields before it."""
    try:
        found = entries(value)
    except ValidationError as error:
        problems = _again(error)
        # A list in the place of a map is nothing the rule could look at.
        if not any(line["type"].endswith("_type") and not line["loc"] for line in error.errors()):
            try:
                rule(value)
            except PydanticCustomError as problem:
                problems.append(at_path(problem, value))
            except ValidationError as more:
                problems += _again(more)
        raise ValidationError.from_exception_data("", problems) from None
    return rule(found)


def _again(error: ValidationError) -> list[InitErrorDetails]:
    """The problems of a failed validation, to be raised once more."""
    return [
        InitErrorDetails(
            type=invalid(**line["ctx"]) if line["type"] == "gpu_ci" else line["type"],
            loc=line["loc"],
            input=line["input"],
            ctx=line.get("ctx", {}),
        )
        for line in error.errors(include_url=False)
    ]


def unknown_key(path: str, key: str, known: Sequence[str], decided: Mapping[str, str] | None = None) -> Problem:
    """A key that nobody reads: most often a slip of the hand, or one that is `decided` for good reason.

    Its value is not shown, nobody knows what it holds.
    """
    if decided and key in decided:
        return Problem(path, "is not chosen", repr(key), hint=f"remove it: {decided[key]}")
    hint = did_you_mean(key, known) or "remove it"
    return Problem(path, "unknown key", repr(key), f"one of {', '.join(known)}", hint)


def in_yaml(value: Any) -> str:
    """A value on one line, as a stack file has it."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{in_yaml(key)}: {in_yaml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(in_yaml, value)) + "]"
    return value if isinstance(value, str) and _PLAIN.fullmatch(value) else json.dumps(value)


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """A hint that names the nearest choice, or nothing when none is near."""
    near = nearest(word, choices)
    return f"did you mean {near}" if near else ""


def nearest(word: str, choices: Iterable[str]) -> str:
    """The choice most like a word, or nothing when none is near; of those that differ in size alone the next size."""
    choices = list(choices)
    name, size = _sized(word)
    sizes = [each for each in choices if size is not None and _sized(each)[0] == name]
    if sizes:
        return min(sizes, key=lambda each: abs((_sized(each)[1] or 0) - (size or 0)))
    return closest(word, choices)


def _sized(name: str) -> tuple[str, int | None]:
    """A name without its last number, and that number: of a machine type its vCPUs or its GPUs."""
    found = _LAST_NUMBER.search(name)
    return (f"{name[: found.start()]} {found[2]}", int(found[1])) if found else (name, None)
