"""The error messages of this package: a problem, a report of several problems, and hints.

Validators of the models raise `invalid(...)` for one problem, or call `raise_problems(...)` for several problems.
`validation_errors.explain` converts the resulting errors of pydantic into Problems.
"""

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

# YAML reads these words as values that are not text, unless they have quotes.
_PLAIN = re.compile(r"(?!(?i:true|false|null|yes|no|on|off|y|n)$)[A-Za-z][A-Za-z0-9_./:@…-]*")
_LAST_NUMBER = re.compile(r"([0-9]+)([^0-9]*)$")


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

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, redact(getattr(self, field.name)))

    def under(self, prefix: str) -> Problem:
        """Return the problem with a prefix of its path, such as `gpu-ci:pools.l4`."""
        joint = "" if not self.path or self.path.startswith("[") else "."
        return Problem(f"{prefix}{joint}{self.path}", self.text, self.got, self.expected, self.hint)

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
    text: str, *, hint: str = "", expected: str = "", safe_hint: str = "", harmless: bool = False
) -> PydanticCustomError:
    """Return the error that a validator raises. The text must not contain the value, which may be a secret.

    Args:
        text: What is wrong.
        hint: What to do. The text may contain the value, so the hint is not shown if the value may be a secret.
        expected: What a valid value looks like.
        safe_hint: What to do, without the value. This hint is always shown.
        harmless: True if this value is shown although other values of the field may be secrets.
    """
    context = {"text": text, "hint": hint, "expected": expected, "safe_hint": safe_hint, "harmless": harmless}
    return PydanticCustomError("gpu_ci", "{text}", context)


def at_path(problem: PydanticCustomError, value: Any, *at: int | str) -> InitErrorDetails:
    """Return a problem with a value inside the field being checked. `at` is the path from the field to the value."""
    return InitErrorDetails(type=problem, loc=at, input=value)


def raise_problems(problems: Sequence[InitErrorDetails]) -> None:
    """Raise these problems from a validator, so that one report has all of them. Do nothing if the list is empty."""
    if problems:
        raise ValidationError.from_exception_data("", list(problems))


def whole_value(rule: Callable[[Any], Any]) -> WrapValidator:
    """Return a validator that checks the entries of a list or map, and applies a rule to the whole value.

    The rule runs even if an entry is invalid, so that one report has all problems. In this case, the rule gets the
    value as the user wrote it, and the entries may have any type.
    """

    return WrapValidator(lambda value, entries: validate_whole_and_entries(value, entries, rule))


def validate_whole_and_entries(value: Any, entries: Callable[[Any], Any], rule: Callable[[Any], Any]) -> Any:
    """Check a value as `whole_value` does. Field validators whose rule needs earlier fields call this function.

    Args:
        value: The list or map.
        entries: The validator of the entries, which pydantic passes to a validator of mode "wrap".
        rule: The rule for the whole value.
    """
    try:
        validated = entries(value)
    except ValidationError as error:
        problems = _as_details(error)
        # The rule cannot check a value of the wrong type, such as a list instead of a map.
        if not any(line["type"].endswith("_type") and not line["loc"] for line in error.errors()):
            try:
                rule(value)
            except PydanticCustomError as problem:
                problems.append(at_path(problem, value))
            except ValidationError as more:
                problems += _as_details(more)
        raise ValidationError.from_exception_data("", problems) from None
    return rule(validated)


def _as_details(error: ValidationError) -> list[InitErrorDetails]:
    """Return the problems of a failed validation in the form that `raise_problems` needs."""
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
    """Return the problem of an unknown key. The value is not shown, because it may be a secret.

    `decided` has the keys whose values this package sets, each with the reason.
    """
    if decided and key in decided:
        return Problem(path, "cannot be set", repr(key), hint=f"remove it: {decided[key]}")
    hint = did_you_mean(key, known) or _with_same_end(key, known) or "remove it"
    return Problem(path, "unknown key", repr(key), f"one of {', '.join(known)}", hint)


def _with_same_end(key: str, known: Sequence[str]) -> str:
    """Return a hint with the only key that ends as this one does, such as id for appId; empty without such a key."""
    word = key.casefold()
    ends = [each for each in known if word.endswith(each.casefold()) or each.casefold().endswith(word)]
    return f"did you mean {ends[0]}" if len(ends) == 1 else ""


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


def nearest(word: str, choices: Iterable[str]) -> str:
    """Return the choice most similar to a word, or an empty text if none is similar.

    If some choices differ from the word only in the last number, return the choice with the nearest number.
    """
    choices = list(choices)
    if same := next((each for each in choices if each.casefold() == word.casefold()), ""):
        return same
    name, size = _sized(word)
    sizes = [each for each in choices if size is not None and _sized(each)[0] == name]
    if sizes:
        return min(sizes, key=lambda each: abs((_sized(each)[1] or 0) - (size or 0)))
    return closest(word, choices)


def _sized(name: str) -> tuple[str, int | None]:
    """Split off the last number of a name. In a machine type, that is the number of vCPUs or GPUs."""
    found = _LAST_NUMBER.search(name)
    return (f"{name[: found.start()]} {found[2]}", int(found[1])) if found else (name, None)
