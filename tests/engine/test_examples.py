"""The programs of examples/: each makes the same pool in the sandbox, and destroys it.

A program in another language, or with a generated SDK, needs the language hosts of an official CLI (decision 0034).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pulumi_sandbox.engine import locate

from tests.conftest import ROOT, with_fake_torch
from tests.sandbox_runner import SandboxRunner

# npm and pip install for some of them, on a machine that may be busy.
pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(900)]

EXAMPLES = ROOT / "examples"
COMPONENTS = ROOT / "components"
# Node.js of the development environment comes first: @pulumi/pulumi requires a newer one than many machines have.
SCRIPTS = Path(sys.executable).parent
MADE = [
    "gcp:compute/firewall:Firewall ci-deny",
    "gcp:compute/network:Network ci-network",
    "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager l4-group",
    "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate l4-template",
    "gcp:compute/router:Router ci-router",
    "gcp:compute/routerNat:RouterNat ci-nat",
    "gcp:compute/subnetwork:Subnetwork ci-subnetwork",
    "gcp:projects/iAMMember:IAMMember l4-log-writer",
    "gcp:serviceaccount/account:Account l4-account",
    "gpu-ci:gcp:RunnerNetwork ci",
    "gpu-ci:gcp:RunnerPool l4",
    "gpu-ci:gcp:SmokeGate l4-gate",
]
WRITTEN_BY_PACKAGE_ADD = {
    "python-sdk": ["Pulumi.yaml", "requirements.txt"],
    "typescript": ["Pulumi.yaml", "package.json"],
}


def copy_of(name: str, folder: Path) -> SandboxRunner:
    """Copy an example, with the paths of this checkout instead of relative ones."""
    project = folder / name
    ignored = shutil.ignore_patterns("node_modules", "package-lock.json", "sdks", "venv", ".sandbox")
    shutil.copytree(EXAMPLES / name, project, ignore=ignored)
    for file in ("Pulumi.yaml", "sandbox.yaml"):
        text = (project / file).read_text().replace("../../", f"{ROOT}/")
        if name == "python-import":  # its requirements are this checkout, which is installed here
            text = text.replace("virtualenv: venv", f"virtualenv: {ROOT}/.venv")
        (project / file).write_text(with_fake_torch(text) if file == "sandbox.yaml" else text)
    return SandboxRunner(project=project, folder=folder / "sandbox")


def require_official_hosts() -> None:
    if not locate.ensure(print).has_official_host:
        pytest.skip("the Pulumi CLI was built here, without language hosts")


@pytest.fixture(params=["python-import", "python-sdk", "typescript", "yaml"])
def example(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SandboxRunner]:
    if request.param != "python-import":
        require_official_hosts()
    runner = copy_of(request.param, tmp_path)
    yield runner
    runner.close()


def path() -> str:
    return os.pathsep.join([str(SCRIPTS), os.environ["PATH"]])


def test_each_example_makes_the_same_pool_and_destroys_it(example: SandboxRunner) -> None:
    if example.project.name in WRITTEN_BY_PACKAGE_ADD:
        example.run("install", PATH=path())
    example.run("up", "--stack", "dev", "--yes", "--skip-preview", PATH=path())
    settings = Path(example.project.name, "Pulumi.dev.yaml")  # a deployment leaves the checkout clean
    assert (example.project.parent / settings).read_text() == (EXAMPLES / settings).read_text()
    made = [f"{resource['type']} {resource['urn'].rpartition('::')[2]}" for resource in example.state("dev")]
    assert sorted(each for each in made if not each.startswith("pulumi:")) == MADE
    outputs = example.json("stack", "output", "--stack", "dev", "--json")
    assert outputs["verdict"] == "pass"
    assert "/instanceTemplates/l4-template-" in outputs["template"]
    assert "13 unchanged" in example.run("up", "--stack", "dev", "--yes", "--skip-preview", PATH=path()).output
    example.run("destroy", "--stack", "dev", "--yes", "--skip-preview", PATH=path())
    assert example.state("dev") == []
    assert example.world() == []


@pytest.mark.parametrize("name", WRITTEN_BY_PACKAGE_ADD)
def test_package_add_writes_what_the_example_has(name: str, tmp_path: Path) -> None:
    require_official_hosts()
    runner = copy_of(name, tmp_path)
    # What a program looks like before: it names no package and no SDK.
    settings = (runner.project / "Pulumi.yaml").read_text().partition("packages:")[0]
    (runner.project / "Pulumi.yaml").write_text(settings)
    dependencies = runner.project / WRITTEN_BY_PACKAGE_ADD[name][1]
    if dependencies.suffix == ".json":
        content = json.loads(dependencies.read_text())
        del content["dependencies"]["@pulumi/gpu-ci"], content["allowScripts"]
        dependencies.write_text(json.dumps(content, indent=2))
    else:
        dependencies.write_text("pulumi==3.272.0\n")
    added = runner.run("package", "add", str(COMPONENTS), PATH=path())
    runner.close()
    assert added.has(
        'import * as gpuCi from "@pulumi/gpu-ci";' if name == "typescript" else "import pulumi_gpu_ci as gpu_ci"
    )
    for file in WRITTEN_BY_PACKAGE_ADD[name]:
        expected = (EXAMPLES / name / file).read_text().replace("../../", f"{ROOT}/")
        assert (runner.project / file).read_text().rstrip() == expected.rstrip()
