"""Every rule about arguments and stack files, with a mistake that breaks it: each reports its rules at its paths.

A file of `models/` has mistakes in the arguments of one component, a file of `stacks/` mistakes in one stack file. Each
is a JSON merge patch (RFC 7396) of a valid example: null removes a field. `wrong` has the rule that is reported at each
path. The messages are golden files, which `make golden` writes.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml
from click.testing import CliRunner
from gpu_ci.args import Args
from gpu_ci.cli.check.command import command
from gpu_ci.errors import ArgsError, Problem, report

from tests.gpu_ci.program.stack import load, refused
from tests.gpu_ci.support import patched

HERE = Path(__file__).parent
SECRET = "hush-hush-hush"


@dataclass(frozen=True)
class Late:
    """A value that is an Output in the program: `!secret` or `!output`."""

    value: Any
    secret: bool


class Loader(yaml.CSafeLoader):
    """Loads YAML with `!secret`, `!output` and `!repeat [text, times]`."""


def _late(secret: bool) -> Callable[[Any, Any], Late]:
    return lambda loader, node: Late(loader.construct_scalar(node), secret)


def _repeat(loader: Any, node: Any) -> str:
    text, times = loader.construct_sequence(node)
    return str(text * times)


Loader.add_constructor("!secret", _late(True))
Loader.add_constructor("!output", _late(False))
Loader.add_constructor("!repeat", _repeat)


FILES = {folder: sorted(file.stem for file in (HERE / folder).glob("*.yaml")) for folder in ("models", "stacks")}


@functools.cache
def document(folder: str, name: str) -> dict[str, Any]:
    """Return a file of mistakes."""
    found: dict[str, Any] = yaml.load((HERE / folder / f"{name}.yaml").read_text(), Loader)  # noqa: S506
    return found


def problems_of_arguments(document: Mapping[str, Any], given: Mapping[str, Any]) -> Sequence[Problem]:
    """Return the problems of the example of a component after a patch, those of late values too."""
    module, _, name = document["model"].partition(":")
    owner = getattr(importlib.import_module(module), name)
    model: type[Args] = getattr(owner, "ARGS", owner)
    example = {**getattr(owner, "EXAMPLE", {}), **document.get("example", {})}

    async def found() -> Sequence[Problem]:
        values = _outputs(patched({**example, **document.get("wiring", {})}, given))
        if "wiring" not in document:
            return model.choice_problems(values)
        try:
            await model(**values).settle()
        except ArgsError as error:
            return error.problems
        return ()

    return asyncio.run(found())


def _outputs(value: Any) -> Any:
    if isinstance(value, Late):
        return pulumi.Output.secret(value.value) if value.secret else pulumi.Output.from_input(value.value)
    if isinstance(value, Mapping):
        return {key: _outputs(each) for key, each in value.items()}
    return [_outputs(each) for each in value] if isinstance(value, list) else value


def problems_of_stack(document: Mapping[str, Any], mistake: Mapping[str, Any]) -> Sequence[Problem]:
    """Return the problems that the program finds in a stack file after a patch."""
    return refused(patched(document["config"], mistake["given"]), secrets=mistake.get("secrets", ())).problems


def ruled(problems: Iterable[Problem]) -> dict[str, Any]:
    """Return the rules of problems by their paths: one rule, or a list of several."""
    found: dict[str, list[str]] = {}
    for each in problems:
        found.setdefault(each.path, []).append(each.rule)
    return {path: rules[0] if len(rules) == 1 else rules for path, rules in found.items()}


def check(
    name: str,
    mistakes: Sequence[Mapping[str, Any]],
    found: Sequence[Sequence[Problem]],
    golden: Callable[[str, str], None],
) -> None:
    """Check the rules that the mistakes of a file break, and the messages."""
    broken = [(each["given"], ruled(problems)) for each, problems in zip(mistakes, found, strict=True)]
    assert broken == [(each["given"], each["wrong"]) for each in mistakes]
    text = "".join(f"{report(name.partition('/')[2], each)}\n" for each in found)
    assert SECRET not in text
    golden(f"mistakes/{name}.txt", text)


@pytest.mark.parametrize("name", FILES["models"])
def test_each_mistake_in_arguments_breaks_its_rules(name: str, golden: Callable[[str, str], None]) -> None:
    file = document("models", name)
    assert list(problems_of_arguments(file, {})) == []
    found = [problems_of_arguments(file, each["given"]) for each in file["mistakes"]]
    check(f"models/{name}", file["mistakes"], found, golden)


@pytest.mark.parametrize("name", FILES["stacks"])
def test_each_mistake_in_a_stack_file_breaks_its_rules(name: str, golden: Callable[[str, str], None]) -> None:
    file = document("stacks", name)
    assert load(file["config"]).project == "example-ci"
    found = [problems_of_stack(file, each) for each in file["mistakes"]]
    assert [each.path for problems in found for each in problems if not each.hint] == []
    check(f"stacks/{name}", file["mistakes"], found, golden)


def test_every_problem_has_a_rule() -> None:
    files = [document(folder, name) for folder, names in FILES.items() for name in names]
    wrong = [each for file in files for mistake in file["mistakes"] for each in mistake["wrong"].values()]
    rules = {rule for each in wrong for rule in ([each] if isinstance(each, str) else each)}
    assert not rules & {"", "invalid-value"}


def test_the_command_reports_the_rules_of_the_program(tmp_path: Path) -> None:
    changes = {"gpu-ci:pools": {"l4": {"max": 0}}, "gpu-ci:sight": {}}
    values = patched(document("stacks", "gce")["config"], changes)
    file = tmp_path / "Pulumi.staging.yaml"
    file.write_text(json.dumps({"config": values}))
    answer = CliRunner().invoke(command, [str(file), "--json"])
    assert answer.exit_code == 1
    reported = [(each["path"], each["rule"]) for each in json.loads(answer.output)[0]["problems"]]
    assert reported == [(each.path, each.rule) for each in refused(values).problems]
    assert reported == [("gpu-ci:sight", "unknown-field"), ("gpu-ci:pools.l4.max", "out-of-range")]
