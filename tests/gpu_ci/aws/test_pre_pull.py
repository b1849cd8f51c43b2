"""The images that the nodes of a runner pool pull before a job needs them, and the room for that pod on a node."""

from __future__ import annotations

from typing import Any

import gpu_catalog as catalog
import pytest
from gpu_ci.kinds.eks import capacity
from gpu_ci.kinds.eks.args import EksRunnerPoolArgs
from gpu_ci.kinds.eks.component import EksRunnerPool
from gpu_ci.kubernetes import image_pre_pull

from tests.gpu_ci.harness import deploy
from tests.gpu_ci.support import AWS_WIRING, COMPUTED, scale_set_wiring

RUNNER = EksRunnerPool.EXAMPLE["runner"]["image"]
JOB, OTHER = (f"ghcr.io/acme/job@sha256:{digest * 64}" for digest in "bc")


def resources(**choices: Any) -> dict[str, dict[str, Any]]:
    """Return the inputs of each Kubernetes resource of a pool l4 with these choices, by name."""

    def program() -> None:
        wiring = {key: value for key, value in AWS_WIRING.items() if key != "cluster_name"}
        wiring |= scale_set_wiring() | {"github_config_url": "https://github.com/acme", "runner_group": "gpu"}
        EksRunnerPool("l4", EksRunnerPoolArgs(**{**EksRunnerPool.EXAMPLE, **choices, **wiring}))

    rows = deploy(program, computed=COMPUTED).rows
    return {row.name: row.inputs for row in rows if row.type.startswith("kubernetes:")}


def test_the_pod_is_on_the_nodes_of_the_check_and_uses_the_secrets_of_the_runner() -> None:
    found = resources(runner={"image": RUNNER, "imagePullSecrets": ["ghcr"]}, prePull={"pauseImage": JOB})
    spec = found["l4-pre-pull-daemonset"]["spec"]["template"]["spec"]
    check = found["l4-smoke-job"]["spec"]["template"]["spec"]
    for key in ("tolerations", "imagePullSecrets"):
        assert spec[key] == check[key]
    # While a node group is replaced, only the check is limited to the new one.
    assert check["nodeSelector"] == {**spec["nodeSelector"], "eks.amazonaws.com/nodegroup": "pool-nodes-1"}
    assert [each["image"] for each in spec["containers"]] == [JOB]


# The instance types with the least memory in addition to what runners may request, and the largest number of their pods
# (awslabs/amazon-eks-ami@81fec2e:nodeadm/internal/kubelet/instance-info.jsonl and eni_max_pods.go).
MAX_PODS = {"g5g.xlarge": 58, "g6f.large": 20, "g7.2xlarge": 254, "g5.xlarge": 58, "g4dn.xlarge": 29}
# The device plugin of a DevicePlugin, and the pod that pulls images.
PLUGIN_CPU_MILLI, PLUGIN_MEMORY_MIB = 50, 128
# The rest is for the pods of AWS's add-ons.
ADD_ONS_CPU_MILLI, ADD_ONS_MEMORY_MIB = 350, 512


def test_runners_that_use_all_cpus_leave_room_for_the_pod() -> None:
    """The kubelet's share is from awslabs/amazon-eks-ami@81fec2e:nodeadm/internal/kubelet/config.go."""
    left = {}
    for machine in catalog.machines(cloud="aws"):
        total = int(machine.vcpus * 1000)
        ranges = ((0, 1000, 600), (1000, 2000, 100), (2000, 4000, 50), (4000, total, 25))
        kubelet = sum((min(total, end) - start) * share // 10_000 for start, end, share in ranges if total > start)
        cpus, _ = capacity.free_for_pods(machine)
        left[machine.machine_type] = total - kubelet - cpus * 1000 - PLUGIN_CPU_MILLI - image_pre_pull.CPU_MILLI
    assert {name: milli for name, milli in left.items() if milli < ADD_ONS_CPU_MILLI} == {}


@pytest.mark.parametrize(("name", "pods"), MAX_PODS.items())
def test_runners_that_use_all_memory_leave_room_for_the_pod(name: str, pods: int) -> None:
    """255 MiB and 11 MiB for each pod are the kubelet's, and 100 MiB must be free (the same file)."""
    machine = catalog.machine(name, "aws")
    _, gib = capacity.free_for_pods(machine)
    kubelet = 255 + 11 * pods + 100
    left = machine.memory_gib * 1024 - kubelet - gib * 1024 - PLUGIN_MEMORY_MIB - image_pre_pull.MEMORY_MIB
    assert left >= ADD_ONS_MEMORY_MIB
