"""A program loads only the packages that it uses. Each question is put to a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("pulumi", "pydantic", "pulumi_aws", "pulumi_gcp", "googleapiclient", "grpc")


def loaded(statement: str, *names: str) -> list[str]:
    """Return those of the modules that are loaded after a statement."""
    code = f"{statement}\nimport sys\nprint(*[name for name in {names!r} if name in sys.modules])"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_naming_the_kinds_loads_nothing_heavy() -> None:
    assert (
        loaded(
            "import gpu_ci\n"
            "kinds = ('cloud-build', 'cloud-build-gpu', 'ec2-runners', 'eks-runners', 'gce-runners', 'gke-runners')\n"
            "assert gpu_ci.kind_names() == (*kinds, 'rented-runners')",
            *HEAVY,
        )
        == []
    )


def test_no_cloud_is_loaded_before_a_component_is_built() -> None:
    """The clouds' packages load their parts when used; this is the part that takes seconds."""
    parts = (
        "pulumi_gcp.compute.region_instance_template",
        "pulumi_gcp.compute.instance",
        "pulumi_gcp.cloudbuild.trigger",
        "pulumi_aws.eks.node_group",
        "pulumi_aws.ec2.launch_template",
        "pulumi_kubernetes.core.v1.Namespace",
        "pulumi_kubernetes.helm.v3.Release",
        "googleapiclient.discovery",
        "botocore",
    )
    statements = (
        "import gpu_ci; gpu_ci.component_for('gce-runners'); gpu_ci.kinds()",
        "import gpu_ci.plugin",
        "import gpu_ci.schema; gpu_ci.schema.schema()",
    )
    assert loaded("\n".join(statements), *parts) == []


def test_a_stack_on_clusters_loads_no_cloud_before_a_cluster_is_described() -> None:
    statement = (
        "import gpu_ci.program.deploy, gpu_ci.program.clusters, gpu_ci.stack.clusters, gpu_ci.kubernetes.cluster"
    )
    assert loaded(statement, "gpu_ci.aws.eks_cluster", "pulumi_aws", "pulumi_gcp", "pulumi_kubernetes") == [
        "pulumi_kubernetes"
    ]
