"""Kueue, its queues, the LocalQueues of a namespace, and the pods that wait in them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gpu_ci.kubernetes.gpu_namespace import GpuNamespace
from gpu_ci.kubernetes.kueue import Kueue, KueueArgs

from tests.gpu_ci.harness import deploy
from tests.gpu_ci.kubernetes.clusters import build, scale_set, values

QUEUE = "kueue.x-k8s.io/queue-name"


def queue_specs(**queues: Any) -> dict[str, Any]:
    """Return the specs of the ClusterQueues, by name."""
    rows = build(Kueue, "kueue", queues=queues).rows
    found = [row.inputs for row in rows if row.type.endswith(":ClusterQueue")]
    return {each["metadata"]["name"]: each["spec"] for each in found}


def test_the_release_is_the_pinned_chart_in_a_namespace_of_its_own() -> None:
    made = build(Kueue, "kueue")
    release = made.one(":Release")
    assert {key: value for key, value in release.inputs.items() if key != "values"} == {
        "name": "kueue",
        "namespace": "kueue-system",
        "chart": "oci://registry.k8s.io/kueue/charts/kueue",
        "version": "0.19.2",
        "compat": "true",
    }
    assert release.request.deleteBeforeReplace is True
    assert made.one(":Namespace").inputs["metadata"] == {
        "name": "kueue-system",
        "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
    }


def test_its_values_are_these_and_no_others() -> None:
    found = values(build(Kueue, "kueue", replicas=2))
    configuration = json.loads(found.pop("managerConfig").pop("controllerManagerConfigYaml"))
    image = {"repository": "registry.k8s.io/kueue/kueue", "tag": "v0.19.2", "pullPolicy": "IfNotPresent"}
    assert found == {"controllerManager": {"replicas": 2, "manager": {"image": image}}}
    assert configuration == {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": ":8081"},
        "metrics": {"bindAddress": ":8443"},
        "webhook": {"port": 9443},
        "leaderElection": {"leaderElect": True, "resourceName": "c1f6bfd2.kueue.x-k8s.io"},
        "manageJobsWithoutQueueName": False,
        "integrations": {"frameworks": ["pod"]},
        "managedJobsNamespaceSelector": {"matchLabels": {"gpu-ci-kueue": "true"}},
        "resources": {"excludeResourcePrefixes": ["cpu", "memory", "ephemeral-storage"]},
        "featureGates": {"DisableWaitForPodsReady": True},
    }


def test_every_resource_of_a_runner_has_a_quota_or_is_left_out() -> None:
    """Kueue admits no pod with another resource."""
    template = values(scale_set(queue="vision"))["template"]["spec"]
    requested = {name for each in template["containers"] for name in each["resources"]["requests"]}
    left_out = {"cpu", "memory", "ephemeral-storage"}
    assert requested - left_out == {"nvidia.com/gpu"}
    assert left_out <= requested


def test_a_queue_has_a_quota_of_gpus_and_never_stops_a_job() -> None:
    assert queue_specs(vision={"gpus": 4}) == {
        "vision": {
            "namespaceSelector": {"matchLabels": {"gpu-ci-kueue": "true"}},
            "resourceGroups": [
                {
                    "coveredResources": ["nvidia.com/gpu"],
                    "flavors": [
                        {"name": "gpu-ci", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "4"}]},
                    ],
                }
            ],
            "preemption": {"reclaimWithinCohort": "Never", "withinClusterQueue": "Never"},
        }
    }


def test_queues_of_a_cohort_share_one_flavor_and_have_their_limits() -> None:
    found = queue_specs(
        vision={"gpus": 4, "cohort": "gpu", "lendingLimit": 1}, speech={"gpus": 0, "cohort": "gpu", "borrowingLimit": 2}
    )
    assert {name: spec["cohortName"] for name, spec in found.items()} == {"vision": "gpu", "speech": "gpu"}
    assert {name: spec["resourceGroups"][0]["flavors"] for name, spec in found.items()} == {
        "vision": [
            {
                "name": "gpu-ci",
                "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "4", "lendingLimit": "1"}],
            }
        ],
        "speech": [
            {
                "name": "gpu-ci",
                "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "0", "borrowingLimit": "2"}],
            }
        ],
    }


def test_the_flavor_is_every_node_with_gpus_and_tolerates_their_taint() -> None:
    flavor = build(Kueue, "kueue").one(":ResourceFlavor")
    assert (flavor.inputs["metadata"], flavor.inputs["spec"]) == (
        {"name": "gpu-ci"},
        {
            "nodeLabels": {"nvidia.com/gpu.present": "true"},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"}],
        },
    )


def test_queues_are_deleted_before_their_flavor_and_the_flavor_before_kueue() -> None:
    made = build(Kueue, "kueue", queues={"vision": {"gpus": 4}})
    release, flavor, queue = (made.one(kind) for kind in (":Release", ":ResourceFlavor", ":ClusterQueue"))
    assert release.urn in flavor.request.dependencies
    assert {release.urn, flavor.urn} <= set(queue.request.dependencies)


def test_a_namespace_with_queues_has_the_label_that_kueue_selects_and_a_local_queue_for_each() -> None:
    made = build(GpuNamespace, "runners", queues=["vision", "speech"])
    assert made.one(":Namespace").inputs["metadata"]["labels"]["gpu-ci-kueue"] == "true"
    found = {row.name: row.inputs for row in made.rows if row.type.endswith(":LocalQueue")}
    assert {name: (each["metadata"], each["spec"]) for name, each in found.items()} == {
        f"runners-queue-{queue}": ({"name": queue, "namespace": "runners"}, {"clusterQueue": queue})
        for queue in ("vision", "speech")
    }


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


def test_a_namespace_without_queues_is_out_of_kueues_sight() -> None:
    made = build(GpuNamespace, "runners")
    assert sorted(made.one(":Namespace").inputs["metadata"]["labels"]) == [
        "pod-security.kubernetes.io/enforce",
        "pod-security.kubernetes.io/warn",
    ]
    assert [row.type for row in made.rows if "kueue" in row.type] == []


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
