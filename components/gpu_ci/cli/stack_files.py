"""Stack files as this command reads them: without the engine, so that a file of any project can be looked at."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from gpu_ci.cli.output import Found, Wrong
from gpu_ci.errors import Problem, report
from gpu_ci.stack import pools, quotas
from gpu_ci.stack.pools import Choice
from gpu_ci.stack.quotas import Quotas


@dataclass(frozen=True)
class StackFile:
    """One stack file; what it says of pools and quotas is checked when it is asked for."""

    path: Path
    config: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.path)

    @property
    def project(self) -> str:
        """The project that pays, where the file names one in plain text."""
        value = self.config.get("gcp:project")
        return value if isinstance(value, str) else ""

    def value(self, key: str) -> Any:
        """A value as the program gets it: what `pulumi config set` wrote as JSON text is decoded."""
        found = self.config.get(key)
        if not isinstance(found, str):
            return found
        try:
            return json.loads(found)
        except json.JSONDecodeError:
            return found

    @cached_property
    def checked(self) -> tuple[list[Choice], list[Problem]]:
        """The pools whose kind is known, and every mistake in pools."""
        for key in (pools.POOLS, quotas.QUOTAS):
            if isinstance(value := self.value(key), dict) and set(value) == {"secure"}:
                hint = f"write it in plain text: pulumi config rm '{key}', then set it without --secret"
                return [], [Problem(key, "is a secret, which this command cannot read", "", "plain text", hint)]
        return pools.check(self.value(pools.POOLS))

    @cached_property
    def pools(self) -> list[tuple[str, Any]]:
        """Name and arguments of each pool that has no mistake."""
        choices, problems = self.checked
        return [(choice.name, choice.alone()) for choice in pools.in_order(choices, problems)]

    @cached_property
    def quotas(self) -> tuple[Quotas, list[Problem]]:
        """The limits against what the pools need of them, and every mistake in them."""
        return quotas.check(self.value(quotas.QUOTAS), quotas.demands(self.pools), self.project)

    def refuse_mistakes(self) -> None:
        """Stop where a pool has a mistake: what is added up over the others would pass for the whole."""
        if problems := self.checked[1]:
            raise Found(f"{told(self, problems)}; see gpu-ci check")


def told(file: StackFile, problems: list[Problem]) -> str:
    """Every problem of a file, and how many there are."""
    count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"
    return f"{report(file.name, problems)}\n{count} in {file.name}"


def chosen(given: tuple[str, ...]) -> list[StackFile]:
    """The files that were named, or every stack file of this folder."""
    paths = [Path(each) for each in given] or sorted(Path().glob("Pulumi.*.yaml"))
    if not paths:
        raise Wrong(
            f"no stack file in {Path.cwd()}",
            expected="Pulumi.<stack>.yaml, or the name of one",
            hint="gpu-ci check path/to/Pulumi.staging.yaml",
        )
    return [read(path) for path in paths]


def read(path: Path) -> StackFile:
    """A stack file. Wrong for what is none; Found for one that is broken, with the line."""
    document = _document(path, _text(path))
    if not isinstance(document, dict) or not isinstance(document.get("config"), dict):
        project = isinstance(document, dict) and "runtime" in document
        raise Wrong(
            f"{path}: is no stack file",
            got="the project's file, Pulumi.yaml" if project else "a file without a map under config",
            expected="a file with config: at its top, such as Pulumi.staging.yaml",
            hint=_neighbours(path),
        )
    return StackFile(path, document["config"])


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise Wrong(f"{path}: no such file", hint=_neighbours(path)) from None
    except UnicodeDecodeError as error:
        raise Wrong(f"{path}: is no text", got=f"the byte {error.start + 1} is not UTF-8") from None
    except OSError as error:
        raise Wrong(f"{path}: cannot be read", got=error.strerror or str(error), hint=_neighbours(path)) from None


def _neighbours(path: Path) -> str:
    """The stack files beside it, which may have been meant."""
    folder = path if path.is_dir() else path.parent
    names = sorted(str(each) for each in folder.glob("Pulumi.*.yaml"))
    return f"there {'is' if len(names) == 1 else 'are'} {', '.join(names)}" if names else ""


class _Strict(yaml.SafeLoader):
    """Without YAML 1.1's surprises: a key that is there twice is a mistake; yes and on are text, and dates too."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: dict[Any, int] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    text = f"the key {key.value} is there twice, first in line {seen[key.value]}"
                    raise yaml.constructor.ConstructorError(None, None, text, key.start_mark)
                seen[key.value] = key.start_mark.line + 1
        # The engine hands a program JSON, whose keys are text.
        return {
            key if isinstance(key, str) else str(key): value
            for key, value in super().construct_mapping(node, deep).items()
        }


_BOOL, _DATE = "tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp"
_Strict.yaml_implicit_resolvers = {
    first: [(tag, form) for tag, form in resolvers if tag not in (_BOOL, _DATE)]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Strict.add_implicit_resolver(_BOOL, re.compile("true|True|TRUE|false|False|FALSE"), list("tTfF"))


def _document(path: Path, text: str) -> Any:
    try:
        return yaml.load(text, _Strict)  # noqa: S506 - it is a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        shown = f"\n  got: {lines[mark.line].strip()}" if mark and mark.line < len(lines := text.splitlines()) else ""
        raise Found(f"{path}{at}: is no YAML: {error.problem or error}{shown}") from None
    except yaml.reader.ReaderError as error:
        raise Found(f"{path}:{text[: error.position].count(chr(10)) + 1}: is no YAML: {error.reason}") from None
    except (ValueError, RecursionError) as error:  # a number too long, or nesting without an end
        raise Found(f"{path}: is no YAML: {error}") from None
