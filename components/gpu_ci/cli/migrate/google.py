"""Drafts Compute Engine pools from instance groups and GKE node pools in a state."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import gpu_catalog

from gpu_ci.cli.migrate.draft import MACHINES, Draft, Pool
from gpu_ci.cli.migrate.scale_sets import ScaleSet, number
from gpu_ci.cli.migrate.terraform import Resource

GROUPS = {"google_compute_instance_group_manager", "google_compute_region_instance_group_manager"}
_TEMPLATES = {"google_compute_instance_template", "google_compute_region_instance_template"}
_AUTOSCALERS = {"google_compute_autoscaler", "google_compute_region_autoscaler"}
NODE_POOL = "google_container_node_pool"
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
    """Add a pool of machines to the draft for each node pool of GKE, with the scale sets that run on it."""
    nodes = [each for each in resources if each.type == NODE_POOL]
    sets = list(scale_sets)
    for node_pool in nodes:
        config = node_pool.block("node_config")
        name = node_pool.text("name")
        own = [each for each in sets if runs_on(each, name, config.get("labels"), "cloud.google.com/gke-nodepool")]
        if len(nodes) == 1:
            own = own or sets
        title = own[0].name if len(own) == 1 else name or node_pool.title
        pool = Pool(title, node_pool.address, "GKE node pool", MACHINES, project=node_pool.text("project"))
        draft.pools.append(pool)
        location = node_pool.text("location")
        zones = node_pool.values.get("node_locations") or [location]
        accelerator = (config.get("guest_accelerator") or [{}])[0]
        if not _machine(pool, str(config.get("machine_type") or ""), accelerator, zones):
            continue
        pool.fields["market"] = "spot" if config.get("spot") or config.get("preemptible") else "standard"
        scaling = node_pool.block("autoscaling")
        # max_node_count is for each zone (registry.terraform.io: google_container_node_pool, autoscaling).
        most = number(scaling.get("total_max_node_count")) or (number(scaling.get("max_node_count")) or 0) * len(zones)
        if most:
            pool.fields["max"] = most
        else:
            pool.missing["max"] = "the node pool has no autoscaling"
        if own:
            pool.fields["runnerLabels"] = [each.name for each in own]
            pool.notes["runnerLabels"] = (
                "runs-on of the scale sets. Until they are deleted, use other labels for a trial"
            )
            pool.runner_group = own[0].group
        if own and any(each.image for each in own):
            pool.notes["image"] = "a job runs on the machine; use container: in workflows for the image of the pods"
        _disk(pool, {"disk_size_gb": config.get("disk_size_gb"), "disk_type": config.get("disk_type")})
        _cluster_network(pool, node_pool, resources, draft)


def runs_on(scale_set: ScaleSet, name: str, labels: Any, name_label: str) -> bool:
    """Return True if the selector of a scale set names this node pool, or labels that its nodes have."""
    nodes = {**(labels if isinstance(labels, dict) else {}), name_label: name}
    return bool(scale_set.selector) and all(nodes.get(key) == value for key, value in scale_set.selector.items())


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


def _cluster_network(pool: Pool, node_pool: Resource, resources: Sequence[Resource], draft: Draft) -> None:
    name = _last(node_pool.text("cluster"))
    clusters = [each for each in resources if each.type == "google_container_cluster" and each.text("name") == name]
    pool.covers += [node_pool.address, *(each.address for each in clusters)]
    _subnetwork(pool, clusters[0].text("subnetwork") if clusters else "", draft)


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
