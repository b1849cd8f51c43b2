"""The ids of the Google resources that are emulated, and the outputs that the provider adds to their inputs."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.compute.operations import number
from pulumi_sandbox.providers.gcp.names import last, part, relative, service_account_email
from pulumi_sandbox.providers.gcp.outputs import container, services
from pulumi_sandbox.providers.gcp.outputs.machine import Located, group, template
from pulumi_sandbox.providers.gcp.site import Site, Values
from pulumi_sandbox.providers.inputs import table, text_of
from pulumi_sandbox.providers.resource import Resource

_MEMBER = "{role}/{member}"
# The id that Pulumi shows and `pulumi import` accepts. A placeholder is an input, or one of `_placeholders`.
IDS = {
    types.TEMPLATE: "projects/{project}/global/instanceTemplates/{name}",
    types.REGION_TEMPLATE: "projects/{project}/regions/{region}/instanceTemplates/{name}",
    types.GROUP: "projects/{project}/zones/{zone}/instanceGroupManagers/{name}",
    types.REGION_GROUP: "projects/{project}/regions/{region}/instanceGroupManagers/{name}",
    types.NETWORK: "projects/{project}/global/networks/{name}",
    types.FIREWALL: "projects/{project}/global/firewalls/{name}",
    types.SUBNETWORK: "projects/{project}/regions/{region}/subnetworks/{name}",
    types.ROUTER: "projects/{project}/regions/{region}/routers/{name}",
    types.ROUTER_NAT: "{project}/{region}/{router}/{name}",
    types.ACCOUNT: "projects/{project}/serviceAccounts/{email}",
    types.ACCOUNT_MEMBER: f"{{serviceAccountId}}/{_MEMBER}",
    types.PROJECT_MEMBER: f"{{ownProject}}/{_MEMBER}",
    types.CUSTOM_ROLE: "projects/{project}/roles/{roleId}",
    types.POOL: "{pool}",
    types.POOL_PROVIDER: "{pool}/providers/{workloadIdentityPoolProviderId}",
    types.SECRET: "projects/{project}/secrets/{secretId}",
    types.SECRET_MEMBER: f"projects/{{project}}/secrets/{{secretName}}/{_MEMBER}",
    types.REPOSITORY: "{repository}",
    types.REPOSITORY_MEMBER: f"{{repository}}/{_MEMBER}",
    types.WORKER_POOL: "projects/{project}/locations/{location}/workerPools/{name}",
    # Cloud Build creates the id of a trigger; the id differs from the name.
    types.TRIGGER: "projects/{project}/locations/{locationOrGlobal}/triggers/{uuid}",
    types.RUN_POOL: "projects/{project}/locations/{location}/workerPools/{name}",
    types.LOG_METRIC: "{name}",
    types.ALERT_POLICY: "projects/{project}/alertPolicies/{number}",
}


def identity(token: str, inputs: Values, site: Site) -> str:
    if token in types.IN_REGION_OR_ZONE:
        return container.identity(token, inputs, site)
    made = IDS[token].format_map(_placeholders(inputs, site))
    condition = text_of(table(inputs.get("condition")), "title") if token in types.MEMBERS else ""
    return f"{made}/{condition}" if condition else made


class _Placeholders(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return ""


def _placeholders(inputs: Values, site: Site) -> _Placeholders:
    project, region, zone = site.place(inputs)
    given = {name: value for name, value in inputs.items() if isinstance(value, str)}
    own: Values = {
        "ownProject": text_of(inputs, "project"),
        "project": project,
        "region": region,
        "zone": zone,
        "email": service_account_email(text_of(inputs, "accountId"), project),
        "locationOrGlobal": text_of(inputs, "location") or "global",
        "number": number(),
        "pool": pool_path(project, text_of(inputs, "workloadIdentityPoolId")),
        "repository": repository_path(text_of(inputs, "repository") or text_of(inputs, "repositoryId"), inputs, site),
        "router": last(text_of(inputs, "router")),
        "secretName": last(text_of(inputs, "secretId")),
        "uuid": str(uuid4()),
    }
    return _Placeholders({**given, **own})


def pool_path(project: str, pool: str) -> str:
    return f"projects/{project}/locations/global/workloadIdentityPools/{last(pool)}"


def repository_path(given: str, inputs: Values, site: Site) -> str:
    """Return the path of a repository given by name or path. The default location is the provider's region."""
    if part(given, "repositories"):
        return relative(given)
    project, region, _ = site.place(inputs)
    return f"projects/{project}/locations/{text_of(inputs, 'location') or region}/repositories/{last(given)}"


# -- types without a row ----------------------------------------------------------------------------------------------

# An id of a bucket and a name (terraform-provider-google e03b7622, google/services/storage/
# resource_storage_bucket_object.go, objectGetID).
_OBJECT = "gcp:storage/bucketObject:BucketObject"
# Types whose id begins with that of another resource: the input that names it, and the collection (terraform-provider-
# google e03b7622, google/services/kms/resource_kms_crypto_key.go).
_INSIDE = {"gcp:kms/cryptoKey:CryptoKey": ("keyRing", "cryptoKeys")}


def plain_identity(res: Resource, site: Site) -> str:
    """Return the id of a type without a row: a path whose collection is the plural of the type's name."""
    if parent := text_of(res.inputs, _INSIDE.get(res.token, ("", ""))[0]):
        return f"{parent}/{_INSIDE[res.token][1]}/{text_of(res.inputs, 'name')}"
    if res.token == _OBJECT:
        return f"{text_of(res.inputs, 'bucket')}-{text_of(res.inputs, 'name')}"
    project, _, _ = site.place(res.inputs)
    kind = res.token.rsplit(":", 1)[-1]
    singular = kind[0].lower() + kind[1:]
    place = text_of(res.inputs, "location") or text_of(res.inputs, "region") or text_of(res.inputs, "zone")
    middle = f"/locations/{place}" if place else ""
    name = text_of(res.inputs, "name") or text_of(res.inputs, f"{singular}Id") or f"{res.name}-{res.suffix()}"
    return f"projects/{project}{middle}/{singular}{'es' if kind.endswith('s') else 's'}/{last(name)}"


def plain(res: Resource, site: Site) -> Values:
    """Return the outputs that the provider adds for a type without a row."""
    name = res.inputs.get("name") or last(res.id)
    made = {"name": name, "project": site.place(res.inputs)[0]}
    if res.token == types.BUCKET:
        # terraform-provider-google e03b7622, google/services/storage/resource_storage_bucket.go: a bucket's addresses
        # contain only its name.
        made |= {"selfLink": f"https://www.googleapis.com/storage/v1/b/{name}", "url": f"gs://{name}"}
    return made


def computed(token: str, inputs: Values, old: Values, site: Site, path: str) -> Values:
    """Return all outputs that the provider adds to the inputs."""
    project, region, _ = site.place(inputs)
    made = {} if token in types.WITHOUT_PROJECT else {"project": project}
    return made | _KINDS[token](Located(inputs, old, site, path, region))


_KINDS: dict[str, Callable[[Located], Values]] = {
    **dict.fromkeys(types.TEMPLATES, template),
    **dict.fromkeys(types.GROUPS, group),
    **services.KINDS,
}
