"""Compute ids and outputs of the Google resources that are emulated in depth, as the provider reads them back."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from typing import Any

from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.compute.operations import now, number
from pulumi_sandbox.providers.gcp.names import everywhere, in_region, in_zone, last, service_account_email
from pulumi_sandbox.providers.gcp.outputs import build, container, federation, network, observe, run
from pulumi_sandbox.providers.gcp.outputs.machine import Located, group, keep_or_make, labels, template
from pulumi_sandbox.providers.gcp.site import Site, Values
from pulumi_sandbox.providers.inputs import table, text_of
from pulumi_sandbox.providers.resource import Resource


def iam_etag(value: Any) -> str:
    digest = hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).digest()
    return f"Bw{base64.b64encode(digest[:6]).decode()}="


def identity(token: str, inputs: Values, site: Site) -> str:
    """Return the id that Pulumi shows and `pulumi import` accepts."""
    project, region, zone = site.place(inputs)
    name = text_of(inputs, "name")
    if token in network.KINDS:
        return network.identity(token, inputs, site)
    if token in build.KINDS:
        return build.identity(token, inputs, site)
    if token in run.KINDS:
        return run.identity(token, inputs, site)
    if token in observe.KINDS:
        return observe.identity(token, inputs, site)
    if token in federation.KINDS:
        return federation.identity(token, inputs, site)
    if token in types.IN_REGION_OR_ZONE:
        return container.identity(token, inputs, site)
    match token:
        case types.TEMPLATE:
            return everywhere(project, "instanceTemplates", name)
        case types.REGION_TEMPLATE:
            return in_region(project, region, "instanceTemplates", name)
        case types.GROUP:
            return in_zone(project, zone, "instanceGroupManagers", name)
        case types.REGION_GROUP:
            return in_region(project, region, "instanceGroupManagers", name)
        case types.ACCOUNT:
            return f"projects/{project}/serviceAccounts/{service_account_email(text_of(inputs, 'accountId'), project)}"
        case types.SECRET:
            return f"projects/{project}/secrets/{text_of(inputs, 'secretId')}"
        case types.ACCOUNT_MEMBER:
            return _member(text_of(inputs, "serviceAccountId"), inputs)
        case types.PROJECT_MEMBER:
            return _member(text_of(inputs, "project"), inputs)
        case types.SECRET_MEMBER:
            return _member(f"projects/{project}/secrets/{last(text_of(inputs, 'secretId'))}", inputs)
        case types.REPOSITORY_MEMBER:
            return _member(build.repository_path(text_of(inputs, "repository"), inputs, site), inputs)
    raise KeyError(token)


# An id of a bucket and a name (terraform-provider-google e03b7622, google/services/storage/
# resource_storage_bucket_object.go, objectGetID).
_OBJECT = "gcp:storage/bucketObject:BucketObject"
# Types whose id begins with that of another resource: the input that names it, and the collection (terraform-provider-
# google e03b7622, google/services/kms/resource_kms_crypto_key.go).
_INSIDE = {"gcp:kms/cryptoKey:CryptoKey": ("keyRing", "cryptoKeys")}


def plain_identity(res: Resource, site: Site) -> str:
    """Return the id of a type without a table: a path whose collection is the plural of the type's name."""
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


# terraform-provider-google e03b7622, google/services/storage/resource_storage_bucket.go: a bucket's addresses contain
# only its name.
_ADDRESSES = {
    "gcp:storage/bucket:Bucket": {
        "selfLink": "https://www.googleapis.com/storage/v1/b/{}",
        "url": "gs://{}",
    }
}


def plain(res: Resource, site: Site) -> Values:
    """Return the outputs that the provider adds for a type without a table."""
    name = res.inputs.get("name") or last(res.id)
    addresses = {key: form.format(name) for key, form in _ADDRESSES.get(res.token, {}).items()}
    return {"name": name, "project": site.place(res.inputs)[0], **addresses}


def _member(target: str, inputs: Values) -> str:
    condition = text_of(table(inputs.get("condition")), "title")
    return "/".join([target, text_of(inputs, "role"), text_of(inputs, "member"), *([condition] if condition else [])])


def computed(token: str, inputs: Values, old: Values, site: Site, path: str) -> Values:
    """Return all outputs that the provider adds to the inputs."""
    project, region, _ = site.place(inputs)
    made = {} if token in types.WITHOUT_PROJECT else {"project": project}
    return made | _KINDS[token](Located(inputs, old, site, path, region))


def _account(at: Located) -> Values:
    email = last(at.path)
    return {
        "disabled": bool(at.inputs.get("disabled")),
        "email": email,
        "member": f"serviceAccount:{email}",
        "name": at.path,
        "uniqueId": keep_or_make(at.old, "uniqueId", lambda: "1" + number() + "0"),
    }


def _bound(at: Located) -> Values:
    return {"etag": iam_etag([at.path, at.inputs])}


def _secret(at: Located) -> Values:
    return labels(at.inputs, at.site) | {
        "createTime": keep_or_make(at.old, "createTime", now),
        "deletionProtection": bool(at.inputs.get("deletionProtection")),
        "effectiveAnnotations": table(at.inputs.get("annotations")),
        "expireTime": text_of(at.inputs, "expireTime"),
        "name": f"projects/{at.site.number}/secrets/{last(at.path)}",
    }


def _secret_version(at: Located) -> Values:
    return {
        "createTime": keep_or_make(at.old, "createTime", now),
        "destroyTime": "",
        "enabled": at.inputs.get("enabled") is not False,
        "name": at.path,
        "version": last(at.path),
    }


_KINDS: dict[str, Callable[[Located], Values]] = (
    {
        types.TEMPLATE: template,
        types.REGION_TEMPLATE: template,
        types.GROUP: group,
        types.REGION_GROUP: group,
        types.ACCOUNT: _account,
        types.ACCOUNT_MEMBER: _bound,
        types.PROJECT_MEMBER: _bound,
        types.SECRET_MEMBER: _bound,
        types.SECRET: _secret,
        types.SECRET_VERSION: _secret_version,
        types.REPOSITORY_MEMBER: _bound,
    }
    | network.KINDS
    | build.KINDS
    | run.KINDS
    | observe.KINDS
    | federation.KINDS
)
