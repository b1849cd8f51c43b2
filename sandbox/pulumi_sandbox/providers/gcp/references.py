"""Check that the references of a resource exist and fit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pulumi_sandbox.providers.gcp import errors, types
from pulumi_sandbox.providers.gcp.names import absolute, everywhere, in_region, last, part
from pulumi_sandbox.providers.gcp.outputs.table import repository_path
from pulumi_sandbox.providers.gcp.site import Site
from pulumi_sandbox.providers.inputs import rows, table, text_of
from pulumi_sandbox.world.store import World

Inputs = dict[str, Any]
POOL_MEMBER = re.compile(
    r"principal(Set)?://iam\.googleapis\.com/projects/(?P<number>[0-9]+)/"
    r"(?P<pool>locations/global/workloadIdentityPools/[^/]+)"
)


@dataclass(frozen=True)
class References:
    """Checks references against the emulated cloud state and the resources that exist outside of it."""

    world: World
    exists: Callable[[str], bool]
    account_exists: Callable[[str, str], bool]

    def missing_references(self, token: str, inputs: Inputs, site: Site) -> Iterator[str]:
        """Yield an error for each wrong reference, as the provider prints it with the API's message."""
        checks: dict[str, Callable[[Inputs, Site], Iterator[str]]] = {
            **dict.fromkeys((types.SUBNETWORK, types.FIREWALL, types.ROUTER), self._network),
            types.TEMPLATE: self._template,
            types.REGION_TEMPLATE: self._template,
            types.TRIGGER: self._trigger,
            types.RUN_POOL: self._run_pool,
            types.ALERT_POLICY: self._alert_policy,
            types.PROJECT_MEMBER: self._member,
            types.ACCOUNT_MEMBER: self._account_member,
            types.SECRET_MEMBER: self._secret_member,
            types.REPOSITORY_MEMBER: self._repository_member,
        }
        if check := checks.get(token):
            for problem in check(inputs, site):
                yield f"Error creating {token.rsplit(':', 1)[-1]}: {problem}"

    # -- networks and machines ----------------------------------------------------------------------------------------

    def _network(self, inputs: Inputs, site: Site) -> Iterator[str]:
        yield from self._link(inputs.get("network"), site.place(inputs)[0], "networks", "resource.network")

    def _link(self, reference: Any, project: str, collection: str, field: str, region: str = "") -> Iterator[str]:
        """Check a reference to a network, or to a subnetwork of `region`, by name or path."""
        if not isinstance(reference, str) or not reference:
            return
        path_of_name = (
            in_region(project, region, collection, reference) if region else everywhere(project, collection, reference)
        )
        path = absolute(reference, project) if "/" in reference else path_of_name
        kind = collection.removesuffix("s")
        if region and part(path, "regions") not in ("", region):
            yield str(errors.invalid(field, path, f"The {kind} is not in region {region}."))
        elif not self.exists(path):
            yield f"{errors.invalid(field, path, f'The referenced {kind} resource cannot be found.')}{hint(path)}"

    def _template(self, inputs: Inputs, site: Site) -> Iterator[str]:
        project, region, _ = site.place(inputs)
        for index, row in enumerate(rows(inputs.get("networkInterfaces"))):
            field = f"resource.properties.networkInterfaces[{index}]"
            yield from self._link(table(row).get("network"), project, "networks", f"{field}.network")
            owner = str(table(row).get("subnetworkProject") or project)
            yield from self._link(table(row).get("subnetwork"), owner, "subnetworks", f"{field}.subnetwork", region)
        yield from self._account(text_of(table(inputs.get("serviceAccount")), "email"), project)

    # -- identities and secrets ---------------------------------------------------------------------------------------

    def _account(self, email: str, project: str) -> Iterator[str]:
        if email and not self.account_exists(project, email):
            yield f"{errors.no_account(project, email)}{account_hint(project, email)}"

    def _member(self, inputs: Inputs, site: Site) -> Iterator[str]:
        project, member = site.place(inputs)[0], text_of(inputs, "member")
        if member.startswith("serviceAccount:") and "svc.id.goog[" not in member:
            email = member.partition(":")[2]
            owner_project = email.partition("@")[2].removesuffix(".iam.gserviceaccount.com")
            # The sandbox cannot know the accounts of other projects or of Google.
            if owner_project == project and not self.account_exists(project, email):
                error = errors.GoogleError(400, "badRequest", f"Service account {email} does not exist.")
                yield f"{error}{account_hint(project, email)}"
        pool = POOL_MEMBER.match(member)
        if pool and pool["number"] == site.number and not self.exists(f"projects/{project}/{pool['pool']}"):
            # github.com/terraform-google-modules/terraform-google-kubernetes-engine/issues/916
            text = f"Identity Pool does not exist ({pool['pool']}). Please check that you specified a valid resource"
            yield str(errors.GoogleError(400, "badRequest", text))

    def _account_member(self, inputs: Inputs, site: Site) -> Iterator[str]:
        target = text_of(inputs, "serviceAccountId")
        yield from self._account(last(target), part(target, "projects") or site.place(inputs)[0])
        yield from self._member(inputs, site)

    def _secret_member(self, inputs: Inputs, site: Site) -> Iterator[str]:
        yield from self._secret(inputs.get("secretId"), site.place(inputs)[0], site)
        yield from self._member(inputs, site)

    def _repository_member(self, inputs: Inputs, site: Site) -> Iterator[str]:
        path = repository_path(text_of(inputs, "repository"), inputs, site)
        if last(path) and not self.exists(path):
            yield f"{errors.not_found(path)}{hint(path)}"
        yield from self._member(inputs, site)

    def _secret(self, reference: Any, project: str, site: Site) -> Iterator[str]:
        if not isinstance(reference, str) or not reference:
            return
        owner_project, name, exists = self.secret(reference, project, site)
        if not exists:
            error = errors.GoogleError(404, "notFound", f"Secret [projects/{site.number}/secrets/{name}] not found.")
            yield f"{error}{hint(f'projects/{owner_project}/secrets/{name}')}"

    def secret(self, reference: str, project: str, site: Site) -> tuple[str, str, bool]:
        """Return the project and the name of a secret, and True if the secret exists."""
        owner_project = part(reference, "projects") or project
        name = part(reference, "secrets") or last(reference)
        projects = {owner_project, project} if owner_project == site.number else {owner_project}
        return owner_project, name, any(self.exists(f"projects/{one}/secrets/{name}") for one in projects)

    # -- builds, Cloud Run and monitoring -----------------------------------------------------------------------------

    def _trigger(self, inputs: Inputs, site: Site) -> Iterator[str]:
        project = site.place(inputs)[0]
        account = text_of(inputs, "serviceAccount")
        yield from self._account(last(account), part(account, "projects") or project) if account else ()
        pool = text_of(table(table(inputs.get("build")).get("options")), "workerPool")
        if part(pool, "projects") == project and not self.exists(pool):
            # Google reports this error only when a build starts. No build of this trigger can ever start.
            yield f"{errors.not_found(pool)}{hint(pool)}"

    def _alert_policy(self, inputs: Inputs, site: Site) -> Iterator[str]:
        """Yield the errors for log-based metrics, which Cloud Monitoring does not know yet.

        A metric is unknown until its first log entries, and for minutes after its creation. The message is from
        hashicorp/terraform-provider-google#11102. A PromQL condition may turn the check off (discovery document
        monitoring v3, disableMetricValidation).
        """
        for row in rows(inputs.get("conditions")):
            condition = table(row)
            promql = table(condition.get("conditionPrometheusQueryLanguage"))
            text = text_of(promql, "query") if promql.get("disableMetricValidation") is not True else ""
            for kind in ("conditionThreshold", "conditionAbsent"):
                text += text_of(table(condition.get(kind)), "filter")
            if match := re.search(r"logging(?:\.googleapis\.com/user/|_googleapis_com:user_)[^\"{\s]+", text):
                yield f'googleapi: Error 404: Cannot find metric(s) that match type = "{match[0]}".'

    def _run_pool(self, inputs: Inputs, site: Site) -> Iterator[str]:
        """Check that the account and the secrets of a revision exist, and that the account can read the secrets."""
        project = site.place(inputs)[0]
        template = table(inputs.get("template"))
        email = text_of(template, "serviceAccount")
        yield from self._account(email, project)
        for row in rows(template.get("volumes")):
            secret = text_of(table(table(row).get("secret")), "secret")
            if not secret:
                continue
            path = secret if "/" in secret else f"projects/{project}/secrets/{secret}"
            if not self.exists(path):
                yield f"Secret {path} was not found{hint(path)}"
            elif email and not self._may_read(email, last(secret)):
                # The message is from the deployment log of a service (github.com/getsentry/eng-pipes/pull/893).
                yield (
                    f"Permission denied on secret: projects/{site.number}/secrets/{last(secret)}/versions/latest for "
                    f"Revision service account {email}. The service account used must be granted the 'Secret Manager "
                    "Secret Accessor' role (roles/secretmanager.secretAccessor) at the secret, project or higher level."
                )

    def _may_read(self, email: str, secret: str) -> bool:
        """Return True if the emulated state has a grant of the secret to the account."""
        return any(
            member.inputs.get("member") == f"serviceAccount:{email}"
            and last(text_of(member.inputs, "secretId")) == secret
            for member in self.world.find(types.SECRET_MEMBER)
        )


def hint(path: str) -> str:
    """Return a hint on how to list a resource that exists in the cloud in sandbox.yaml."""
    return f"\n  hint: if the resource exists in the cloud, list it in sandbox.yaml: exists: {{gcp: [{path}]}}"


def account_hint(project: str, email: str) -> str:
    """Return a hint on how to list a service account that exists in the cloud in sandbox.yaml."""
    return hint(f"projects/{project}/serviceAccounts/{email}")
