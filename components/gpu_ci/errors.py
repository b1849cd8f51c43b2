"""The error messages of this package: a problem, a report of several problems, and hints.

Validators of the models raise `invalid(...)` for one problem, or call `raise_problems(...)` for several problems.
`validation_errors.explain` converts the resulting errors of pydantic into Problems.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import pulumi
from gpu_common.secret_patterns import redact
from gpu_common.suggest import CUTOFF, closest
from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

# YAML reads these words as values that are not text, unless they have quotes.
_PLAIN = re.compile(r"(?!(?i:true|false|null|yes|no|on|off|y|n)$)[A-Za-z][A-Za-z0-9_./:@…-]*")
# The prefixes that the SDK and the engine add when they pass on the message of a provider.
_PREFIXES = re.compile(
    r"^((invoke|invocation) of \S+ (failed|returned an error): |invoking \S+: |\d+ errors? occurred:\s*\* )*"
)


def provider_message(error: Exception) -> str:
    """Return the message of a provider's error on one line, without the prefixes of the SDK and the engine."""
    return _PREFIXES.sub("", " ".join(str(error).split()))


@dataclass(frozen=True)
class Problem:
    """One mistake: its place, what is wrong, and what is expected. Text that looks like a secret is redacted."""

    path: str
    text: str
    got: str = ""
    expected: str = ""
    hint: str = ""
    rule: str = ""
    """The id of the broken rule, such as unknown-field. It stays the same when the text is improved."""

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, redact(getattr(self, field.name)))

    def under(self, prefix: str) -> Problem:
        """Return the problem with a prefix of its path, such as `gpu-ci:pools.l4`."""
        joint = "" if not self.path or self.path.startswith("[") else "."
        return replace(self, path=f"{prefix}{joint}{self.path}")

    def render(self, subject: str) -> str:
        """Return the problem as text that starts with the file or resource."""
        lines = [f"{subject}: {self.path}: {self.text}" if self.path else f"{subject}: {self.text}"]
        details = (("got", self.got), ("expected", self.expected), ("hint", self.hint))
        return "\n".join([*lines, *(f"  {label}: {value}" for label, value in details if value)])

    @property
    def reason(self) -> str:
        """The problem as text without its path, for reports that print the property name."""
        details = (("expected", self.expected), ("hint", self.hint))
        return "; ".join([self.text, *(f"{label}: {value}" for label, value in details if value)])


def report(subject: str, problems: Iterable[Problem], line_of: Callable[[str], int | None] = lambda _: None) -> str:
    """Return all problems as one text, in the order they were found.

    Args:
        subject: The file or resource.
        problems: The problems.
        line_of: A function that returns the line of a path in the file, or None if it is unknown.
    """
    places = ((problem, line_of(problem.path)) for problem in problems)
    return "\n".join(problem.render(f"{subject}:{line}" if line else subject) for problem, line in places)


class ArgsError(pulumi.InputPropertiesError, pulumi.RunError):
    """An error for invalid arguments.

    It derives from two errors of Pulumi. For a RunError, Pulumi shows the text without a traceback. From an
    InputPropertiesError, the plugin reports each property to the engine.
    """

    def __init__(self, subject: str, problems: Sequence[Problem]) -> None:
        super().__init__(
            report(subject, problems),
            [{"property_path": problem.path, "reason": problem.reason} for problem in problems],
        )
        self.subject = subject
        self.problems = tuple(problems)


def invalid(
    text: str,
    rule: str = "invalid-value",
    *,
    hint: str = "",
    expected: str = "",
    safe_hint: str = "",
    harmless: bool = False,
) -> PydanticCustomError:
    """Return the error that a validator raises. The text must not contain the value, which may be a secret.

    Args:
        text: What is wrong.
        rule: The id of the rule, in lower case with dashes.
        hint: What to do. The text may contain the value, so the hint is not shown if the value may be a secret.
        expected: What a valid value looks like.
        safe_hint: What to do, without the value. This hint is always shown.
        harmless: True if this value is shown although other values of the field may be secrets.
    """
    context = {"text": text, "hint": hint, "expected": expected, "safe_hint": safe_hint, "harmless": harmless}
    return PydanticCustomError(rule, "{text}", {**context, "rule": rule})


def at_path(problem: PydanticCustomError, value: Any, *at: int | str) -> InitErrorDetails:
    """Return a problem with a value inside the field being checked. `at` is the path from the field to the value."""
    return InitErrorDetails(type=problem, loc=at, input=value)


def raise_problems(problems: Sequence[InitErrorDetails]) -> None:
    """Raise these problems from a validator, so that one report has all of them. Do nothing if the list is empty."""
    if problems:
        raise ValidationError.from_exception_data("", list(problems))


def unknown_field(path: str, key: str, known: Sequence[str]) -> Problem:
    """Return the problem of an unknown field. The value is not shown, because it may be a secret."""
    start = max((each for each in known if key.startswith(each)), key=len, default="")
    hint = did_you_mean(key, known) or (f"did you mean {start}" if start else "remove it")
    return Problem(path, "unknown key", repr(key), f"one of {', '.join(known)}", hint, "unknown-field")


def shape(value: Any) -> str:
    """Describe a misplaced value. Text is not shown, because it may be a secret."""
    if isinstance(value, Mapping):
        return "a map"
    if isinstance(value, list):
        return "a list"
    return "text" if isinstance(value, str) else "nothing" if value is None else repr(value)


def in_yaml(value: Any) -> str:
    """Return a value as YAML on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{in_yaml(key)}: {in_yaml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(in_yaml, value)) + "]"
    return value if isinstance(value, str) and _PLAIN.fullmatch(value) else json.dumps(value)


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Return a hint with the most similar choice, or an empty text if none is similar."""
    near = nearest(word, choices)
    return f"did you mean {near}" if near else ""


def nearest(word: str, choices: Iterable[str], cutoff: float = CUTOFF) -> str:
    """Return the choice most similar to a word without regard to case, or an empty text if none is similar."""
    by_lower = {each.casefold(): each for each in choices}
    return by_lower.get(closest(word.casefold(), by_lower, cutoff), "")
