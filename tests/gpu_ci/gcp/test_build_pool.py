"""The resources of a Cloud Build pool."""

from __future__ import annotations

from typing import Any

from gpu_ci.kinds.cloud_build.args import BuildPoolArgs
from gpu_ci.kinds.cloud_build.component import BuildPool

from tests.gpu_ci.harness import Deployment, deploy
from tests.gpu_ci.support import COMPUTED

PROJECT = "example-ci"
REGISTRY = "us-central1-docker.pkg.dev/example-ci/build-builds-stack"
ACCOUNT = "gcp:serviceaccount/account:Account"
RECORDED = {**COMPUTED, ACCOUNT: {"email": "one@p.iam.gserviceaccount.com", "name": "projects/p/serviceAccounts/one"}}


def build(**changes: Any) -> Deployment:
    choices = {"region": "us-central1", "project": PROJECT, **changes}
    return deploy(lambda: BuildPool("builds", BuildPoolArgs(**choices)), computed=RECORDED)


def triggered(event: Any, build_: Any, **changes: Any) -> dict[str, Any]:
    """Return the inputs of a trigger."""
    main = {"repository": "acme/kernels", "event": event, "build": build_, **changes}
    return build(triggers={"main": main}).one(":Trigger").inputs


def docker(event: Any, **choices: Any) -> list[dict[str, Any]]:
    step = {"kind": "docker", "image": "kernels", **choices}
    return list(triggered(event, {"kind": "steps", "steps": [step]})["build"]["steps"])


def test_where_its_registry_is_is_known_in_a_preview() -> None:
    args = {"region": "us-central1", "project": PROJECT}
    preview = deploy(lambda: BuildPool("builds", BuildPoolArgs(**args)), computed=RECORDED, preview=True)
    assert preview.outputs[preview.rows[0].urn]["registry"] == REGISTRY
