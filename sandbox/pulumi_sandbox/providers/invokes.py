"""Answer lookups: functions such as `get_subnetwork`, which the engine passes to Invoke.

A pure function is computed. Any other result comes from sandbox.yaml of the user, or from a fixture of this package
(fixtures/<package>.yaml).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from gpu_common.suggest import closest

from pulumi_sandbox.providers.resource import PureFunction, Refused
from pulumi_sandbox.providers.sandbox_file import SettingsError, read
from pulumi_sandbox.providers.sdk.shape_check import did_you_mean
from pulumi_sandbox.providers.sdk.shapes import Shapes
from pulumi_sandbox.providers.sdk.types import Shape

REFERENCE = re.compile(r"\$\{([^}]+)\}")
STEP = re.compile(r"\.?([\w-]+)|\[([^\[\]]+)\]")
INDEX = re.compile(r"-?\d+\Z")


class LookupRefusedError(Refused):
    """A function call without an answer. The text names the function and has a hint."""


def fill(template: Any, scope: Mapping[str, Any], subject: str) -> Any:
    """Replace the placeholders of a result.

    Examples: `${args.region}`, `${values.zones[args.region]}`, `${args.name|values.name}`. An index into a string
    selects a part between slashes: `${args.selfLink[-1]}` is the last part.
    """
    if isinstance(template, Mapping):
        return {name: fill(value, scope, subject) for name, value in template.items()}
    if isinstance(template, list):
        return [fill(value, scope, subject) for value in template]
    if not isinstance(template, str):
        return template
    whole = REFERENCE.fullmatch(template)
    if whole:
        return _resolve(whole.group(1), scope, subject)
    return REFERENCE.sub(lambda found: str(_resolve(found.group(1), scope, subject)), template)


def _resolve(expression: str, scope: Mapping[str, Any], subject: str) -> Any:
    for alternative in expression.split("|"):
        value = _follow(alternative.strip(), scope)
        if value is not None:
            return fill(value, scope, subject)
    raise LookupRefusedError(
        f"{subject}: no value for ${{{expression}}}\n"
        f"  hint: pass the value to the function, set it in the provider's configuration, or add it to sandbox.yaml"
    )


def _follow(path: str, scope: Any) -> Any:
    value = scope
    for name, index in STEP.findall(path):
        key: Any = name or (index if INDEX.match(index) else _follow(index, scope))
        if isinstance(value, str | list) and INDEX.match(str(key)):
            parts = value.split("/") if isinstance(value, str) else value
            value = parts[int(key)] if -len(parts) <= int(key) < len(parts) else None
        else:
            try:
                value = value[key]
            except (LookupError, TypeError):
                return None
        if value is None:
            return None
    return value


def merge(under: Any, over: Any) -> Any:
    if isinstance(under, Mapping) and isinstance(over, Mapping):
        return {**under, **{name: merge(under.get(name), value) for name, value in over.items()}}
    return over


# Arguments of a function arrive without their secret mark, so arguments with these names are never printed.
SENSITIVE = re.compile(r"password|secret_?(string|data|value)|token|private_?key|credential", re.IGNORECASE)
SHOWN_KEYS = 12


@dataclass(frozen=True)
class Answer:
    """One entry under a function's token: a result, and the arguments it applies to."""

    result: dict[str, Any]
    match: dict[str, Any] = field(default_factory=dict)
    # The arguments that the answer supports; None: any. Without it, a fixture would ignore a filter of the call.
    only: frozenset[str] | None = None
    secrets: tuple[str, ...] = ()
    source: str = ""

    def fits(self, arguments: Mapping[str, Any], scope: Mapping[str, Any]) -> bool:
        if self.only is not None and not {name for name, value in arguments.items() if value is not None} <= self.only:
            return False
        patterns = fill(self.match, scope, self.source)
        return all(name in arguments and _fits(value, arguments[name]) for name, value in patterns.items())


def _fits(wanted: Any, actual: Any) -> bool:
    """Return True if the value matches: a string as a glob, an object by the listed keys, a list item by item."""
    if isinstance(wanted, str) and isinstance(actual, str):
        return fnmatchcase(actual, wanted)
    if isinstance(wanted, Mapping) and isinstance(actual, Mapping):
        return all(name in actual and _fits(value, actual[name]) for name, value in wanted.items())
    if isinstance(wanted, list) and isinstance(actual, list):
        return len(wanted) == len(actual) and all(_fits(one, other) for one, other in zip(wanted, actual, strict=True))
    return bool(wanted == actual)


class Lookups:
    """The functions that one provider can answer."""

    def __init__(
        self,
        package: str,
        read_shapes: Callable[[], Shapes],
        settings: Path | None = None,
        pure: Mapping[str, PureFunction] | None = None,
        generated: Mapping[str, object] | None = None,
    ) -> None:
        self.package = package
        self._read_shapes = read_shapes
        self.pure = pure or {}
        self.settings = settings
        self._generated = generated or {}

    @cached_property
    def shapes(self) -> Shapes:
        """The types of the package's functions. `values` does not need them, and so not the package."""
        return self._read_shapes()

    @cached_property
    def _sources(self) -> list[tuple[str, dict[str, Any]]]:
        """The user's file, then the packaged one. The first matching answer is used."""
        sources = [(f"fixtures/{self.package}.yaml", _packaged(self.package))]
        try:
            user_file = read(self.settings)
        except SettingsError as error:
            raise LookupRefusedError(str(error)) from None
        if self.settings and user_file:
            values = (user_file.get("values") or {}).get(self.package)
            sources.insert(0, (self.settings.name, {"lookups": user_file.get("lookups"), "values": values}))
        return sources

    @cached_property
    def values(self) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for _, source in reversed(self._sources):
            values = merge(values, source.get("values") or {})
        return values

    @cached_property
    def _answers(self) -> dict[str, list[Answer]]:
        answers: dict[str, list[Answer]] = {}
        for name, source in self._sources:
            for token, entries in (source.get("lookups") or {}).items():
                answers.setdefault(token, []).extend(_answer(name, entry) for entry in entries or ())
        return answers

    def can_answer(self, token: str) -> bool:
        return token in self.pure or token in self._answers

    def config(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return a provider's configuration, with packaged example values for settings that are not set."""
        defaults = self._sources[-1][1].get("config") or {}
        return {**defaults, **{name: value for name, value in given.items() if value is not None}}

    def answer(
        self, token: str, arguments: Mapping[str, Any], config: Mapping[str, Any]
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Return the result and its secret keys."""
        checked = self.shapes.check_arguments(token, arguments)
        if checked.problems:
            problem = checked.problems[0]
            raise LookupRefusedError(f"{token}: {problem.path}: {problem}")
        shape = self.shapes.function(token)
        if token in self.pure:
            return {**_repeated_arguments(checked.inputs, shape), **self.pure[token](checked.inputs)}, ()
        scope = self._scope(token, checked.inputs, config)
        completed = scope["args"]
        for entry in self._answers.get(token, ()):
            if entry.fits(completed, scope):
                result = fill(entry.result, scope, f"{entry.source}: {token}")
                self._refuse_unknown_keys(entry, token, result)
                return {**_repeated_arguments(completed, shape), **result}, entry.secrets
        raise LookupRefusedError(self._how_to_add(token, checked.inputs))

    def answered_by_user(self, token: str, arguments: Mapping[str, Any], config: Mapping[str, Any]) -> bool:
        """Return True if the answer is in the user's own file. The resource that it names therefore exists."""
        scope = self._scope(token, arguments, config)
        user_answers = [
            entry for entry in self._answers.get(token, ()) if self.settings and entry.source == self.settings.name
        ]
        return any(entry.fits(scope["args"], scope) for entry in user_answers)

    def _scope(
        self, token: str, arguments: Mapping[str, Any], config: Mapping[str, Any]
    ) -> dict[str, Mapping[str, Any]]:
        shape, config = self.shapes.function(token), self.config(config)
        # Like the real provider, complete missing arguments by the provider's own region, project and zone.
        completed = {name: config[name] for name in (shape.inputs.properties if shape else ()) if name in config}
        completed |= {name: value for name, value in arguments.items() if value is not None}
        return {"args": completed, "config": config, "values": self.values, "made": self._generated}

    def _refuse_unknown_keys(self, entry: Answer, token: str, result: Mapping[str, Any]) -> None:
        shape = self.shapes.function(token)
        for name in result:
            if shape and shape.outputs and name not in shape.outputs:
                suggestion = did_you_mean(name, shape.outputs)
                hint = f"\n  hint: did you mean '{suggestion}'?" if suggestion else ""
                raise LookupRefusedError(f'{entry.source}: lookups."{token}": result.{name}: no such property{hint}')

    def _how_to_add(self, token: str, arguments: Mapping[str, Any]) -> str:
        file_name = self.settings.name if self.settings else "sandbox.yaml"
        shape = self.shapes.function(token)
        others = [one for one in self._answers if one != token]
        similar = closest(token, others, cutoff=0.9)
        match = {name: value for name, value in arguments.items() if value is not None and not SENSITIVE.search(name)}
        keys = [name for name in shape.outputs if name not in arguments] if shape else []
        lines = ["lookups:", f'  "{token}":', f"    - match: {json.dumps(match)}", "      result:"]
        lines += [f"        {name}: {_example(shape.outputs[name].kind)}" for name in keys[:SHOWN_KEYS] if shape]
        if keys[SHOWN_KEYS:]:
            lines.append(f"        # {len(keys) - SHOWN_KEYS} more properties: add the ones that the program reads")
        if not keys:
            lines[-1] += " {}"
        or_similar = f" (or did you mean {similar}?)" if similar else ""
        problem = "no answer matches these arguments" if token in self._answers else "the sandbox has no answer"
        return (
            f"{token}: {problem}\n"
            f"  expected: an answer in {file_name}\n"
            f"  hint: add the answer of the cloud to {file_name}{or_similar}:\n\n"
            + "\n".join(f"    {line}" for line in lines)
        )


@cache
def _packaged(package: str) -> dict[str, Any]:
    """Return the answers packaged with the sandbox. They are read once, because parsing is slow."""
    text = files("pulumi_sandbox").joinpath("fixtures", f"{package}.yaml").read_text(encoding="utf-8")
    return dict(yaml.safe_load(text))


def _repeated_arguments(arguments: Mapping[str, Any], shape: Shape | None) -> dict[str, Any]:
    """Return the arguments that the result repeats, as in the results of real functions."""
    return {name: value for name, value in arguments.items() if shape and name in shape.outputs}


def _example(kind: str) -> str:
    return {"list": "[]", "map": "{}", "boolean": "false", "integer": "0", "number": "0"}.get(kind, '""')


def _answer(source: str, entry: Mapping[str, Any]) -> Answer:
    only = entry.get("only")
    return Answer(
        result=dict(entry.get("result") or {}),
        match=dict(entry.get("match") or {}),
        only=None if only is None else frozenset(only),
        secrets=tuple(entry.get("secrets") or ()),
        source=source,
    )


# Go's encoding/json always escapes these characters. JSON has them only in strings.
_ESCAPED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def go_json(value: Any, *, indented: bool = False) -> str:
    """Return JSON in the format of Go's json.Marshal, or of json.MarshalIndent with two spaces."""
    separators = (",", ": ") if indented else (",", ":")
    text = json.dumps(value, ensure_ascii=False, indent=2 if indented else None, separators=separators)
    return "".join(_ESCAPED.get(one, one) for one in text)
