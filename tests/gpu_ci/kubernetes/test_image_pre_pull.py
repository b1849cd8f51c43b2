"""The DaemonSet that pulls images on the nodes of a pool: where its pods run, what they may do, and its bad inputs."""

from __future__ import annotations

from typing import Any

from gpu_ci.kubernetes import gpu_nodes
from gpu_ci.kubernetes.image_pre_pull import ImagePrePull, ImagePrePullArgs
from gpu_ci.kubernetes.smoke.pod import anti_affinity

from tests.gpu_ci import harness

RUNNER, JOB = (f"ghcr.io/acme/{name}@sha256:{digest * 64}" for name, digest in (("runner", "a"), ("job", "b")))


def daemon_set(**changes: Any) -> dict[str, Any]:
    args = {"namespace": "gpu-ci", "pool": "l4", "images": [RUNNER, JOB], **changes}
    deployment = harness.deploy(lambda: ImagePrePull("l4-pre-pull", ImagePrePullArgs(**args)))
    return deployment.one(":DaemonSet").inputs


def pod(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = daemon_set(**changes)["spec"]["template"]["spec"]
    return found


def test_its_pods_do_not_keep_the_pods_of_a_check_of_several_nodes_away() -> None:
    [term] = anti_affinity("l4")["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    labels = daemon_set()["spec"]["template"]["metadata"]["labels"]
    assert labels == daemon_set()["spec"]["selector"]["matchLabels"]
    assert not term["labelSelector"]["matchLabels"].items() <= labels.items()
    assert gpu_nodes.POOL_LABEL not in labels
