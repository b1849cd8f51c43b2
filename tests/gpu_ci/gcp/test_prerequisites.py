"""docs/start/bootstrap.md has the number of APIs, and the deployer the permissions for what components make."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from gpu_ci.component import Component
from gpu_ci.gcp.container_image_pipeline import ContainerImagePipeline, ContainerImagePipelineArgs
from gpu_ci.gcp.github_identity import GithubIdentity
from gpu_ci.gcp.gke_gpu_node_pool import GkeGpuNodePool
from gpu_ci.gcp.gpu_instance_template import GpuInstanceTemplate
from gpu_ci.gcp.host_image_pipeline import HostImagePipeline
from gpu_ci.gcp.mailbox import Mailbox
from gpu_ci.gcp.runner_manager import RunnerManager
from gpu_ci.gcp.runner_network import RunnerNetwork
from gpu_ci.gcp.vertex_endpoint import VertexEndpoint
from gpu_ci.kinds.cloud_build.args import BuildPoolArgs
from gpu_ci.kinds.cloud_build.component import BuildPool
from gpu_ci.kinds.cloud_build_gpu.component import BuildGpuBridge
from gpu_ci.kinds.gce.args import RunnerPoolArgs
from gpu_ci.kinds.gce.component import RunnerPool
from gpu_ci.kinds.gke.component import GkeRunnerPool
from gpu_common import google_permissions
from pulumi_sandbox.providers.gcp import discovery
from pulumi_sandbox.providers.gcp.types import TARGETS

from bootstrap import google as bootstrap
from tests.gpu_ci.gcp import image_choices
from tests.gpu_ci.gcp.test_manager_metrics import CHANNEL, manager
from tests.gpu_ci.harness import deploy
from tests.gpu_ci.support import COMPONENTS, COMPUTED, WIRING, build

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGE = (DOCS / "start/bootstrap.md").read_text(encoding="utf-8")
GATE = "gpu-ci:gcp:SmokeGate"
COVERED = {RunnerPool, GpuInstanceTemplate, RunnerNetwork, BuildPool, ContainerImagePipeline, RunnerManager}


def whole_pool() -> Component:
    """A runner pool that has everything that is optional."""
    app: dict[str, Any] = {"app_id": "1", "installation_id": 2, "private_key": "projects/example-ci/secrets/key"}
    given: dict[str, Any] = {**RunnerPool.EXAMPLE, **WIRING, "github": {"owner": "acme", "runner_group": "gpu", **app}}
    return RunnerPool("whole", RunnerPoolArgs(**given))


def whole_builds() -> Component:
    """A build pool that builds pull requests too."""
    trigger = BuildPool.EXAMPLE["triggers"]["main"] | {"event": {"kind": "pull-request", "branch": "^main$"}}
    return BuildPool(
        "whole", BuildPoolArgs(**{**BuildPool.EXAMPLE, "project": "example-ci", "triggers": {"a": trigger}})
    )


def whole_manager() -> Component:
    """A manager with alerts."""
    return manager(alerts={"notification_channels": [CHANNEL]})


def whole_images() -> Component:
    """A container image pipeline with signatures and a schedule."""
    choices = {**image_choices.sign(), "schedule": "0 4 * * 1"}
    del choices["kind"]
    return ContainerImagePipeline("whole", ContainerImagePipelineArgs(**choices, project="example-ci"))


def made() -> set[str]:
    """The types of all that the components for Google Cloud make."""
    programs = [whole_pool, whole_builds, whole_manager, whole_images, *(partial(build, each) for each in COVERED)]
    rows = [row.type for program in programs for row in deploy(program, computed=COMPUTED).rows]
    return {each for each in rows if each.startswith("gcp:") or each == GATE}


def test_every_component_for_google_cloud_is_looked_at() -> None:
    found = {each for token, each in COMPONENTS.items() if token.startswith("gpu-ci:gcp:")}
    # An identity belongs to bootstrap/, which enables its APIs and has a page of its own.
    # The guides of host images, of GPU builds, of GKE, of rollouts and of rented hosts name their APIs.
    assert (
        found
        - {
            BuildGpuBridge,
            GithubIdentity,
            GkeGpuNodePool,
            GkeRunnerPool,
            HostImagePipeline,
            Mailbox,
            VertexEndpoint,
        }
        == COVERED
    )


def test_the_page_counts_the_apis_that_bootstrap_enables() -> None:
    assert f"| {len(bootstrap.APIS)} APIs |" in PAGE


def test_the_api_of_each_type_is_that_of_its_discovery_document() -> None:
    for token in made() & TARGETS.keys():
        url = discovery.document(TARGETS[token].document)["rootUrl"]
        assert google_permissions.services([token]) == [url.removeprefix("https://").rstrip("/")]


def test_the_deployer_has_permissions_for_all_that_is_made() -> None:
    assert made() <= google_permissions.RESOURCES.keys() | {GATE}
