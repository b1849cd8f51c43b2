"""Emulate the read-only methods of the Compute Engine API for quotas, images and networks of a project.

- Quotas: all metrics of the discovery document, each with the same high limit.
- Images: every image exists. images_api.py has the images that clients create.
- Subnetworks: those of the emulated state and those that sandbox.yaml lists. A listed subnetwork is in the network
  `default`, as lookups return it (fixtures/). That network has a Cloud NAT in every region.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pulumi_sandbox.providers.gcp import discovery, errors, types
from pulumi_sandbox.providers.gcp.compute import machine_types
from pulumi_sandbox.providers.gcp.names import everywhere, in_region, in_zone, last, part, relative, self_link
from pulumi_sandbox.providers.gcp.restrictions import COMPUTE
from pulumi_sandbox.world.store import World

Json = dict[str, Any]
QUOTA_LIMIT = 1_000.0
GLOBAL = "_ALL_REGIONS"
DEFAULT = "default"


@dataclass
class ProjectReads:
    """The read-only methods; `exists` also returns True for resources outside of any stack."""

    world: World
    exists: Callable[[str], bool]

    def project(self, project: str) -> Json:
        quotas = [each for each in _quotas() if each["metric"].endswith(GLOBAL)]
        return {"kind": "compute#project", "name": project, "quotas": quotas}

    def region(self, project: str, name: str) -> Json:
        path = f"projects/{project}/regions/{name}"
        quotas = [each for each in _quotas() if not each["metric"].endswith(GLOBAL)]
        return {"kind": "compute#region", "name": name, "status": "UP", "selfLink": self_link(path), "quotas": quotas}

    def image(self, project: str, name: str) -> Json:
        path = everywhere(project, "images", name)
        return {"kind": "compute#image", "name": name, "status": "READY", "selfLink": self_link(path)}

    def machine_type(self, project: str, zone: str, name: str) -> Json:
        path, machine = in_zone(project, zone, "machineTypes", name), machine_types.machine(name)
        if machine is None or (machine.offer and not machine.offer.is_in(zone)):
            raise errors.not_found(path)
        return {"kind": "compute#machineType", "name": name, "zone": zone, "selfLink": self_link(path)}

    def accelerator_type(self, project: str, zone: str, name: str) -> Json:
        path = in_zone(project, zone, "acceleratorTypes", name)
        if name not in machine_types.accelerators_in(zone):
            raise errors.not_found(path)
        return {"kind": "compute#acceleratorType", "name": name, "selfLink": self_link(path)}

    def subnetwork(self, project: str, region: str, name: str) -> Json:
        path = in_region(project, region, "subnetworks", name)
        row = self.world.get(types.SUBNETWORK, path)
        if row is None and not self.exists(path):
            raise errors.not_found(path)
        network = relative(str(row.inputs.get("network"))) if row else everywhere(project, "networks", DEFAULT)
        return {
            "kind": "compute#subnetwork",
            "name": name,
            "network": self_link(network),
            "privateIpGoogleAccess": bool(row.inputs.get("privateIpGoogleAccess")) if row else True,
            "selfLink": self_link(path),
        }

    def routers(self, project: str, region: str) -> Json:
        """Return the routers of the emulated state, and a router of the network `default`."""
        nats = {last(str(row.inputs.get("router"))) for row in self.world.find(types.ROUTER_NAT)}
        network_of_router = {
            last(row.id): relative(str(row.inputs.get("network")))
            for row in self.world.find(types.ROUTER)
            if (part(row.id, "projects"), part(row.id, "regions")) == (project, region)
        }
        rows = [_router(name, network, has_nat=name in nats) for name, network in network_of_router.items()]
        rows.append(_router(DEFAULT, everywhere(project, "networks", DEFAULT), has_nat=True))
        return {"kind": "compute#routerList", "items": rows}


def _router(name: str, network: str, *, has_nat: bool) -> Json:
    nats = [{"name": name, "natIpAllocateOption": "AUTO_ONLY"}] if has_nat else []
    return {"name": name, "network": self_link(network), "nats": nats}


def _quotas() -> list[Json]:
    metrics = discovery.document(COMPUTE)["schemas"]["Quota"]["properties"]["metric"]["enum"]
    return [{"metric": metric, "limit": QUOTA_LIMIT, "usage": 0.0} for metric in metrics]
