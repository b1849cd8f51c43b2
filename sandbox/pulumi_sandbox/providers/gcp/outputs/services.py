"""Compute outputs of all types but machines and clusters, as the provider reads them back."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.compute.operations import now, number
from pulumi_sandbox.providers.gcp.names import absolute, everywhere, last, part, self_link
from pulumi_sandbox.providers.gcp.outputs.machine import Located, fingerprint, keep_or_make, labels
from pulumi_sandbox.providers.gcp.site import Values
from pulumi_sandbox.providers.inputs import rows, table, text_of

_AUTHOR = "sandbox@example.com"


def _created(at: Located) -> Values:
    return {"createTime": keep_or_make(at.old, "createTime", now)}


# -- identities and secrets -------------------------------------------------------------------------------------------


def _account(at: Located) -> Values:
    email = last(at.path)
    return {
        "disabled": bool(at.inputs.get("disabled")),
        "email": email,
        "member": f"serviceAccount:{email}",
        "name": at.path,
        "uniqueId": keep_or_make(at.old, "uniqueId", lambda: "1" + number() + "0"),
    }


def iam_etag(value: Any) -> str:
    digest = hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).digest()
    return f"Bw{base64.b64encode(digest[:6]).decode()}="


def _bound(at: Located) -> Values:
    return {"etag": iam_etag([at.path, at.inputs])}


def _custom_role(at: Located) -> Values:
    return {"deleted": False, "name": at.path, "stage": text_of(at.inputs, "stage") or "GA"}


def _identity_pool(at: Located) -> Values:
    """The API returns names with the project's number."""
    return {"name": f"projects/{at.site.number}/{at.path.split('/', 2)[2]}", "state": "ACTIVE"}


def _secret(at: Located) -> Values:
    return {
        **labels(at.inputs, at.site),
        **_created(at),
        "deletionProtection": bool(at.inputs.get("deletionProtection")),
        "effectiveAnnotations": table(at.inputs.get("annotations")),
        "expireTime": text_of(at.inputs, "expireTime"),
        "name": f"projects/{at.site.number}/secrets/{last(at.path)}",
    }


def _secret_version(at: Located) -> Values:
    is_enabled = at.inputs.get("enabled") is not False
    return {**_created(at), "destroyTime": "", "enabled": is_enabled, "name": at.path, "version": last(at.path)}


# -- builds -----------------------------------------------------------------------------------------------------------


def _worker_pool(at: Located) -> Values:
    workers = {
        "diskSizeGb": 100,
        "machineType": "e2-medium",
        "enableNestedVirtualization": False,
        "noExternalIp": False,
    }
    made: Values = {
        **_created(at),
        "deleteTime": "",
        "effectiveAnnotations": table(at.inputs.get("annotations")),
        "state": "RUNNING",
        "uid": keep_or_make(at.old, "uid", lambda: str(uuid4())),
        "updateTime": now(),
        "workerConfig": workers | table(at.inputs.get("workerConfig")),
    }
    if at.inputs.get("privateServiceConnect") is not None:
        # The value is empty because the provider does not send the input: betaToGaPrivatePool looks for it in a new,
        # empty object (terraform-provider-google e03b7622, google/services/cloudbuild/cloudbuild_utils.go).
        made["privateServiceConnect"] = None
    return made


def _trigger(at: Located) -> Values:
    return {
        **_created(at),
        "approvalConfig": {"approvalRequired": False} | table(at.inputs.get("approvalConfig")),
        "location": text_of(at.inputs, "location") or "global",
        "triggerId": last(at.path),
    }


def _repository(at: Located) -> Values:
    place = text_of(at.inputs, "location") or at.region
    scanning = table(at.inputs.get("vulnerabilityScanningConfig"))
    off = scanning.get("enablementConfig") == "DISABLED"
    return {
        **labels(at.inputs, at.site),
        **_created(at),
        "location": place,
        "name": last(at.path),
        "registryUri": f"{place}-{text_of(at.inputs, 'format').lower()}.pkg.dev/{part(at.path, 'projects')}/"
        f"{last(at.path)}",
        "updateTime": now(),
        # The sandbox assumes that the project's Container Scanning API is enabled.
        "vulnerabilityScanningConfig": {
            **scanning,
            "enablementState": "SCANNING_DISABLED" if off else "SCANNING_ACTIVE",
            "enablementStateReason": "",
        },
    }


# -- Cloud Run and monitoring -----------------------------------------------------------------------------------------


def _run_pool(at: Located) -> Values:
    revision = f"{at.path}/revisions/{last(at.path)}-{str(uuid4())[:5]}"
    generation = str(int(keep_or_make(at.old, "generation", lambda: "0")) + 1)
    return {
        **labels(at.inputs, at.site),
        **_created(at),
        "conditions": [],
        "creator": _AUTHOR,
        "deleteTime": "",
        "deletionProtection": at.inputs.get("deletionProtection") is not False,
        "effectiveAnnotations": table(at.inputs.get("annotations")),
        "etag": f'"{generation}"',
        "expireTime": "",
        "generation": generation,
        "instanceSplitStatuses": [{"type": "INSTANCE_SPLIT_ALLOCATION_TYPE_LATEST", "percent": 100}],
        "lastModifier": _AUTHOR,
        "latestCreatedRevision": revision,
        "latestReadyRevision": revision,
        "launchStage": text_of(at.inputs, "launchStage") or "GA",
        "observedGeneration": generation,
        "reconciling": False,
        "terminalConditions": [{"type": "Ready", "state": "CONDITION_SUCCEEDED"}],
        "uid": keep_or_make(at.old, "uid", lambda: str(uuid4())),
        "updateTime": now(),
    }


def _alert_policy(at: Located) -> Values:
    record = keep_or_make(at.old, "creationRecords", lambda: [{"mutateTime": now(), "mutatedBy": _AUTHOR}])
    conditions = [
        {**table(row), "name": f"{at.path}/conditions/{last(at.path)}{index}"}
        for index, row in enumerate(rows(at.inputs.get("conditions")))
    ]
    return {"conditions": conditions, "creationRecords": record, "name": at.path}


def _ai_endpoint(at: Located) -> Values:
    name, location = text_of(at.inputs, "name"), text_of(at.inputs, "location")
    dns = f"{name}.{location}-{at.site.place(at.inputs)[0]}.prediction.vertexai.goog"
    return {
        **labels(at.inputs, at.site),
        "createTime": keep_or_make(at.old, "createTime", now),
        "dedicatedEndpointDns": dns if at.inputs.get("dedicatedEndpointEnabled") is True else "",
        "deployedModels": [],
        "etag": keep_or_make(at.old, "etag", number),
        "modelDeploymentMonitoringJob": "",
        # Optional and computed: it is what Google returns, and no difference if the program leaves it out.
        "trafficSplit": at.inputs.get("trafficSplit") or keep_or_make(at.old, "trafficSplit", lambda: "{}"),
        "updateTime": now(),
    }


def _network(at: Located) -> Values:
    numeric = keep_or_make(at.old, "numericId", number)
    return {
        "autoCreateSubnetworks": at.inputs.get("autoCreateSubnetworks") is not False,
        "bgpAlwaysCompareMed": False,
        "bgpBestPathSelectionMode": text_of(at.inputs, "bgpBestPathSelectionMode") or "LEGACY",
        "bgpInterRegionCost": text_of(at.inputs, "bgpInterRegionCost"),
        "gatewayIpv4": "",
        "internalIpv6Range": text_of(at.inputs, "internalIpv6Range"),
        "mtu": at.inputs.get("mtu") or 1460,
        "networkFirewallPolicyEnforcementOrder": text_of(at.inputs, "networkFirewallPolicyEnforcementOrder")
        or "AFTER_CLASSIC_FIREWALL",
        "networkId": numeric,
        "numericId": numeric,
        "routingMode": text_of(at.inputs, "routingMode") or "REGIONAL",
        "selfLink": self_link(at.path),
    }


def _subnetwork(at: Located) -> Values:
    try:
        gateway = str(next(ipaddress.ip_network(text_of(at.inputs, "ipCidrRange"), strict=False).hosts()))
    except (ValueError, StopIteration):
        gateway = ""
    return {
        "creationTimestamp": keep_or_make(at.old, "creationTimestamp", now),
        "fingerprint": fingerprint(at.inputs),
        "gatewayAddress": gateway,
        "ipv6CidrRange": "",
        "ipv6GceEndpoint": "",
        "externalIpv6Prefix": text_of(at.inputs, "externalIpv6Prefix"),
        "internalIpv6Prefix": text_of(at.inputs, "internalIpv6Prefix"),
        "privateIpGoogleAccess": bool(at.inputs.get("privateIpGoogleAccess")),
        "privateIpv6GoogleAccess": text_of(at.inputs, "privateIpv6GoogleAccess") or "DISABLE_GOOGLE_ACCESS",
        "purpose": text_of(at.inputs, "purpose") or "PRIVATE",
        "region": at.region,
        "selfLink": self_link(at.path),
        "stackType": text_of(at.inputs, "stackType") or "IPV4_ONLY",
        "state": "READY",
        "subnetworkId": keep_or_make(at.old, "subnetworkId", lambda: int(number()) // 10**4),
        "network": self_link(absolute(text_of(at.inputs, "network"), part(at.path, "projects")))
        if "/" in text_of(at.inputs, "network")
        else self_link(everywhere(part(at.path, "projects"), "networks", text_of(at.inputs, "network"))),
    }


def _firewall(at: Located) -> Values:
    return {
        "creationTimestamp": keep_or_make(at.old, "creationTimestamp", now),
        "destinationRanges": rows(at.inputs.get("destinationRanges")),
        "direction": text_of(at.inputs, "direction") or "INGRESS",
        "enableLogging": at.inputs.get("logConfig") is not None,
        "priority": at.inputs.get("priority") if at.inputs.get("priority") is not None else 1000,
        "selfLink": self_link(at.path),
        "sourceRanges": rows(at.inputs.get("sourceRanges")),
    }


def _router(at: Located) -> Values:
    return {
        "creationTimestamp": keep_or_make(at.old, "creationTimestamp", now),
        "region": at.region,
        "selfLink": self_link(at.path),
    }


def _nat(at: Located) -> Values:
    return {
        "autoNetworkTier": text_of(at.inputs, "autoNetworkTier") or "PREMIUM",
        "drainNatIps": rows(at.inputs.get("drainNatIps")),
        "enableDynamicPortAllocation": at.inputs.get("enableDynamicPortAllocation") is True,
        "enableEndpointIndependentMapping": at.inputs.get("enableEndpointIndependentMapping") is True,
        "endpointTypes": rows(at.inputs.get("endpointTypes")) or ["ENDPOINT_TYPE_VM"],
        "natIps": rows(at.inputs.get("natIps")),
        "region": at.region,
    }


KINDS: dict[str, Callable[[Located], Values]] = {
    types.ACCOUNT: _account,
    **dict.fromkeys(types.MEMBERS, _bound),
    types.CUSTOM_ROLE: _custom_role,
    types.POOL: _identity_pool,
    types.POOL_PROVIDER: _identity_pool,
    types.SECRET: _secret,
    types.SECRET_VERSION: _secret_version,
    types.WORKER_POOL: _worker_pool,
    types.TRIGGER: _trigger,
    types.REPOSITORY: _repository,
    types.RUN_POOL: _run_pool,
    types.LOG_METRIC: lambda _: {},
    types.ALERT_POLICY: _alert_policy,
    types.AI_ENDPOINT: _ai_endpoint,
    types.NETWORK: _network,
    types.SUBNETWORK: _subnetwork,
    types.FIREWALL: _firewall,
    types.ROUTER: _router,
    types.ROUTER_NAT: _nat,
}
