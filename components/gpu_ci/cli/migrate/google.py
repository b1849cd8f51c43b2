"""Drafts pools on Compute Engine from instance groups, and pools on GKE from node pools, in a state."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import gpu_catalog

from gpu_ci.cli.migrate import nodes
from gpu_ci.cli.migrate.draft import GKE_NODES, MACHINES, Cluster, Draft, Pool
from gpu_ci.cli.migrate.scale_sets import ScaleSet, number
from gpu_ci.cli.migrate.terraform import Resource

GROUPS = {"google_compute_instance_group_manager", "google_compute_region_instance_group_manager"}
_TEMPLATES = {"google_compute_instance_template", "google_compute_region_instance_template"}
_AUTOSCALERS = {"google_compute_autoscaler", "google_compute_region_autoscaler"}
NODE_POOL, CLUSTER = "google_container_node_pool", "google_container_cluster"
_SUBNETWORK = re.compile(r"projects/[^/]+/regions/(?P<region>[^/]+)/subnetworks/[^/]+$")
_PROJECT = re.compile(r"projects/(?P<project>[^/]+)/")
_DISK_TYPES = ("pd-balanced", "pd-ssd", "pd-standard", "hyperdisk-balanced")
# Without the labels that Google (goog-) and gpu-ci (gpu-ci-) set themselves.
_LABEL = re.compile(r"(?!goog-|gpu-ci-)[a-z][a-z0-9_-]{0,62}")
_LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
_LABELS_HIDDEN = "the module keeps the runner labels in a secret, which this command does not read; write runnerLabels"


def instance_groups(resources: Sequence[Resource], draft: Draft) -> None:
    """Add a pool to the draft for each managed instance group, and the labels that all their machines have."""
    templates = [each for each in resources if each.type in _TEMPLATES]
    autoscalers = [each for each in resources if each.type in _AUTOSCALERS]
    shared: list[dict[str, str]] = []
    for group in (each for each in resources if each.type in GROUPS):
        pool = Pool(group.title, group.address, _kind_of(group, resources), MACHINES)
        draft.pools.append(pool)
        template = _template(group, templates)
        if template is None:
            pool.skipped = "the state does not have its instance template"
            continue
        accelerator = template.block("guest_accelerator")
        zones = group.values.get("distribution_policy_zones") or [group.text("zone")]
        pool.project = group.text("project") or template.text("project")
        if not _machine(pool, template.text("machine_type"), accelerator, [_last(zone) for zone in zones]):
            continue
        pool.covers += [group.address, template.address]
        scheduling = template.block("scheduling")
        spot = scheduling.get("provisioning_model") == "SPOT" or scheduling.get("preemptible") is True
        pool.fields["market"] = "spot" if spot else "standard"
        _max(pool, group, autoscalers)
        _disk(pool, next((each for each in template.values.get("disk") or () if each.get("boot") is not False), {}))
        _network(pool, template.block("network_interface"), draft)
        if template.block("reservation_affinity").get("type") == "SPECIFIC_RESERVATION":
            pool.notes["market"] = "the template uses a reservation; write market: reservation, and reservation"
        if pool.was == "gh-runner-mig-vm":
            pool.notes["runnerLabels"] = _LABELS_HIDDEN
        pool.notes["image"] = "the default has an NVIDIA driver; for setup steps of the old image, build one on it"
        scripts = [key for key in ("startup-script", "shutdown-script") if key in template.block("metadata")]
        if scripts or template.text("metadata_startup_script"):
            pool.notes["startup-script"] = "the boot agent replaces it; other steps belong into the image"
        if template.block("service_account"):
            pool.notes["service_account"] = "the pool creates an account that may only write logs; see secrets"
        shared.append({str(key): str(value) for key, value in template.block("labels").items()})
    if shared:
        first, *others = shared
        draft.labels = {
            key: value
            for key, value in sorted(first.items())
            if all(each.get(key) == value for each in others)
            and _LABEL.fullmatch(key)
            and _LABEL_VALUE.fullmatch(value)
        }


def node_pools(resources: Sequence[Resource], scale_sets: Iterable[ScaleSet], draft: Draft) -> None:
    """Add a pool to the draft for each scale set on a node pool of GKE, and for each node pool without one."""
    found = [each for each in resources if each.type == NODE_POOL]
    sets = list(scale_sets)
    for node_pool in found:
        config = node_pool.block("node_config")
        name = node_pool.text("name")
        labels = config.get("labels")
        own = nodes.scale_sets_on(sets, name, labels, "cloud.google.com/gke-nodepool", is_only=len(found) == 1)
        for scale_set in own:
            pool = nodes.new_pool(node_pool, scale_set, name, GKE_NODES, "GKE")
            pool.project = node_pool.text("project")
            draft.pools.append(pool)
            location = node_pool.text("location")
            zones = node_pool.values.get("node_locations") or [location]
            accelerator = (config.get("guest_accelerator") or [{}])[0]
            pool.fields["clusterName"] = _last(node_pool.text("cluster"))
            if not _machine(pool, str(config.get("machine_type") or ""), accelerator, zones):
                continue
            pool.covers.append(node_pool.address)
            _gke_cluster(node_pool, resources, draft)
            _market(pool, node_pool)
            _max_nodes(pool, node_pool.block("autoscaling"), len(zones))
            _disk(pool, {"disk_size_gb": config.get("disk_size_gb"), "disk_type": config.get("disk_type")})
            _node_software(pool, node_pool)
            nodes.take_over_runner(pool, scale_set)


def _market(pool: Pool, node_pool: Resource) -> None:
    config = node_pool.block("node_config")
    spot = config.get("spot") or config.get("preemptible")
    pool.fields["market"] = "flex-start" if config.get("flex_start") else "spot" if spot else "standard"
    affinity = node_pool.block("node_config", "reservation_affinity")
    names = affinity.get("values")
    if affinity.get("consume_reservation_type") == "SPECIFIC_RESERVATION" and isinstance(names, list) and names:
        on_demand = pool.machine is None or "standard" in pool.machine.markets
        pool.fields |= {"market": "standard" if on_demand else "reservation", "reservation": str(names[0])}
    if duration := number(str(config.get("max_run_duration") or "").removesuffix("s")):
        pool.fields["maxRunDurationSec"] = duration


def _max_nodes(pool: Pool, scaling: Mapping[str, Any], zones: int) -> None:
    # max_node_count is for each zone (registry.terraform.io: google_container_node_pool, autoscaling).
    most = number(scaling.get("total_max_node_count")) or (number(scaling.get("max_node_count")) or 0) * zones
    if most:
        pool.fields["max"] = most
    else:
        pool.missing["max"] = "the node pool has no autoscaling"
    if least := number(scaling.get("total_min_node_count")) or number(scaling.get("min_node_count")):
        pool.notes["min_node_count"] = f"was {least}; an idle pool has no nodes, and minIdle keeps idle runners"


def _node_software(pool: Pool, node_pool: Resource) -> None:
    """Take over the node image, driver, local SSDs and image streaming. Note what has no field."""
    config = node_pool.block("node_config")
    if config.get("image_type") == "UBUNTU_CONTAINERD":
        pool.fields["imageType"] = "UBUNTU_CONTAINERD"
    accelerator = node_pool.block("node_config", "guest_accelerator")
    driver = node_pool.block("node_config", "guest_accelerator", "gpu_driver_installation_config").get(
        "gpu_driver_version"
    )
    if driver == "LATEST":
        pool.fields["driver"] = "LATEST"
    elif driver == "INSTALLATION_DISABLED":
        pool.notes["driver"] = "was INSTALLATION_DISABLED; on nodes of the pool, GKE installs the driver"
    if disks := number(node_pool.block("node_config", "ephemeral_storage_local_ssd_config").get("local_ssd_count")):
        pool.fields["localSsdCount"] = disks
    if node_pool.block("node_config", "gcfs_config").get("enabled") is True:
        pool.fields["imageStreaming"] = True
    if subnetwork := _SUBNETWORK.search(str(node_pool.block("network_config").get("subnetwork") or "")):
        pool.fields["subnetwork"] = subnetwork[0]
    if accelerator.get("gpu_sharing_config") or accelerator.get("gpu_partition_size"):
        pool.notes["gpu_sharing_config"] = "a job gets whole GPUs"
    if config.get("service_account"):
        pool.notes["service_account"] = (
            "the pool creates an account; imageRepositories lets it read images of Artifact Registry"
        )


def _gke_cluster(node_pool: Resource, resources: Sequence[Resource], draft: Draft) -> None:
    name = _last(node_pool.text("cluster"))
    cluster = draft.clusters.setdefault(name, Cluster({"kind": "gke", "location": node_pool.text("location")}))
    cluster.project = node_pool.text("project")
    for each in resources:
        if each.type != CLUSTER or each.text("name") != name:
            continue
        draft.kept.append(each.address)
        calico = each.block("network_policy").get("enabled") is True
        if each.text("datapath_provider") != "ADVANCED_DATAPATH" and not calico:
            cluster.comments["networkPolicies"] = (
                "the cluster enforces none in the state. Enable them (docs/guides/gke.md), or write false: then jobs "
                "can connect to private addresses"
            )


def unknown(machine_type: str, error: LookupError) -> str:
    """Return the reason why a machine type makes no pool. The error's hint is for misspelled names only."""
    if isinstance(error, gpu_catalog.UnknownMachine):
        return f"the catalog has no machine type {machine_type} with an NVIDIA GPU"
    return str(error)


def _kind_of(group: Resource, resources: Sequence[Resource]) -> str:
    """Return "gh-runner-mig-vm" for a group of Google's module, which has a secret `gh-secret` next to it."""
    around = group.address.partition(".module.mig.")[0] if ".module.mig." in group.address else ""
    secret = f"{around}.google_secret_manager_secret.gh-secret"
    return "gh-runner-mig-vm" if around and any(each.address == secret for each in resources) else "instance group"


def _template(group: Resource, templates: Sequence[Resource]) -> Resource | None:
    links = [each.get("instance_template") for each in group.values.get("version") or () if isinstance(each, dict)]
    names = {_last(link) for link in links if isinstance(link, str)}
    return next((each for each in templates if each.text("name") in names), None)


def _machine(pool: Pool, machine_type: str, accelerator: Any, zones: Sequence[str]) -> bool:
    """Set machine type, GPUs and zones. If the catalog has no such machine, skip the pool and return False."""
    kind = _last(str(accelerator.get("type") or "")) if isinstance(accelerator, dict) else ""
    count = number(accelerator.get("count")) or 1 if kind else 0
    attached = f"{machine_type}+{kind}x{count}"
    try:
        found = gpu_catalog.machine(attached if kind and machine_type.startswith("n1-") else machine_type)
    except LookupError as error:
        pool.skipped = unknown(machine_type, error) if machine_type else "the state does not have its machine type"
        return False
    pool.machine = found
    pool.fields["machineType"] = found.machine_type
    if found.attached:
        pool.fields["guestAccelerator"] = {"type": kind, "count": count}
    region = gpu_catalog.region_of(zones[0]) if zones else ""
    with_gpu = gpu_catalog.zones(found, region)
    pool.fields["zones"] = [zone for zone in zones if zone in with_gpu] or list(with_gpu)
    if not pool.fields["zones"]:
        del pool.fields["zones"]
        pool.missing["zones"] = f"no zone of {', '.join(zones) or 'the group'} has {found.machine_type}"
    elif others := [zone for zone in zones if zone not in with_gpu]:
        pool.notes["zones"] = f"{', '.join(others)} has no {found.machine_type}"
    return True


def _max(pool: Pool, group: Resource, autoscalers: Sequence[Resource]) -> None:
    own = [each for each in autoscalers if _last(each.text("target")) == group.text("name")]
    pool.covers += [each.address for each in own]
    policy = own[0].block("autoscaling_policy") if own else {}
    most = number(policy.get("max_replicas")) or number(group.values.get("target_size"))
    if most:
        pool.fields["max"] = most
    else:
        pool.missing["max"] = "the group has no autoscaler and no machines"
    if least := number(policy.get("min_replicas")):
        pool.notes["min_replicas"] = f"was {least}; an idle pool has no machines, and standby keeps stopped ones"


def _disk(pool: Pool, disk: dict[str, Any]) -> None:
    pool.keep_disk_size(number(disk.get("disk_size_gb")))
    kind = _last(str(disk.get("disk_type") or ""))
    if kind in _DISK_TYPES:
        pool.fields["diskType"] = kind


def _network(pool: Pool, interface: dict[str, Any], draft: Draft) -> None:
    if interface.get("access_config"):
        pool.notes["access_config"] = "machines have no public address; the subnetwork needs a Cloud NAT"
    _subnetwork(pool, str(interface.get("subnetwork") or ""), draft)


def _subnetwork(pool: Pool, link: str, draft: Draft) -> None:
    zones = pool.fields.get("zones") or [""]
    region = gpu_catalog.region_of(zones[0])
    found = _SUBNETWORK.search(link)
    if not found or found["region"] != region:
        if region not in draft.subnetworks:
            pool.notes["subnetwork"] = f"the state has none for {region}; write gpu-ci:site.subnetworks.{region}"
        return
    kept = draft.subnetworks.setdefault(region, found[0])
    if kept != found[0]:
        pool.notes["subnetwork"] = f"was {found[0]}; a stack has one subnetwork for each region"


def project_of(pools: Iterable[Pool], subnetworks: Iterable[str]) -> str:
    """Return the project of the pools, or of the subnetworks, or an empty text."""
    named = [pool.project for pool in pools if pool.project]
    return next(iter([*named, *(found["project"] for each in subnetworks if (found := _PROJECT.match(each)))]), "")


def _last(link: str) -> str:
    """Return the name at the end of a link, without the unique id that follows a template's name."""
    return link.partition("?")[0].rpartition("/")[2]
