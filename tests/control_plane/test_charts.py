"""Helm renders ARC's charts with the values of our components: the charts read every value, and the API server takes
every object.

The charts are in the folder that the variable CHARTS names, as `helm pull` writes them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml
from gpu_ci.aws.eks_runner_pool import EksRunnerPool
from gpu_ci.component import Component
from gpu_ci.gcp.gke_runner_pool import GkeRunnerPool
from gpu_ci.kubernetes.arc_controller import ArcController
from pulumi_sandbox.providers.wire import decode

from tests.conftest import ROOT
from tests.control_plane.api import Api
from tests.control_plane.objects import RELEASE, as_sent, declared
from tests.gpu_ci.harness import deploy
from tests.gpu_ci.support import COMPUTED, build

CHARTS = os.environ.get("CHARTS", "")
VOLUME = {"kind": "kubernetes", "storageClass": "gp3", "workGib": 50}
DIND = {"kind": "dind", "nodeGpus": 1}
CACHE = {"kind": "per-runner", "storageClass": "gp3", "sizeGib": 100}
# A digest of all values, also of those that the chart does not read.
DIGEST = "actions.github.com/values-hash"

Path_ = tuple[str | int, ...]

pytestmark = pytest.mark.skipif(not CHARTS, reason="CHARTS names no folder with the charts of ARC")


@dataclass(frozen=True)
class Helm:
    """Helm's packages, as a program that renders many releases."""

    program: Path

    def render(self, releases: list[dict[str, Any]]) -> list[list[dict[str, Any]] | str]:
        """Return the objects of each release, or the message with which its chart refuses the values."""
        asked = "\n".join(
            json.dumps({name: each[name] for name in ("name", "namespace", "values")} | {"chart": str(_chart(each))})
            for each in releases
        )
        ended = subprocess.run([self.program], input=asked, capture_output=True, text=True, check=True)
        answers = [json.loads(line) for line in ended.stdout.splitlines()]
        return [each.get("error") or [yaml.safe_load(one) for one in each["manifests"]] for each in answers]


def _chart(release: dict[str, Any]) -> Path:
    path = Path(CHARTS).absolute() / f"{release['chart'].rpartition('/')[2]}-{release['version']}.tgz"
    assert path.is_file(), (
        f"CHARTS: {path} is missing; run: helm pull {release['chart']} --version {release['version']}"
    )
    return path


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    go = shutil.which("go")
    assert go, "no `go` on PATH"
    program = tmp_path_factory.mktemp("helm") / "helm"
    subprocess.run(["nice", "-n", "19", go, "build", "-C", ROOT / "tools" / "helm", "-o", program, "."], check=True)
    return Helm(program)


def release(component: type[Component], **runner: Any) -> dict[str, Any]:
    """Return the inputs of the only Helm release of a component, from its example with these fields of its runner."""
    changes = {"runner": {**component.EXAMPLE["runner"], **runner}} if runner else {}
    with mock.patch.dict(component.EXAMPLE, changes):
        [row] = deploy(lambda: build(component, "l4"), computed=COMPUTED).of(RELEASE)
    return dict(decode(row.request.object).values)


# A pool of each kind: with the fewest choices, and with choices that change the values.
RELEASES: dict[str, Callable[[], dict[str, Any]]] = {
    "controller": lambda: release(ArcController),
    "eks": lambda: release(EksRunnerPool),
    "eks, kubernetes": lambda: release(EksRunnerPool, containerMode=VOLUME),
    "eks, dind": lambda: release(EksRunnerPool, containerMode=DIND),
    "eks, cache": lambda: release(EksRunnerPool, cache=CACHE, scratch={"sizeGib": 30}),
    "gke": lambda: release(GkeRunnerPool),
    "gke, kubernetes": lambda: release(GkeRunnerPool, containerMode=VOLUME),
    "gke, dind": lambda: release(GkeRunnerPool, containerMode=DIND),
    "gke, cache": lambda: release(GkeRunnerPool, cache=CACHE, scratch={"sizeGib": 30}),
}


@pytest.fixture(params=RELEASES)
def given(request: pytest.FixtureRequest) -> dict[str, Any]:
    return RELEASES[request.param]()


def leaves(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """Yield each text, number and boolean of the values, and each empty list and map, with its path."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not inner or not value:
        yield path, value
    for key, one in inner:
        yield from leaves(one, (*path, key))


def another(value: Any) -> Any:
    """Return a different value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return f"{value}x" if isinstance(value, str) else {"x": "x"} if isinstance(value, dict) else ["x"]


def changed(values: dict[str, Any], path: Path_) -> dict[str, Any]:
    """Return the values with another value at the path."""
    copy: Any = deepcopy(values)
    parent = copy
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = another(parent[path[-1]])
    return dict(copy)


def unread(helm: Helm, given: dict[str, Any]) -> list[Path_]:
    """Return the paths of the values without effect: with another value, Helm renders the same objects."""
    paths = [path for path, _ in leaves(given["values"])]
    releases = [given, *({**given, "values": changed(given["values"], path)} for path in paths)]
    rendered = helm.render(releases)
    assert not isinstance(rendered[0], str), rendered[0]
    for each in rendered:
        for one in each if isinstance(each, list) else ():
            (one["metadata"].get("annotations") or {}).pop(DIGEST, None)
    expected, *others = rendered
    return [path for path, found in zip(paths, others, strict=True) if found == expected]


def test_the_chart_reads_every_value(helm: Helm, given: dict[str, Any]) -> None:
    assert unread(helm, given) == []


def test_a_value_with_a_wrong_name_is_found(helm: Helm) -> None:
    given = release(GkeRunnerPool)
    given["values"]["minRunner"] = given["values"].pop("minRunners")
    given["values"]["listenerTemplate"]["specs"] = {"nodeSelector": {"a": "b"}}
    assert unread(helm, given) == [("minRunner",)]


def test_the_api_server_takes_every_object_that_helm_renders(
    helm: Helm, api: Api, namespace: str, given: dict[str, Any]
) -> None:
    for token, one in declared(lambda: build(ArcController, "arc")):
        if token.endswith("CustomResourceDefinitionPatch"):
            api.apply(as_sent(one))
    api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "arc-systems"}})
    [objects] = helm.render([{**given, "namespace": namespace}])
    assert not isinstance(objects, str), objects
    problems = {f"{one['kind']} {one['metadata']['name']}": api.problems_of(one) for one in objects}
    assert {name: found for name, found in problems.items() if found} == {}
