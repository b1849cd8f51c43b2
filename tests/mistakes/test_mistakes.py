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

HERE = Path(__file__).parent
SECRET = "hush-hush-hush"


@dataclass(frozen=True)
class Late:
    """A value that is an Output in the program: `!secret` or `!output`."""

    value: Any
    secret: bool


class Loader(yaml.SafeLoader):
    """Loads YAML with `!secret`, `!output` and `!repeat [text, times]`."""


def _late(secret: bool) -> Callable[[Any, Any], Late]:
    return lambda loader, node: Late(loader.construct_scalar(node), secret)


def _repeat(loader: Any, node: Any) -> str:
    text, times = loader.construct_sequence(node)
    return str(text * times)


Loader.add_constructor("!secret", _late(True))
Loader.add_constructor("!output", _late(False))
Loader.add_constructor("!repeat", _repeat)


def patched(value: Any, patch: Any) -> Any:
    """Return a value after a JSON merge patch."""
    if not isinstance(patch, Mapping):
        return patch
    value = value if isinstance(value, Mapping) else {}
    merged = {key: patched(value.get(key), each) for key, each in patch.items() if each is not None}
    return {key: each for key, each in (*value.items(), *merged.items()) if patch.get(key, each) is not None}


@functools.cache
def documents(folder: str) -> dict[str, dict[str, Any]]:
    """Return the files of a folder, by name."""
    return {file.stem: yaml.load(file.read_text(), Loader) for file in sorted((HERE / folder).glob("*.yaml"))}  # noqa: S506


def rows(folder: str) -> list[Any]:
    """Return the mistakes of a folder as parameters of a test."""
    return [
        pytest.param(document, mistake, id=f"{name}-{number}")
        for name, document in documents(folder).items()
        for number, mistake in enumerate(document["mistakes"])
    ]


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


@pytest.mark.parametrize(("document", "mistake"), rows("models"))
def test_a_mistake_in_the_arguments_breaks_its_rules(document: dict[str, Any], mistake: dict[str, Any]) -> None:
    problems = problems_of_arguments(document, mistake["given"])
    assert ruled(problems) == mistake["wrong"]
    assert SECRET not in report("", problems)


@pytest.mark.parametrize(("document", "mistake"), rows("stacks"))
def test_a_mistake_in_a_stack_file_breaks_its_rules(document: dict[str, Any], mistake: dict[str, Any]) -> None:
    problems = problems_of_stack(document, mistake)
    assert ruled(problems) == mistake["wrong"]
    assert [each.path for each in problems if not each.hint] == []
    assert SECRET not in report("", problems)


@pytest.mark.parametrize("name", documents("models"))
def test_the_example_of_the_arguments_has_no_mistake(name: str) -> None:
    assert problems_of_arguments(documents("models")[name], {}) == (() if "wiring" in documents("models")[name] else [])


@pytest.mark.parametrize("name", documents("stacks"))
def test_the_example_of_a_stack_file_has_no_mistake(name: str) -> None:
    assert load(documents("stacks")[name]["config"]).project == "example-ci"


@pytest.mark.parametrize("name", documents("models"))
def test_the_messages_about_arguments(name: str, golden: Callable[[str, str], None]) -> None:
    document = documents("models")[name]
    found = [problems_of_arguments(document, each["given"]) for each in document["mistakes"]]
    golden(f"mistakes/models/{name}.txt", "".join(f"{report(name, each)}\n" for each in found))


@pytest.mark.parametrize("name", documents("stacks"))
def test_the_messages_about_a_stack_file(name: str, golden: Callable[[str, str], None]) -> None:
    document = documents("stacks")[name]
    found = [problems_of_stack(document, each) for each in document["mistakes"]]
    golden(f"mistakes/stacks/{name}.txt", "".join(f"{report(name, each)}\n" for each in found))


def test_every_problem_has_a_rule() -> None:
    files = [file for folder in ("models", "stacks") for file in documents(folder).values()]
    wrong = [each for file in files for mistake in file["mistakes"] for each in mistake["wrong"].values()]
    rules = {rule for each in wrong for rule in ([each] if isinstance(each, str) else each)}
    assert not rules & {"", "invalid-value"}


def test_the_command_reports_the_rules_of_the_program(tmp_path: Path) -> None:
    changes = {"gpu-ci:pools": {"l4": {"max": 0}}, "gpu-ci:sight": {}}
    values = patched(documents("stacks")["gce"]["config"], changes)
    file = tmp_path / "Pulumi.staging.yaml"
    file.write_text(json.dumps({"config": values}))
    answer = CliRunner().invoke(command, [str(file), "--json"])
    assert answer.exit_code == 1
    reported = [(each["path"], each["rule"]) for each in json.loads(answer.output)[0]["problems"]]
    assert reported == [(each.path, each.rule) for each in refused(values).problems]
    assert reported == [("gpu-ci:sight", "unknown-field"), ("gpu-ci:pools.l4.max", "out-of-range")]
