"""A container image pipeline in the sandbox: deployed, built, promoted, rolled back and destroyed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.store import World

from tests.conftest import ROOT, lay_out, with_fake_torch
from tests.engine.compute_pool import GPU_CI, UP, environment
from tests.sandbox_runner import SandboxRunner

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(600)]

PROJECT = "example-ci-staging"
IMAGE = f"us-central1-docker.pkg.dev/{PROJECT}/images-runner-staging/gpu-runner"
PIPELINE = {
    "kind": "container",
    "region": "us-central1",
    "source": {"repository": "acme/images"},
    "build": {"image": "gpu-runner", "dockerfile": "images/runner/Dockerfile"},
    "registry": {"keepMostRecent": 2, "deleteAfterDays": 30},
    "sign": {"kmsKeyVersion": f"projects/{PROJECT}/locations/us-central1/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1"},
    "schedule": "0 4 * * 1",
}
BUILD = """
import json, os, sys, time, urllib.request
from pulumi_sandbox.providers.machines.metadata import operator, token_of
def call(path, body=None):
    request = urllib.request.Request(os.environ["GOOGLE_CLOUD_BUILD_CUSTOM_ENDPOINT"] + path, data=body,
        headers={"Authorization": "Bearer " + token_of(operator(sys.argv[2])), "Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request))
build = call(sys.argv[1] + ":run", json.dumps({"source": {"branchName": "main"}}).encode())["metadata"]["build"]
while build["status"] in ("QUEUED", "WORKING"):
    time.sleep(0.2)
    build = call(build["name"])
print(build["status"])
"""


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxRunner]:
    folder = tmp_path_factory.mktemp("images")
    found = SandboxRunner(project=folder / "project", folder=folder / "sandbox")
    found.project.mkdir()
    lay_out(found.project)
    (found.project / "sandbox.yaml").write_text(with_fake_torch((ROOT / "sandbox.yaml").read_text()))
    builds = {"kind": "cloud-build", "region": "us-central1"}
    write(found, {"gpu-ci:images": {"runner": PIPELINE}, "gpu-ci:pools": {"builds": builds}})
    yield found
    found.close()


def stack_file(runner: SandboxRunner) -> Path:
    return runner.project / "Pulumi.staging.yaml"


def write(runner: SandboxRunner, config: dict[str, Any]) -> None:
    document = {"config": {"gcp:project": PROJECT, "gpu-ci:site": {}, **config}}
    stack_file(runner).write_text(yaml.safe_dump(document, sort_keys=False))


def served(runner: SandboxRunner, *words: str) -> str:
    """Return the output of a command that runs next to `pulumi-sandbox serve`."""
    process = runner.start("serve", "--exec", "--", *words, **environment(runner))
    output, _ = process.communicate(timeout=240)
    assert process.returncode == 0, output
    return output


def build(runner: SandboxRunner, trigger: str) -> str:
    path = f"projects/{PROJECT}/locations/us-central1/triggers/{trigger}"
    python = str(Path(GPU_CI).parent / "python")
    lines = served(runner, python, "-c", BUILD, path, PROJECT).splitlines()
    return next(line for line in lines if line in ("SUCCESS", "FAILURE"))


def candidates(runner: SandboxRunner) -> list[tuple[str, str]]:
    output = served(runner, GPU_CI, "images", "candidates", "--json")
    [document], _ = json.JSONDecoder().raw_decode(output[output.index("[\n") :])
    [pipeline] = document["pipelines"]
    return [(each["name"], each["check"]) for each in pipeline["candidates"]]


def signed(runner: SandboxRunner) -> set[str]:
    """Return the digests that have a signature in the registry."""
    world = World(Workspace(runner.folder).world)
    [repository] = [each for each in world.find(types.REPOSITORY) if "images-runner" in each.id]
    images = json.loads(world.setting(f"dockerImages:{repository.id}:{repository.created}") or "[]")
    world.close()
    found = [re.fullmatch(r"sha256-([0-9a-f]{64})\.sig", tag) for each in images for tag in each["tags"]]
    return {f"sha256:{each[1]}" for each in found if each}


def policies(runner: SandboxRunner) -> dict[str, Any]:
    world = World(Workspace(runner.folder).world)
    [repository] = [each for each in world.find(types.REPOSITORY) if "images-runner" in each.id]
    world.close()
    return {each["id"]: each for each in repository.inputs["cleanupPolicies"]}


def test_a_pipeline_from_the_first_build_to_a_rollback(runner: SandboxRunner) -> None:
    runner.run("stack", "init", "staging")
    preview = runner.run("preview", "--stack", "staging")
    assert "gpu-ci:images.runner.source: acme/images must be connected to Cloud Build" in preview.output
    runner.run(*UP)
    outputs = runner.json("stack", "output", "images", "--json", "--stack", "staging")["runner"]
    assert (outputs["kind"], outputs["image"]) == ("container", IMAGE)
    assert "keep-pinned" not in policies(runner)

    assert build(runner, outputs["triggerId"]) == "SUCCESS"
    [(first, check)] = candidates(runner)
    assert check == "passed"
    assert signed(runner) == {first}

    # A pool pins the first image, so the next update keeps its digest. Only a preview: no VM of the sandbox runs a
    # container.
    pool = {
        "kind": "gce-runners",
        "machineType": "g2-standard-8",
        "zones": ["us-central1-a", "us-central1-b"],
        "market": "spot",
        "max": 1,
        "image": "projects/cos-cloud/global/images/family/cos-stable",
        "driver": {"source": "cos", "checkImage": f"{IMAGE}@{first}"},
    }
    site = {"networks": {"us-central1": {"ipRange": "10.10.0.0/20"}}}
    write(runner, {"gpu-ci:site": site, "gpu-ci:images": {"runner": PIPELINE}, "gpu-ci:pools": {"cos": pool}})
    steps = runner.json("preview", "--stack", "staging", "--json")["steps"]
    [registry] = [each for each in steps if each["urn"].endswith("::runner-registry")]
    kept = {each["id"]: each for each in registry["newState"]["inputs"]["cleanupPolicies"]}["keep-pinned"]
    assert kept["condition"]["versionNamePrefixes"] == [first]

    runner.run("world", "break", "check")
    assert build(runner, outputs["triggerId"]) == "FAILURE"
    assert build(runner, outputs["triggerId"]) == "SUCCESS"
    (newest, passed), (failed, missing), (oldest, _) = candidates(runner)
    assert (passed, missing, oldest) == ("passed", "missing", first)
    assert signed(runner) == {first, newest}
    before = stack_file(runner).read_text()
    served(runner, GPU_CI, "images", "promote", "runner")
    promoted = stack_file(runner).read_text()
    assert promoted == before.replace(first, newest)
    assert failed not in promoted

    # A rollback: the file of before, with the bad candidate under skip.
    rolled_back = before.replace("    registry:", f"      skip: ['{newest}']\n      registry:".removeprefix("  "))
    stack_file(runner).write_text(rolled_back)
    served(runner, GPU_CI, "images", "promote", "runner")
    assert stack_file(runner).read_text() == rolled_back
    assert newest not in yaml.safe_load(rolled_back)["config"]["gpu-ci:pools"]["cos"]["driver"]["checkImage"]
