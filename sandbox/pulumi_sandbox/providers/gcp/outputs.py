"""The ids of the Google resources that are emulated, and the outputs that programs read.

All other outputs are placeholders (placeholders.py). gke.py has those of GKE.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from uuid import uuid4

from pulumi_sandbox.providers.gcp import gke, types
from pulumi_sandbox.providers.gcp.compute.operations import now, number
from pulumi_sandbox.providers.gcp.names import (
    absolute,
    everywhere,
    last,
    part,
    relative,
    self_link,
    service_account_email,
)
from pulumi_sandbox.providers.gcp.site import Located, Site, Values, keep_or_make, labels
from pulumi_sandbox.providers.inputs import rows, table, text_of
from pulumi_sandbox.providers.resource import Resource
from pulumi_sandbox.providers.sdk.reader import snake
from pulumi_sandbox.providers.sdk.replace import PLACEHOLDER


def identity(token: str, inputs: Values, site: Site) -> str:
    if types.placed(token) == "region or zone":
        return gke.identity(token, inputs, site)
    made = types.TARGETS[token].id.format_map(_placeholders(inputs, site))
    condition = text_of(table(inputs.get("condition")), "title") if token in types.MEMBERS else ""
    return f"{made}/{condition}" if condition else made


class _Placeholders(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return ""


def _placeholders(inputs: Values, site: Site) -> _Placeholders:
    project, region, _ = site.place(inputs)
    given = {name: value for name, value in inputs.items() if isinstance(value, str)}
    own: Values = {
        "ownProject": text_of(inputs, "project"),
        "project": project,
        "region": region,
        "email": service_account_email(text_of(inputs, "accountId"), project),
        "locationOrGlobal": text_of(inputs, "location") or "global",
        "number": number(),
        "pool": f"projects/{project}/locations/global/workloadIdentityPools/"
        f"{last(text_of(inputs, 'workloadIdentityPoolId'))}",
        "repository": repository_path(text_of(inputs, "repository") or text_of(inputs, "repositoryId"), inputs, site),
        "router": last(text_of(inputs, "router")),
        "secretName": last(text_of(inputs, "secretId")),
        "uuid": str(uuid4()),
    }
    return _Placeholders({**given, **own})


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
# IAM resources have the id of their resource, then the role and the member (terraform-provider-google e03b7622,
# google/tpgiamresource/resource_iam_member.go and resource_iam_binding.go, SetId).
_IAM = {"IamMember": ("role", "member"), "IAMMember": ("role", "member"), "IamBinding": ("role",),
        "IAMBinding": ("role",), "IamPolicy": (), "IAMPolicy": ()}  # fmt: skip


def plain_identity(res: Resource, site: Site, form: str, inputs: Collection[str]) -> str:
    """Return the id of a type without a row: the documented import id, or a path with the plural of the type's name.

    `inputs` has the names of all inputs of the type.
    """
    if res.token == _OBJECT:
        return f"{text_of(res.inputs, 'bucket')}-{text_of(res.inputs, 'name')}"
    project, region, zone = site.place(res.inputs)
    kind = res.token.rsplit(":", 1)[-1]
    singular = kind[0].lower() + kind[1:]
    given = {snake(name): value for name, value in res.inputs.items() if isinstance(value, str) and value}
    name = given.get("name") or given.get(f"{snake(kind)}_id") or f"{res.name}-{res.suffix()}"
    place = {"project": project, "region": region, "zone": zone, "location": region, "name": name}
    declared = {snake(each) for each in inputs}
    for field in set(PLACEHOLDER.findall(form)) - declared:  # Example: `zone` is the input managedZone of a RecordSet.
        if len(similar := [value for each, value in given.items() if each.endswith(f"_{field}")]) == 1:
            place[field] = similar[0]
    if documented := _filled(form, place | given):
        suffix = next((keys for ending, keys in _IAM.items() if kind.endswith(ending)), ())
        return "/".join([documented, *(text_of(res.inputs, key) for key in suffix)])
    location = given.get("location") or given.get("region") or given.get("zone")
    middle = f"/locations/{location}" if location else ""
    plural = re.sub("(?<![aeiou])y$", "ie", singular) + ("es" if kind.endswith("s") else "s")
    return f"projects/{project}{middle}/{plural}/{last(name)}"


def _filled(form: str, values: Mapping[str, str]) -> str:
    """Return an import id. It is empty if a value is missing, or if the id is not a path."""
    found = PLACEHOLDER.findall(form)
    if not found or not all(values.get(name) for name in found):
        return ""
    # Only the first value may be a path, such as that of the key ring of a key.
    path = PLACEHOLDER.sub(lambda field: values[field[1]] if field.start() == 0 else last(values[field[1]]), form)
    return path if path.startswith(("projects/", "folders/", "organizations/")) else ""


def imported(import_id: str, form: str, site: Site) -> tuple[str, dict[str, str]] | None:
    """Return the path of an import id, which may be a bare name, and the values in it.

    A program that takes its place from the provider's configuration does not repeat it, so the values lack this place.
    """
    *_, name = PLACEHOLDER.findall(form) or [""]
    project, region, zone = site.place({})
    place = {"project": project, "region": region, "zone": zone, "location": region}
    path = _filled(form, place | {name: import_id}) if "/" not in import_id else relative(import_id)
    match = re.fullmatch(PLACEHOLDER.sub(r"(?P<\1>[^/]+)", form), path) if form else None
    fields = match.groupdict() if match else {}
    return (path, {key: value for key, value in fields.items() if value != place.get(key)}) if match else None


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
    """Return the outputs that the provider adds to the inputs, and that programs read."""
    project, region, _ = site.place(inputs)
    at = Located(inputs, old, site, path, region)
    row = types.TARGETS[token]
    made: Values = {"project": project} if row.project else {}
    if row.place == "region":
        made["region"] = region
    if row.labels:
        made |= labels(inputs, site)
    if row.self_link:
        made["selfLink"] = self_link(path)
    return made | (_KINDS[token](at) if token in _KINDS else {})


def _template(at: Located) -> Values:
    numeric = keep_or_make(at.old, "numericId", number)
    if "/global/" not in at.path:
        return {"numericId": numeric}
    link = f"{self_link(at.path)}?uniqueId={numeric}"
    return {"numericId": numeric, "selfLinkUnique": link, "region": text_of(at.inputs, "region")}


def _group(at: Located) -> Values:
    zones = [last(zone) for zone in rows(at.inputs.get("distributionPolicyZones")) if isinstance(zone, str)]
    size = at.inputs.get("targetSize")
    return {
        "instanceGroup": self_link(at.path).replace("/instanceGroupManagers/", "/instanceGroups/"),
        "targetSize": size if size is not None else at.old.get("targetSize") or 0,
        "distributionPolicyZones": zones
        or rows(at.old.get("distributionPolicyZones"))
        or at.site.default_zones(at.region),
    }


def _account(at: Located) -> Values:
    email = last(at.path)
    return {"email": email, "member": f"serviceAccount:{email}", "name": at.path}


def _identity_pool(at: Located) -> Values:
    """The API returns names with the project's number."""
    return {"name": f"projects/{at.site.number}/{at.path.split('/', 2)[2]}"}


def _secret_version(at: Located) -> Values:
    return {"enabled": at.inputs.get("enabled") is not False, "name": at.path, "version": last(at.path)}


def _repository(at: Located) -> Values:
    place, kind = text_of(at.inputs, "location") or at.region, text_of(at.inputs, "format").lower()
    address = f"{place}-{kind}.pkg.dev/{part(at.path, 'projects')}/{last(at.path)}"
    return {"location": place, "name": last(at.path), "registryUri": address}


def _ai_endpoint(at: Located) -> Values:
    name, location = text_of(at.inputs, "name"), text_of(at.inputs, "location")
    dns = f"{name}.{location}-{at.site.place(at.inputs)[0]}.prediction.vertexai.goog"
    return {
        "createTime": keep_or_make(at.old, "createTime", now),
        "dedicatedEndpointDns": dns if at.inputs.get("dedicatedEndpointEnabled") is True else "",
        "deployedModels": [],
        "etag": keep_or_make(at.old, "etag", number),
        # Optional and computed: it is what Google returns, and no difference if the program leaves it out.
        "trafficSplit": at.inputs.get("trafficSplit") or keep_or_make(at.old, "trafficSplit", lambda: "{}"),
    }


def _subnetwork(at: Located) -> Values:
    project, network = part(at.path, "projects"), text_of(at.inputs, "network")
    path = absolute(network, project) if "/" in network else everywhere(project, "networks", network)
    return {"network": self_link(path), "privateIpGoogleAccess": bool(at.inputs.get("privateIpGoogleAccess"))}


_KINDS: dict[str, Callable[[Located], Values]] = {
    **dict.fromkeys(types.TEMPLATES, _template),
    types.REGION_GROUP: _group,
    types.SUBNETWORK: _subnetwork,
    types.ACCOUNT: _account,
    types.CUSTOM_ROLE: lambda at: {"name": at.path},
    types.POOL: _identity_pool,
    types.POOL_PROVIDER: _identity_pool,
    types.SECRET: lambda at: {"name": f"projects/{at.site.number}/secrets/{last(at.path)}"},
    types.SECRET_VERSION: _secret_version,
    types.TRIGGER: lambda at: {"location": text_of(at.inputs, "location") or "global", "triggerId": last(at.path)},
    types.REPOSITORY: _repository,
    types.ALERT_POLICY: lambda at: {"name": at.path},
    types.AI_ENDPOINT: _ai_endpoint,
}
