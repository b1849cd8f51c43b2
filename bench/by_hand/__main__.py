"""The resources of N pools, each declared by hand. `make bench` fails if they differ from the component's resources."""

import pulumi
import pulumi_gcp as gcp
from gpu_ci import naming, versions
from gpu_ci.gcp.machine import boot
from gpu_ci.gcp.runner_pool import RunnerPoolArgs
from gpu_ci.gcp.smoke_gate import SmokeGate, SmokeGateArgs

from bench import peak

peak.record()
PROJECT, REGION = "example-project", "us-central1"
ZONES = [f"{REGION}-{letter}" for letter in "abc"]
SUBNETWORK = f"projects/{PROJECT}/regions/{REGION}/subnetworks/default"
# The source of the machine's metadata. It is created once, so that its checks are not part of the comparison.
MACHINE = RunnerPoolArgs(machine_type="g2-standard-8", zones=ZONES, max=4, project=PROJECT, subnetwork=SUBNETWORK)

for index in range(pulumi.Config().require_int("pools")):
    name = f"pool-{index}"
    labels = {"team": "platform", "gpu-ci-pool": name}
    account = gcp.serviceaccount.Account(
        f"{name}-account",
        account_id=naming.fit(f"gpu-{name}-{pulumi.get_stack()}", 30),
        display_name=f"machines of the GPU runner pool {name}",
        project=PROJECT,
    )
    gcp.projects.IAMMember(
        f"{name}-log-writer",
        member=pulumi.Output.concat("serviceAccount:", account.email),
        project=PROJECT,
        role="roles/logging.logWriter",
    )
    template = gcp.compute.RegionInstanceTemplate(
        f"{name}-template",
        project=PROJECT,
        region=REGION,
        machine_type="g2-standard-8",
        disks=[
            {
                "boot": True,
                "auto_delete": True,
                "source_image": versions.GCE_IMAGE,
                "disk_size_gb": 100,
                "disk_type": "pd-balanced",
                "labels": labels,
            }
        ],
        network_interfaces=[{"subnetwork": SUBNETWORK}],
        service_account={"email": account.email, "scopes": ["https://www.googleapis.com/auth/cloud-platform"]},
        scheduling={
            "provisioning_model": "SPOT",
            "preemptible": True,
            "automatic_restart": False,
            "on_host_maintenance": "TERMINATE",
            "instance_termination_action": "DELETE",
            "max_run_duration": {"seconds": 14400},
        },
        shielded_instance_config={
            "enable_vtpm": True,
            "enable_integrity_monitoring": True,
            "enable_secure_boot": True,
        },
        metadata={
            "enable-oslogin": "TRUE",
            "block-project-ssh-keys": "TRUE",
            "serial-port-enable": "FALSE",
            **boot.metadata(name, MACHINE, 1200),
        },
        labels=labels,
    )
    gate = SmokeGate(
        f"{name}-gate",
        SmokeGateArgs(project=PROJECT, zones=ZONES, template=template.self_link, pool=name, labels=labels),
    )
    gcp.compute.RegionInstanceGroupManager(
        f"{name}-group",
        project=PROJECT,
        region=REGION,
        base_instance_name=name,
        distribution_policy_zones=ZONES,
        distribution_policy_target_shape="ANY",
        versions=[{"instance_template": gate.checked_template}],
        update_policy={
            "type": "OPPORTUNISTIC",
            "minimal_action": "REPLACE",
            "instance_redistribution_type": "NONE",
            "max_surge_fixed": 0,
            "max_unavailable_fixed": 3,
        },
        instance_lifecycle_policy={"default_action_on_failure": "DO_NOTHING"},
        target_size=0,
        target_stopped_size=0,
        wait_for_instances=False,
        opts=pulumi.ResourceOptions(ignore_changes=["targetSize"]),
    )
