"""Answer functions (Invoke): compute pure functions, and take other results from fixtures that the user can edit."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from gpu_common.suggest import closest

from pulumi_sandbox.providers.lookup_template import LookupRefusedError, fill, merged
from pulumi_sandbox.providers.resource import PureFunction
from pulumi_sandbox.providers.sandbox_file import SettingsError, read
from pulumi_sandbox.providers.sdk.shape_check import did_you_mean
from pulumi_sandbox.providers.sdk.shapes import Shapes
from pulumi_sandbox.providers.sdk.types import Shape

# Arguments of a function arrive without their secret mark, so arguments with these names are never printed.
SENSITIVE = re.compile(r"password|secret_?(string|data|value)|token|private_?key|credential", re.IGNORECASE)
SHOWN_KEYS = 12


@dataclass(frozen=True)
class Answer:
    """One entry under a function's token: a result, and the arguments it applies to."""

    result: dict[str, Any]
    match: dict[str, Any] = field(default_factory=dict)
    # The arguments that the answer supports; None: any. A packaged answer does not ignore a filter.
    only: frozenset[str] | None = None
    secrets: tuple[str, ...] = ()
    source: str = ""

    def fits(self, arguments: Mapping[str, Any], scope: Mapping[str, Any]) -> bool:
        if self.only is not None and not {name for name, value in arguments.items() if value is not None} <= self.only:
            return False
        wanted = fill(self.match, scope, self.source)
        return all(name in arguments and _fits(value, arguments[name]) for name, value in wanted.items())


def _fits(wanted: Any, given: Any) -> bool:
    """Return True if the value matches: a string as a glob, an object by the listed keys, a list item by item."""
    if isinstance(wanted, str) and isinstance(given, str):
        return fnmatchcase(given, wanted)
    if isinstance(wanted, Mapping) and isinstance(given, Mapping):
        return all(name in given and _fits(value, given[name]) for name, value in wanted.items())
    if isinstance(wanted, list) and isinstance(given, list):
        return len(wanted) == len(given) and all(_fits(one, other) for one, other in zip(wanted, given, strict=True))
    return bool(wanted == given)


class Lookups:
    """The functions that one provider can answer."""

    def __init__(
        self,
        shapes: Shapes,
        settings: Path | None = None,
        pure: Mapping[str, PureFunction] | None = None,
        made: Mapping[str, object] | None = None,
    ) -> None:
        self.shapes = shapes
        self.package = shapes.package
        self.pure = pure or {}
        self.settings = settings
        self._made = made or {}

    @cached_property
    def _sources(self) -> list[tuple[str, dict[str, Any]]]:
        """The user's file, then the packaged one. The first matching answer is used."""
        sources = [(f"fixtures/{self.package}.yaml", _packaged(self.package))]
        try:
            own = read(self.settings)
        except SettingsError as wrong:
            raise LookupRefusedError(str(wrong)) from None
        if self.settings and own:
            values = own.get("values") or {}
            if not isinstance(values, Mapping):
                raise _malformed(self.settings.name, "values", values, "a map of packages")
            mine = {"lookups": own.get("lookups"), "values": values.get(self.package)}
            sources.insert(0, (self.settings.name, mine))
        return sources

    @cached_property
    def values(self) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for _, source in reversed(self._sources):
            values = merged(values, source.get("values") or {})
        return values

    @cached_property
    def _answers(self) -> dict[str, list[Answer]]:
        answers: dict[str, list[Answer]] = {}
        for name, source in self._sources:
            lookups = source.get("lookups") or {}
            if not isinstance(lookups, Mapping):
                raise _malformed(name, "lookups", lookups, "a map of tokens")
            for token, entries in lookups.items():
                if not isinstance(entries, list):
                    raise _malformed(name, f'lookups."{token}"', entries, "a list of {match, result}")
                for at, entry in enumerate(entries):
                    answers.setdefault(token, []).append(_answer(name, f'lookups."{token}"[{at}]', entry))
        return answers

    def known(self, token: str) -> bool:
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
            wrong = checked.problems[0]
            raise LookupRefusedError(f"{token}: {wrong.path}: {wrong}")
        shape = self.shapes.function(token)
        if token in self.pure:
            return {**_echoed(checked.inputs, shape), **self.pure[token](checked.inputs)}, ()
        scope = self._scope(token, checked.inputs, config)
        completed = scope["args"]
        for one in self._answers.get(token, ()):
            if one.fits(completed, scope):
                result = fill(one.result, scope, f"{one.source}: {token}")
                self._refuse_unknown_keys(one, token, result)
                return {**_echoed(completed, shape), **result}, one.secrets
        raise LookupRefusedError(self._how_to_add(token, checked.inputs))

    def answered_by_user(self, token: str, arguments: Mapping[str, Any], config: Mapping[str, Any]) -> bool:
        """Return True if the answer is in the user's own file, so the thing it names exists."""
        scope = self._scope(token, arguments, config)
        own = [one for one in self._answers.get(token, ()) if self.settings and one.source == self.settings.name]
        return any(one.fits(scope["args"], scope) for one in own)

    def _scope(
        self, token: str, arguments: Mapping[str, Any], config: Mapping[str, Any]
    ) -> dict[str, Mapping[str, Any]]:
        shape, config = self.shapes.function(token), self.config(config)
        # Like the real provider, complete missing arguments by the provider's own region, project and zone.
        completed = {name: config[name] for name in (shape.inputs.properties if shape else ()) if name in config}
        completed |= {name: value for name, value in arguments.items() if value is not None}
        return {"args": completed, "config": config, "values": self.values, "made": self._made}

    def _refuse_unknown_keys(self, one: Answer, token: str, result: Mapping[str, Any]) -> None:
        shape = self.shapes.function(token)
        for name in result:
            if shape and shape.outputs and name not in shape.outputs:
                meant = did_you_mean(name, shape.outputs)
                hint = f"\n  hint: did you mean '{meant}'?" if meant else ""
                raise LookupRefusedError(f'{one.source}: lookups."{token}": result.{name}: no such property{hint}')

    def _how_to_add(self, token: str, arguments: Mapping[str, Any]) -> str:
        where = self.settings.name if self.settings else "sandbox.yaml"
        shape = self.shapes.function(token)
        known = [one for one in self._answers if one != token]
        near = closest(token, known, cutoff=0.9)
        match = {name: value for name, value in arguments.items() if value is not None and not SENSITIVE.search(name)}
        keys = [name for name in shape.outputs if name not in arguments] if shape else []
        lines = ["lookups:", f'  "{token}":', f"    - match: {json.dumps(match)}", "      result:"]
        lines += [f"        {name}: {_example(shape.outputs[name].kind)}" for name in keys[:SHOWN_KEYS] if shape]
        if keys[SHOWN_KEYS:]:
            lines.append(f"        # add those of the other {len(keys) - SHOWN_KEYS} properties that the program reads")
        if not keys:
            lines[-1] += " {}"
        meant = f" (or did you mean {near}?)" if near else ""
        problem = "no answer matches these arguments" if token in self._answers else "the sandbox has no answer"
        return (
            f"{token}: {problem}\n"
            f"  expected: an answer in {where}\n"
            f"  hint: add the answer of the cloud to {where}{meant}:\n\n" + "\n".join(f"    {line}" for line in lines)
        )


@cache
def _packaged(package: str) -> dict[str, Any]:
    """Return the answers packaged with the sandbox. They are read once, because parsing is slow."""
    text = files("pulumi_sandbox").joinpath("fixtures", f"{package}.yaml").read_text(encoding="utf-8")
    return dict(yaml.safe_load(text))


def _echoed(arguments: Mapping[str, Any], shape: Shape | None) -> dict[str, Any]:
    """Return the arguments that the result repeats, as in the results of real functions."""
    return {name: value for name, value in arguments.items() if shape and name in shape.outputs}


def _example(kind: str) -> str:
    return {"list": "[]", "map": "{}", "boolean": "false", "integer": "0", "number": "0"}.get(kind, '""')


def _answer(source: str, path: str, entry: Any) -> Answer:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("result"), Mapping):
        raise _malformed(source, path, entry, "an object with `result` and, unless it applies to every call, `match`")
    for name in entry:
        if name not in ("match", "result", "only", "secrets"):
            raise _malformed(source, f"{path}.{name}", entry[name], "one of the keys match, only, result, secrets")
    match = entry.get("match") or {}
    if not isinstance(match, Mapping):
        raise _malformed(source, f"{path}.match", match, "an object of arguments")
    only = entry.get("only")
    return Answer(
        result=dict(entry["result"]),
        match=dict(match),
        only=None if only is None else frozenset(only),
        secrets=tuple(entry.get("secrets") or ()),
        source=source,
    )


def _malformed(source: str, path: str, got: Any, expected: str) -> LookupRefusedError:
    shown = json.dumps(got, default=str)
    return LookupRefusedError(f"{source}: {path}: wrong form\n  got: {shown[:80]}\n  expected: {expected}")
