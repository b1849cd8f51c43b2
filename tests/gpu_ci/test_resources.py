"""The resources of every component with all their inputs, and what each choice changes in them.

A file of `resources/` has choices of one component, each as a JSON merge patch (RFC 7396) of its example. The golden
files, which `make golden` writes, have the resources of the example and the lines that each choice adds and removes.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from gpu_ci import versions
from gpu_ci.component import Component
from gpu_common import pulumi_wire

from tests.gpu_ci import harness
from tests.gpu_ci.harness import Deployment, Row
from tests.gpu_ci.support import CALLS, COMPONENTS, COMPUTED, build

HERE = Path(__file__).parent
# A golden file does not change with an update of versions.py or of the prices, or with any line of a program.
VERSIONS = {
    json.dumps(value)[1:-1]: name
    for name, value in vars(versions).items()
    if isinstance(value, str) and name.isupper() and len(value) > 4
}
VERSION = re.compile(rf"(?<![\d.])({'|'.join(map(re.escape, sorted(VERSIONS, key=len, reverse=True)))})(?![\d.]\d)")
LONG = 400
DIGEST = re.compile(r"(?<![0-9a-f])(?=[0-9a-f]*[a-f])(?:[0-9a-f]{12}|[0-9a-f]{16}|[0-9a-f]{32,64})(?![0-9a-f])")
COST = re.compile(r"\bcost\.|usdPerHour")
OPTIONS = ("ignoreChanges", "replaceOnChanges", "retainOnDelete", "protect", "deleteBeforeReplace", "deletedWith")


def name_of(component: type[Component]) -> str:
    """Return the name of the files of a component."""
    twice = [each.__name__ for each in COMPONENTS.values()].count(component.__name__) > 1
    return f"{component.TYPE.split(':')[1]}-{component.__name__}" if twice else component.__name__


def choices(name: str) -> dict[str, Any]:
    """Return the choices of a component by their sentences."""
    file = HERE / "resources" / f"{name}.yaml"
    return yaml.safe_load(file.read_text()) if file.exists() else {}


def shown(value: Any) -> str:
    """Return a value on one line, with names instead of versions and without digests and long texts."""
    text = json.dumps(int(value) if isinstance(value, float) and value.is_integer() else value, ensure_ascii=False)
    text = VERSION.sub(lambda found: f"<{VERSIONS[found[0]]}>", text)
    text = DIGEST.sub("<digest>", text)
    return text if len(text) <= LONG else "<a long text>"


def flat(path: str, value: Any) -> Iterator[str]:
    """Return a line for each value inside of a value, also in a text that is JSON or the YAML of a build."""
    if isinstance(value, str) and (value[:1] in ("{", "[") or value.startswith("steps:")):
        with contextlib.suppress(yaml.YAMLError):
            value = yaml.safe_load(value)
            path += "#"
    if isinstance(value, dict) and pulumi_wire.SIGNATURE in value:
        is_secret = value[pulumi_wire.SIGNATURE] == pulumi_wire.SECRET
        path, value = (f"{path} (secret)", value["value"]) if is_secret else (path, "<files>")
        yield from flat(path, value)
        return
    if isinstance(value, dict) and value:
        for key, each in sorted(value.items()):
            yield from flat(f"{path}.{key}", each)
    elif isinstance(value, list) and value:
        for at, each in enumerate(value):
            yield from flat(f"{path}[{at}]", each)
    else:
        yield f"{path} = {shown(value)}"


def described(row: Row) -> Iterator[str]:
    """Return the lines of one resource: its URN, by which a state file knows it, its inputs and its options."""
    yield row.urn.removeprefix("urn:pulumi:stack::project::")
    for key, value in sorted(row.inputs.items()):
        if ":CustomResourceDefinition" not in row.type or key == "metadata":
            yield from flat(f"{row.name}.{key}", value)
    if row.request.custom:
        needed = sorted({urn.rpartition("::")[2] for urn in row.request.dependencies})
        yield f"{row.name} depends on: {', '.join(needed)}"
    options = [f"{name} {found}" for name in OPTIONS if (found := getattr(row.request, name))]
    options += [f"provider {name}"] if (name := row.request.provider.rpartition("::")[0].rpartition("::")[2]) else []
    timeouts = row.request.customTimeouts
    options += [f"{name} timeout {found}" for name in ("create", "update") if (found := getattr(timeouts, name))]
    yield from (f"{row.name} option: {each}" for each in options)


def lines(deployment: Deployment) -> list[str]:
    """Return the resources, and before them the outputs of the component `pool` or of a stack."""
    pool = [row for row in deployment.rows if row.name == "pool"]
    stack = deployment.outputs.get("urn:pulumi:stack::project::pulumi:pulumi:Stack::project-stack", {})
    outputs = deployment.outputs[pool[0].urn] if pool else stack
    exported = [line for key, value in sorted(outputs.items()) for line in flat(f"-> {key}", value)]
    rest = sorted((row for row in deployment.rows if row not in pool), key=lambda row: row.name)
    found = [*(f"pool: {row.type}" for row in pool), *exported, *(line for row in rest for line in described(row))]
    return [line for line in found if not COST.search(line.partition(" = ")[0])]


def with_choices(deployed: Callable[[dict[str, Any]], list[str]], choices: Mapping[str, dict[str, Any]]) -> str:
    """Return the lines without a choice, and those that each choice removes and adds."""
    plain = deployed({})
    text = [*plain]
    for sentence, changes in choices.items():
        changed = deployed(changes)
        text += ["", f"# {sentence}: {json.dumps(changes)}"]
        text += [f"- {line}" for line in plain if line not in changed]
        text += [f"+ {line}" for line in changed if line not in plain]
    return "".join(f"{line}\n" for line in text)


@pytest.mark.usefixtures("short_definitions")
@pytest.mark.parametrize("component", COMPONENTS.values(), ids=COMPONENTS)
def test_its_resources_have_these_inputs(component: type[Component], golden: Callable[[str, str], None]) -> None:
    def deployed(changes: Mapping[str, Any]) -> list[str]:
        return lines(harness.deploy(lambda: build(component, changes=changes), computed=COMPUTED, calls=CALLS))

    name = name_of(component)
    golden(f"resources/{name}.txt", with_choices(deployed, choices(name)))


def test_each_file_of_choices_is_of_a_component() -> None:
    names = {name_of(component) for component in COMPONENTS.values()}
    assert {file.stem for file in (HERE / "resources").glob("*.yaml")} <= names
