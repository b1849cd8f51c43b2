"""pinned-images and gpu-request-is-limit."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_ci_policies.properties import UNKNOWN

from .support import JOB, RELEASE, found, pod, scale_set

PINNED = f"ghcr.io/acme/cuda:2.336.0@sha256:{'0' * 64}"


def test_an_image_without_a_digest_is_reported_by_its_container() -> None:
    props = pod({"name": "a", "image": PINNED}, {"name": "b", "image": "python:3.13"})
    props["spec"]["template"]["spec"]["initContainers"] = [{"image": "busybox"}]
    assert found("pinned-images", JOB, props) == [
        "spec.template.spec.initContainers[0].image is busybox, which has no digest",
        "spec.template.spec.containers[b].image is python:3.13, which has no digest",
    ]


@pytest.mark.parametrize(
    ("kind", "props", "violations"),
    [
        (RELEASE, scale_set(image="x:1"), [
            "values.template.spec.containers[runner].image is x:1, which has no digest"
        ]),
        (RELEASE, scale_set(image=PINNED), []),
        (RELEASE, {"chart": "nvidia-device-plugin", "values": {"image": {"tag": "latest"}}}, []),
        (
            "kubernetes:batch/v1:CronJob",
            {"spec": {"jobTemplate": pod({"name": "a", "image": "x:1"})}},
            ["spec.jobTemplate.spec.template.spec.containers[a].image is x:1, which has no digest"],
        ),
        ("kubernetes:apps/v1:Deployment", pod({"name": "a", "image": "x:1"}), []),
        (JOB, pod({"name": "a", "image": UNKNOWN}), []),
        (JOB, pod({"name": "a", "image": "x@sha256:abc"}), [
            "spec.template.spec.containers[a].image is x@sha256:abc, which has no digest"
        ]),
        (JOB, {"spec": UNKNOWN}, []),
    ],
)  # fmt: skip
def test_jobs_and_scale_sets_are_asked_and_services_are_not(
    kind: str, props: dict[str, Any], violations: list[str]
) -> None:
    assert found("pinned-images", kind, props) == violations


def gpus(requests: Any, limits: Any) -> dict[str, Any]:
    return pod({"name": "a", "resources": {"requests": requests, "limits": limits}})


WHERE = "spec.template.spec.containers[a].resources"


@pytest.mark.parametrize(
    ("requests", "limits", "violations"),
    [
        (
            {"nvidia.com/gpu": "1"},
            {"nvidia.com/gpu": 2},
            [f"{WHERE} asks for 1 of nvidia.com/gpu and has a limit of 2"],
        ),
        ({"nvidia.com/gpu": 1}, None, [f"{WHERE}.requests has nvidia.com/gpu and the limits have none"]),
        (
            {"nvidia.com/mig-1g.5gb": 1},
            {"cpu": 1},
            [f"{WHERE}.requests has nvidia.com/mig-1g.5gb and the limits have none"],
        ),
        ({"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": 1}, []),
        (None, {"nvidia.com/gpu": 1}, []),
        ({"cpu": 1, "memory": "1Gi"}, {"memory": "2Gi"}, []),
        ({"nvidia.com/gpu": 1}, {"nvidia.com/gpu": UNKNOWN}, []),
        ({"nvidia.com/gpu": 1}, UNKNOWN, []),
    ],
)
def test_a_request_for_gpus_has_to_be_the_limit(requests: Any, limits: Any, violations: list[str]) -> None:
    assert found("gpu-request-is-limit", JOB, gpus(requests, limits)) == violations
