"""What the controller's chart is given."""

from __future__ import annotations

from gpu_ci.kubernetes.arc_controller import ArcController, ArcControllerArgs

from tests.gpu_ci.harness import UNKNOWN, deploy
from tests.gpu_ci.kubernetes.clusters import build, values

OFF_GPU_NODES = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "nvidia.com/gpu.present", "operator": "NotIn", "values": ["true"]}]}
            ]
        }
    }
}


def test_the_release_is_the_pinned_chart_in_a_namespace_of_its_own() -> None:
    made = build(ArcController, "arc")
    release = made.one(":Release")
    assert {key: value for key, value in release.inputs.items() if key != "values"} == {
        "name": "arc",
        "namespace": "arc-systems",
        "chart": "oci://ghcr.io/actions/actions-runner-controller-charts/gha-runner-scale-set-controller",
        "version": "0.14.2",
        "compat": "true",
    }
    assert release.request.deleteBeforeReplace is True
    assert made.one(":Namespace").inputs["metadata"]["labels"] == {"pod-security.kubernetes.io/enforce": "restricted"}


def test_its_values_are_these_and_no_others() -> None:
    assert values(build(ArcController, "arc")) == {
        "replicaCount": 1,
        "serviceAccount": {"create": True, "name": "arc"},
        "flags": {"logLevel": "info", "logFormat": "json", "updateStrategy": "eventual"},
        "metrics": {"controllerManagerAddr": ":8080", "listenerAddr": ":8080", "listenerEndpoint": "/metrics"},
        "affinity": OFF_GPU_NODES,
        "podSecurityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "securityContext": {
            "runAsNonRoot": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }


def test_metrics_are_served_on_request_only_and_one_namespace_can_be_all_it_watches() -> None:
    found = values(build(ArcController, "arc", metrics=False, watchSingleNamespace="gpu-ci"))
    assert "metrics" not in found
    assert found["flags"]["watchSingleNamespace"] == "gpu-ci"


def test_its_version_is_known_in_a_preview_and_its_account_only_once_it_runs() -> None:
    def program() -> None:
        ArcController("arc", ArcControllerArgs())

    [preview, done] = [deploy(program, preview=each) for each in (True, False)]
    assert preview.outputs[preview.rows[0].urn] == {
        "namespace": "arc-systems",
        "serviceAccountName": UNKNOWN,
        "version": "0.14.2",
    }
    assert done.outputs[done.rows[0].urn]["serviceAccountName"] == "arc"
