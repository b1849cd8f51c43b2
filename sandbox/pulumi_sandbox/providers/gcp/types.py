"""The types of pulumi-gcp that the sandbox knows beyond their shape in the SDK: one row of types.toml for each.

`fields` has the fields of Google's APIs that properties become. A property that is not listed has the same name in the
API, inside its parent's object. A property without an API field of its name is checked by the shape of the SDK only. A
path has no list indexes and no map keys (`*` stands for any key). The value has one of these forms:

- a path: the API field, relative to the parent
- `/` and a path: the API field, relative to the top of the request
- empty: a parameter of the method, or a property of the provider itself; the API has another field of the same name
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

INSTANCE = "gcp:compute/instance:Instance"
TEMPLATE = "gcp:compute/instanceTemplate:InstanceTemplate"
REGION_TEMPLATE = "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate"
REGION_GROUP = "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager"
NETWORK = "gcp:compute/network:Network"
SUBNETWORK = "gcp:compute/subnetwork:Subnetwork"
ROUTER = "gcp:compute/router:Router"
WORKER_POOL = "gcp:cloudbuild/workerPool:WorkerPool"
TRIGGER = "gcp:cloudbuild/trigger:Trigger"
REPOSITORY = "gcp:artifactregistry/repository:Repository"
REPOSITORY_MEMBER = "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember"
POOL = "gcp:iam/workloadIdentityPool:WorkloadIdentityPool"
POOL_PROVIDER = "gcp:iam/workloadIdentityPoolProvider:WorkloadIdentityPoolProvider"
RUN_POOL = "gcp:cloudrunv2/workerPool:WorkerPool"
CUSTOM_ROLE = "gcp:projects/iAMCustomRole:IAMCustomRole"
CLUSTER = "gcp:container/cluster:Cluster"
NODE_POOL = "gcp:container/nodePool:NodePool"
ALERT_POLICY = "gcp:monitoring/alertPolicy:AlertPolicy"
AI_ENDPOINT = "gcp:vertex/aiEndpoint:AiEndpoint"
ACCOUNT = "gcp:serviceaccount/account:Account"
ACCOUNT_MEMBER = "gcp:serviceaccount/iAMMember:IAMMember"
PROJECT_MEMBER = "gcp:projects/iAMMember:IAMMember"
SECRET = "gcp:secretmanager/secret:Secret"  # noqa: S105 - a type
SECRET_VERSION = "gcp:secretmanager/secretVersion:SecretVersion"  # noqa: S105 - a type
SECRET_MEMBER = "gcp:secretmanager/secretIamMember:SecretIamMember"  # noqa: S105 - a type
BUCKET = "gcp:storage/bucket:Bucket"
KEY_MEMBER = "gcp:kms/cryptoKeyIAMMember:CryptoKeyIAMMember"

TEMPLATES = (TEMPLATE, REGION_TEMPLATE)
MEMBERS = (ACCOUNT_MEMBER, PROJECT_MEMBER, SECRET_MEMBER, REPOSITORY_MEMBER)


@dataclass(frozen=True)
class Row:
    """What the sandbox knows of one type."""

    document: str
    """The discovery document, such as `compute.v1`."""
    schema: str
    """The schema of the request in the document."""
    base: tuple[str, ...] = ()
    """The path in the schema of the object that has the properties."""
    fields: dict[str, str] = field(default_factory=dict)
    id: str = ""
    """The id that Pulumi shows and `pulumi import` accepts, with placeholders of outputs.py."""
    place: str = ""
    """The input that defaults to the region of the provider: `region` or `location`.

    `region or zone`: a location that may be both, and defaults to the provider's region, or else to its zone.
    """
    project: bool = True
    """True if the type has a `project` input."""
    labels: bool = False
    self_link: bool = False
    replaces: tuple[str, ...] = ()
    """The properties whose change replaces the resource, except those that its documentation names (sdk/replace.py)."""
    in_place: tuple[str, ...] = ()
    """Properties that are changed in place, although the documentation reads as if a change replaced the resource."""
    references: dict[str, str] = field(default_factory=dict)
    """The inputs that refer to a resource, and the kind of the resource."""


def _rows() -> dict[str, Row]:
    rows: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("types.toml").read_text(encoding="utf-8"))
    for token, values in rows.items():
        if other := rows.get(values.pop("like", "")):
            rows[token] = {**other, **values, "fields": {**other["fields"], **values["fields"]}}
    return {token: Row(**values) for token, values in rows.items()}


TARGETS = _rows()


def placed(token: str) -> str:
    """Return the kind of place of a type, or an empty string."""
    return TARGETS[token].place if token in TARGETS else ""
