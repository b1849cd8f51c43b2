"""Compute outputs of instance templates and managed instance groups, as the provider reads them back."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pulumi_sandbox.providers.gcp.compute.operations import now, number
from pulumi_sandbox.providers.gcp.names import last, self_link
from pulumi_sandbox.providers.gcp.site import Site, Values
from pulumi_sandbox.providers.inputs import rows, table, text_of
from pulumi_sandbox.providers.values import UNKNOWN

# pulumi-gcp's own attribution label (provider option addPulumiAttributionLabel, on by default).
ATTRIBUTION = {"goog-pulumi-provisioned": "true"}


@dataclass(frozen=True)
class Located:
    """One resource: its inputs, its previous outputs (empty at creation), and its location."""

    inputs: Values
    old: Values
    site: Site
    path: str
    region: str


def fingerprint(value: Any) -> str:
    digest = hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).digest()
    return base64.urlsafe_b64encode(digest[:8]).decode()


def labels(inputs: Values, site: Site) -> Values:
    own = {**dict(site.labels), **table(inputs.get("labels")), **(ATTRIBUTION if site.attribution else {})}
    return {"pulumiLabels": own, "effectiveLabels": own}


def keep_or_make(old: Values, name: str, make: Callable[[], Any]) -> Any:
    return old[name] if old.get(name) not in (None, UNKNOWN) else make()


def template(at: Located) -> Values:
    numeric = keep_or_make(at.old, "numericId", number)
    link = self_link(at.path)
    made = labels(at.inputs, at.site) | {
        "creationTimestamp": keep_or_make(at.old, "creationTimestamp", now),
        "numericId": numeric,
        "selfLink": link,
        "metadataFingerprint": fingerprint(at.inputs.get("metadata") or {}),
        "tagsFingerprint": fingerprint(at.inputs.get("tags")) if at.inputs.get("tags") else "",
        "namePrefix": text_of(at.inputs, "namePrefix"),
        "region": at.region,
        "canIpForward": bool(at.inputs.get("canIpForward")),
        "disks": [_disk(table(disk), index) for index, disk in enumerate(rows(at.inputs.get("disks")))],
        "scheduling": _scheduling(table(at.inputs.get("scheduling"))),
        "confidentialInstanceConfig": at.inputs.get("confidentialInstanceConfig")
        or {"enableConfidentialCompute": False},
        "shieldedInstanceConfig": {
            "enableIntegrityMonitoring": True,
            "enableSecureBoot": False,
            "enableVtpm": True,
        }
        | table(at.inputs.get("shieldedInstanceConfig")),
    }
    if "/global/" in at.path:
        made["selfLinkUnique"] = f"{link}?uniqueId={numeric}"
        made["region"] = text_of(at.inputs, "region")
    return made


def _disk(disk: Values, index: int) -> Values:
    return {
        "autoDelete": True,
        "boot": index == 0,
        "deviceName": f"persistent-disk-{index}",
        "interface": "SCSI",
        "mode": "READ_WRITE",
        "type": "PERSISTENT",
    } | disk


def _scheduling(given: Values) -> Values:
    spot = given.get("preemptible") is True
    return {
        "automaticRestart": True,
        "onHostMaintenance": "TERMINATE" if spot else "MIGRATE",
        "preemptible": False,
        "provisioningModel": "SPOT" if spot else "STANDARD",
    } | given


def group(at: Located) -> Values:
    link = self_link(at.path)
    zones = [last(zone) for zone in rows(at.inputs.get("distributionPolicyZones")) if isinstance(zone, str)]
    made: Values = {
        "creationTimestamp": keep_or_make(at.old, "creationTimestamp", now),
        "fingerprint": fingerprint(at.inputs),
        "instanceGroup": link.replace("/instanceGroupManagers/", "/instanceGroups/"),
        "instanceGroupManagerId": keep_or_make(at.old, "instanceGroupManagerId", lambda: int(number()) // 10**4),
        "selfLink": link,
        "targetSize": at.inputs.get("targetSize")
        if at.inputs.get("targetSize") is not None
        else at.old.get("targetSize") or 0,
        "targetStoppedSize": at.inputs.get("targetStoppedSize") or 0,
        "targetSuspendedSize": at.inputs.get("targetSuspendedSize") or 0,
        "standbyPolicy": {"initialDelaySec": 0, "mode": "MANUAL"} | table(at.inputs.get("standbyPolicy")),
        "instanceLifecyclePolicy": {
            "defaultActionOnFailure": "REPAIR",
            "forceUpdateOnRepair": "NO",
            "onFailedHealthCheck": "DEFAULT_ACTION",
            "onRepair": {"allowChangingZone": "NO"},
        }
        | table(at.inputs.get("instanceLifecyclePolicy")),
        "statuses": [
            {
                "allInstancesConfigs": [{"currentRevision": "", "effective": True}],
                "isStable": True,
                "statefuls": [{"hasStatefulConfig": False, "perInstanceConfigs": [{"allEffective": True}]}],
                "versionTargets": [{"isReached": True}],
            }
        ],
    }
    zones = zones or rows(at.old.get("distributionPolicyZones")) or at.site.default_zones(at.region)
    return made | {
        "region": at.region,
        "distributionPolicyZones": zones,
        "distributionPolicyTargetShape": at.inputs.get("distributionPolicyTargetShape") or "EVEN",
        "updatePolicy": _update_policy(at.inputs, len(zones)),
    }


def _update_policy(inputs: Values, zones: int) -> Values:
    given = table(inputs.get("updatePolicy"))
    defaults: Values = {"type": "OPPORTUNISTIC", "minimalAction": "REPLACE", "replacementMethod": "SUBSTITUTE"}
    for field in ("maxSurge", "maxUnavailable"):
        if given.get(f"{field}Percent") is None:
            defaults[f"{field}Fixed"] = zones
    return defaults | given
