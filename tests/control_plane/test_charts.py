"""Helm renders ARC's charts with the values of our components, and the API server takes every object.

The charts are in the folder that the variable CHARTS names, as `helm pull` writes them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml
from gpu_ci.component import Component
from gpu_ci.kinds.eks.component import EksRunnerPool
from gpu_ci.kinds.gke.component import GkeRunnerPool
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

pytestmark = pytest.mark.skipif(not CHARTS, reason="CHARTS names no folder with the charts of ARC")


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build Helm's packages, as a program that renders releases."""
    go = shutil.which("go")
    assert go, "no `go` on PATH"
    program = tmp_path_factory.mktemp("helm") / "helm"
    subprocess.run(["nice", "-n", "19", go, "build", "-C", ROOT / "tools" / "helm", "-o", program, "."], check=True)
    return program


def rendered(helm: Path, release: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the objects of a release."""
    address = release["chart"].partition("@")[0]
    chart = Path(CHARTS).absolute() / f"{address.rpartition('/')[2]}-{release['version']}.tgz"
    hint = f"CHARTS: {chart} is missing; run: helm pull {address} --version {release['version']}"
    assert chart.is_file(), hint
    asked = {name: release[name] for name in ("name", "namespace", "values")} | {"chart": str(chart)}
    ended = subprocess.run([helm], input=json.dumps(asked), capture_output=True, text=True, check=True)
    answer = json.loads(ended.stdout)
    assert "error" not in answer, answer
    return [yaml.safe_load(one) for one in answer["manifests"]]


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
    "eks, cache": lambda: release(EksRunnerPool, cache=CACHE, scratch={"sizeGib": 30}),
    "gke": lambda: release(GkeRunnerPool),
    "gke, dind": lambda: release(GkeRunnerPool, containerMode=DIND),
}


@pytest.mark.parametrize("name", RELEASES)
def test_the_api_server_takes_every_object_that_helm_renders(helm: Path, api: Api, namespace: str, name: str) -> None:
    for token, one in declared(lambda: build(ArcController, "arc")):
        if token.endswith("CustomResourceDefinitionPatch"):
            api.apply(as_sent(one))
    api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "arc-systems"}})
    objects = rendered(helm, {**RELEASES[name](), "namespace": namespace})
    problems = {f"{one['kind']} {one['metadata']['name']}": api.refusal(one) for one in objects}
    assert {name: found for name, found in problems.items() if found} == {}
