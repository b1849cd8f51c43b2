"""The errors for missing resources that a resource refers to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pulumi_sandbox.providers.gcp import errors, gke, types
from pulumi_sandbox.providers.gcp.names import absolute, everywhere, in_region, last, part
from pulumi_sandbox.providers.gcp.outputs import repository_path
from pulumi_sandbox.providers.gcp.site import Site
from pulumi_sandbox.providers.gcp.world import ExistingResources, hint
from pulumi_sandbox.providers.inputs import rows, table, text_of

Inputs = dict[str, Any]
POOL_MEMBER = re.compile(
    r"principal(Set)?://iam\.googleapis\.com/projects/(?P<number>[0-9]+)/"
    r"(?P<pool>locations/global/workloadIdentityPools/[^/]+)"
)
VERSION = "gcp:secretmanager/getSecretVersion:getSecretVersion"
ACCESS = "gcp:secretmanager/getSecretVersionAccess:getSecretVersionAccess"
# The provider's text before Google's message: hashicorp/terraform-provider-google@683d638d,
# google/services/secretmanager/data_source_secret_manager_secret_version.go and …_version_access.go.
SECRET_LOOKUPS = {
    VERSION: "error retrieving available secret manager secret versions",
    ACCESS: "Error retrieving available secret manager secret version access",
}
SECRETS = re.compile(r"projects/[^/]+/secrets/.+")


def missing_references(existing: ExistingResources, token: str, inputs: Inputs, site: Site) -> Iterator[str]:
    """Yield an error for each wrong reference, as the provider prints it with the API's message."""
    project, region, _ = site.place(inputs)
    failed = f"Error creating {token.rsplit(':', 1)[-1]}: "
    row = types.TARGETS.get(token)
    for name, kind in row.references.items() if row else ():
        for parent, reference in _found(inputs, name.split(".")):
            owner = str(parent.get("subnetworkProject") or project)
            path = _path(kind, reference, inputs, site, owner)
            if kind == "subnetwork" and part(path, "regions") not in ("", region):
                yield f"{failed}{errors.invalid(name, path, f'The subnetwork is not in region {region}.')}"
            elif path and not _exists(existing, path):
                text = f"The referenced {kind} resource cannot be found."
                error = errors.invalid(name, path, text) if "network" in kind else errors.not_found(path)
                yield f"{failed}{error}{hint(path)}"
    if token == types.RUN_POOL:
        yield from (f"{failed}{each}" for each in _secrets_of_pool(existing, table(inputs.get("template")), site))
    if token == types.ALERT_POLICY:
        yield from (f"{failed}{each}" for each in _metrics(inputs))


def _found(value: Any, steps: list[str]) -> Iterator[tuple[Inputs, str]]:
    """Yield the texts at a path, which may be in lists, each with the object that has it."""
    for each in value if isinstance(value, list | tuple) else [value]:
        inner = table(each).get(steps[0])
        if steps[1:]:
            yield from _found(inner, steps[1:])
        elif isinstance(inner, str) and inner:
            yield table(each), inner


def _path(kind: str, reference: str, inputs: Inputs, site: Site, owner_of_network: str = "") -> str:
    """Return the path of a reference by name or path; empty if the sandbox cannot know the resource."""
    project, region, _ = site.place(inputs)
    owner = part(reference, "projects") or project
    match kind:
        case "network":
            return absolute(reference, project) if "/" in reference else everywhere(project, "networks", reference)
        case "subnetwork":
            by_name = in_region(owner_of_network, region, "subnetworks", reference)
            return absolute(reference, owner_of_network) if "/" in reference else by_name
        case "account":
            return f"projects/{owner}/serviceAccounts/{last(reference)}"
        case "secret":
            owner = project if owner == site.number else owner
            return f"projects/{owner}/secrets/{part(reference, 'secrets') or last(reference)}"
        case "repository":
            return repository_path(reference, inputs, site)
        case "cluster":
            return gke.cluster_path(inputs, site)
        case "member":
            return _member(reference, project, site)
    return reference if owner == project else ""


def _member(member: str, project: str, site: Site) -> str:
    """Return the path of a member of the same project: a service account, or the pool of a federated identity."""
    kind, _, email = member.partition(":")
    if kind == "serviceAccount" and email.partition("@")[2] == f"{project}.iam.gserviceaccount.com":
        return f"projects/{project}/serviceAccounts/{email}"
    pool = POOL_MEMBER.match(member)
    return f"projects/{project}/{pool['pool']}" if pool and pool["number"] == site.number else ""


def _exists(existing: ExistingResources, path: str) -> bool:
    if part(path, "serviceAccounts"):
        return existing.account_exists(part(path, "projects"), last(path))
    return existing.exists(path)


def secret_refusal(existing: ExistingResources, token: str, arguments: Inputs, site: Site) -> str:
    """Return the error of a lookup; empty if the secret exists or sandbox.yaml lists no secrets."""
    secret = text_of(arguments, "secret")
    if not secret or not any(map(SECRETS.fullmatch, existing.patterns)):
        return ""
    path = _path("secret", secret, arguments, site)
    if existing.exists(path):
        return ""
    # Unlike Compute Engine's, this message does not end with a reason.
    error = f"googleapi: Error 404: Secret [projects/{site.number}/secrets/{last(path)}] not found or has no versions."
    return f"{SECRET_LOOKUPS[token]}: {error}{hint(path)}"


def _secrets_of_pool(existing: ExistingResources, template: Inputs, site: Site) -> Iterator[str]:
    """Yield the error of a revision of Cloud Run whose account has no grant on a secret in the emulated state."""
    email = text_of(template, "serviceAccount")
    for _, secret in _found(template, ["volumes", "secret", "secret"]) if email else ():
        if not any(
            member.inputs.get("member") == f"serviceAccount:{email}"
            and last(text_of(member.inputs, "secretId")) == last(secret)
            for member in existing.world.find(types.SECRET_MEMBER)
        ):
            # The message is from the deployment log of a service (github.com/getsentry/eng-pipes/pull/893).
            yield (
                f"Permission denied on secret: projects/{site.number}/secrets/{last(secret)}/versions/latest for "
                f"Revision service account {email}. The service account used must be granted the 'Secret Manager "
                "Secret Accessor' role (roles/secretmanager.secretAccessor) at the secret, project or higher level."
            )


def _metrics(inputs: Inputs) -> Iterator[str]:
    """Yield the errors for log-based metrics, which Cloud Monitoring does not know yet.

    A metric is unknown until its first log entries, and for minutes after its creation. The message is from
    hashicorp/terraform-provider-google#11102. A PromQL condition may turn the check off (discovery document
    monitoring v3, disableMetricValidation).
    """
    for condition in map(table, rows(inputs.get("conditions"))):
        promql = table(condition.get("conditionPrometheusQueryLanguage"))
        text = text_of(promql, "query") if promql.get("disableMetricValidation") is not True else ""
        for kind in ("conditionThreshold", "conditionAbsent"):
            text += text_of(table(condition.get(kind)), "filter")
        if match := re.search(r"logging(?:\.googleapis\.com/user/|_googleapis_com:user_)[^\"{\s]+", text):
            yield f'googleapi: Error 404: Cannot find metric(s) that match type = "{match[0]}".'
