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


def test_a_node_pulls_each_image_by_its_digest_in_the_given_order() -> None:
    assert [(each["image"], each["command"]) for each in pod()["initContainers"]] == [
        (RUNNER, ["true"]),
        (JOB, ["true"]),
    ]
    assert [each["name"] for each in pod()["containers"]] == ["pause"]


def test_only_nodes_of_the_pool_pull() -> None:
    spec = pod()
    assert spec["nodeSelector"] == {"gpu-ci-pool": "l4", "nvidia.com/gpu.present": "true"}
    assert spec["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"}
    ]


def test_no_container_requests_a_gpu_or_sees_one() -> None:
    spec = pod()
    for container in [*spec["initContainers"], *spec["containers"]]:
        assert container["resources"] == {
            "requests": {"cpu": "10m", "memory": "32Mi"},
            "limits": {"memory": "32Mi"},
        }
        assert container["env"] == [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]


def test_the_pod_has_no_privileges_and_no_token() -> None:
    spec = pod()
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"] == {
        "runAsUser": 65534,
        "runAsGroup": 65534,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    for container in [*spec["initContainers"], *spec["containers"]]:
        assert container["securityContext"] == {
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }


def test_private_images_are_pulled_with_the_secrets() -> None:
    assert pod(image_pull_secrets=["ghcr"])["imagePullSecrets"] == [{"name": "ghcr"}]
    assert "imagePullSecrets" not in pod()


def test_pulumi_does_not_wait_for_the_pulls() -> None:
    assert daemon_set()["metadata"]["annotations"] == {"pulumi.com/skipAwait": "true"}


def test_all_nodes_pull_a_changed_image_at_the_same_time() -> None:
    assert daemon_set()["spec"]["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": "100%"}


def test_its_pods_do_not_keep_the_pods_of_a_check_of_several_nodes_away() -> None:
    [term] = anti_affinity("l4")["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    labels = daemon_set()["spec"]["template"]["metadata"]["labels"]
    assert labels == daemon_set()["spec"]["selector"]["matchLabels"]
    assert not term["labelSelector"]["matchLabels"].items() <= labels.items()
    assert gpu_nodes.POOL_LABEL not in labels
