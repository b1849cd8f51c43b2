"""A GPU node pool on a GKE cluster that exists already, and a Job on one of its nodes."""

from __future__ import annotations

import base64
import io
import json
import zipfile

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as kubernetes

GPU = "nvidia.com/gpu"
LIBRARIES = "/usr/local/nvidia/lib64"
PROGRAM = """
import ctypes, os, sys
ctypes.CDLL("libcuda.so.1")
print("the check ran on", os.environ["NODE"], flush=True)
"""


def archive() -> str:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as zipped:
        zipped.writestr(zipfile.ZipInfo("__main__.py"), PROGRAM)
    return base64.b64encode(buffer.getvalue()).decode()


def kubeconfig(found: gcp.container.GetClusterResult) -> str:
    """Return the kubeconfig that `gcloud container clusters get-credentials` writes."""
    name = f"gke_{found.project}_{found.location}_{found.name}"
    cluster = {
        "server": f"https://{found.endpoint}",
        "certificate-authority-data": found.master_auths[0].cluster_ca_certificate,
    }
    plugin = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "gke-gcloud-auth-plugin"}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": name, "user": {"exec": plugin}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        }
    )


config = pulumi.Config()
driver, machine = config.get("driver") or "DEFAULT", config.get("machine") or "g2-standard-8"
libraries = config.get("libraries") or LIBRARIES
ci = gcp.container.get_cluster(name="ci", location="us-central1")
pool = gcp.container.NodePool(
    "l4",
    name=config.get("name"),
    cluster=ci.id,
    node_locations=["us-central1-a", "us-central1-b"],
    initial_node_count=0,
    autoscaling={"total_min_node_count": 0, "total_max_node_count": 2, "location_policy": "ANY"},
    upgrade_settings={"strategy": "SURGE", "max_surge": 1, "max_unavailable": 0},
    node_config={
        "machine_type": machine,
        "guest_accelerators": [
            {"type": "nvidia-l4", "count": 1, "gpu_driver_installation_config": {"gpu_driver_version": driver}}
        ],
        "labels": {"gpu-ci-pool": "l4"},
        "taints": [{"key": GPU, "value": "present", "effect": "NO_SCHEDULE"}],
    },
    opts=pulumi.ResourceOptions(ignore_changes=["initialNodeCount"]),
)
provider = kubernetes.Provider("ci", kubeconfig=kubeconfig(ci))
on_cluster = pulumi.ResourceOptions(provider=provider)
program = kubernetes.core.v1.ConfigMap("program", binary_data={"check.pyz": archive()}, opts=on_cluster)
container = {
    "name": "check",
    "image": "python:3.12",
    "command": ["python3", "/opt/check/check.pyz"],
    "env": [
        {"name": "LD_LIBRARY_PATH", "value": libraries},
        {"name": "NODE", "value_from": {"field_ref": {"field_path": "spec.nodeName"}}},
    ],
    "resources": {"limits": {GPU: "1"}},
    "volume_mounts": [{"name": "check", "mount_path": "/opt/check"}],
}
kubernetes.batch.v1.Job(
    "check",
    metadata={"annotations": {"pulumi.com/replaceUnready": "true"}},
    spec={
        "backoff_limit": 0,
        "active_deadline_seconds": 600,
        "template": {
            "spec": {
                "restart_policy": "Never",
                "node_selector": {"cloud.google.com/gke-accelerator": "nvidia-l4"},
                "tolerations": [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}],
                "containers": [container],
                "volumes": [{"name": "check", "config_map": {"name": program.metadata["name"]}}],
            }
        },
    },
    opts=pulumi.ResourceOptions(provider=provider, depends_on=[pool]),
)
pulumi.export("taints", pool.node_config.effective_taints)
