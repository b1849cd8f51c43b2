"""Kueue, its queues, the LocalQueues of a namespace, and the pods that wait in them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gpu_ci.kubernetes.gpu_namespace import GpuNamespace
from gpu_ci.kubernetes.kueue import Kueue, KueueArgs

from tests.gpu_ci.harness import deploy
from tests.gpu_ci.kubernetes.clusters import scale_set, values

QUEUE = "kueue.x-k8s.io/queue-name"


def test_every_resource_of_a_runner_has_a_quota_or_is_left_out() -> None:
    """Kueue admits no pod with another resource."""
    template = values(scale_set(queue="vision"))["template"]["spec"]
    requested = {name for each in template["containers"] for name in each["resources"]["requests"]}
    left_out = {"cpu", "memory", "ephemeral-storage"}
    assert requested - left_out == {"nvidia.com/gpu"}
    assert left_out <= requested


@pytest.mark.parametrize(
    ("component", "queues", "namespace"),
    [(GpuNamespace, ["vision"], "it"), (Kueue, {"vision": {"gpus": 4}}, "kueue-system")],
)
def test_the_preview_of_a_new_queue_knows_the_namespace(component: Any, queues: Any, namespace: str) -> None:
    """With an unknown namespace, the preview would replace everything in it."""
    args = {**component.EXAMPLE, "queues": queues}

    def program() -> None:
        component("it", component.ARGS(**args))

    made = deploy(program, preview=True, existing=lambda type_: not type_.endswith("Queue"))
    assert made.outputs[made.one(f":{component.__name__}").urn] == {"namespace": namespace}


@pytest.mark.parametrize(
    ("mode", "runner", "job"),
    [
        ({"kind": "none"}, {QUEUE: "vision"}, None),
        ({"kind": "dind", "nodeGpus": 1}, {QUEUE: "vision"}, None),
        ({"kind": "kubernetes-novolume"}, None, {QUEUE: "vision"}),
        ({"kind": "kubernetes", "storageClass": "gp3", "workGib": 50}, None, {QUEUE: "vision"}),
    ],
    ids=["none", "dind", "novolume", "volume"],
)
def test_the_pod_with_the_gpus_waits_in_the_queue_and_no_other_pod(mode: Any, runner: Any, job: Any) -> None:
    made = scale_set(containerMode=mode, queue="vision")
    found = values(made)
    assert found["template"]["metadata"].get("labels") == runner
    assert QUEUE not in json.dumps(found["listenerTemplate"])
    files = made.one(":ConfigMap").inputs["data"]
    pod = json.loads(files.get("job-pod.json", '{"metadata": {}}'))
    assert pod["metadata"].get("labels") == job


QUEUES = {
    "alone": {"gpus": 3},
    "open": {"gpus": 4, "cohort": "gpu"},
    "limited": {"gpus": 2, "cohort": "gpu", "borrowingLimit": 1},
    "stingy": {"gpus": 5, "cohort": "gpu", "lendingLimit": 2},
    "keeps": {"gpus": 7, "cohort": "gpu", "lendingLimit": 0},
    "other": {"gpus": 9, "cohort": "h100"},
    "eager": {"gpus": 1, "cohort": "h100", "borrowingLimit": 99},
}


@pytest.mark.parametrize(
    ("queue", "most"),
    [("alone", 3), ("open", 8), ("limited", 3), ("stingy", 11), ("keeps", 15), ("other", 10), ("eager", 10)],
)
def test_a_queue_can_use_its_own_gpus_and_those_its_cohort_lends(queue: str, most: int) -> None:
    assert KueueArgs(queues=QUEUES).most_gpus(queue) == most
