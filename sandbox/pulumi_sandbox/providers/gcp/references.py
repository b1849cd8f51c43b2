"""Check that the references of network, Cloud Build, Cloud Run and other resources exist and fit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pulumi_sandbox.providers.gcp import errors, types
from pulumi_sandbox.providers.gcp.names import absolute, everywhere, in_region, last, part
from pulumi_sandbox.providers.gcp.outputs import build
from pulumi_sandbox.providers.gcp.outputs.federation import pool_path
from pulumi_sandbox.providers.gcp.site import Site
from pulumi_sandbox.providers.inputs import rows, table, text_of
from pulumi_sandbox.world.store import World

Inputs = dict[str, Any]


@dataclass(frozen=True)
class References:
    """Checks references against the emulated cloud state and the resources that exist outside of it."""

    world: World
    exists: Callable[[str], bool]
    account_exists: Callable[[str, str], bool]

    def missing_references(self, token: str, inputs: Inputs, site: Site) -> Iterator[str]:
        """Yield an error for each wrong reference, as the provider prints it with the API's message."""
        checks: dict[str, Callable[[Inputs, Site], Iterator[object]]] = {
            types.ROUTER: self._network,
            types.GLOBAL_ADDRESS: self._network,
            types.ROUTER_NAT: self._nat,
            types.NETWORK_ATTACHMENT: self._attachment,
            types.CONNECTION: self._connection,
            types.WORKER_POOL: self._workers,
            types.TRIGGER: self._trigger,
            types.REPOSITORY_MEMBER: self._repository,
            types.RUN_POOL: self._run_pool,
            types.ALERT_POLICY: self._alert_policy,
            types.POOL_PROVIDER: self._pool,
        }
        if check := checks.get(token):
            for problem in check(inputs, site):
                yield f"Error creating {token.rsplit(':', 1)[-1]}: {problem}"

    def _pool(self, inputs: Inputs, site: Site) -> Iterator[str]:
        path = pool_path(site.place(inputs)[0], text_of(inputs, "workloadIdentityPoolId"))
        if not self.exists(path):
            yield f"{errors.GoogleError(404, 'notFound', 'Requested entity was not found.')}{hint(path)}"

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
        if region and part(path, "regions") != region:
            yield str(errors.invalid(field, path, f"The {kind} is not in region {region}."))
        elif not self.exists(path):
            yield f"{errors.invalid(field, path, f'The referenced {kind} resource cannot be found.')}{hint(path)}"

    def _nat(self, inputs: Inputs, site: Site) -> Iterator[str]:
        project, region, _ = site.place(inputs)
        router = text_of(inputs, "router")
        path = absolute(router, project) if "/" in router else in_region(project, region, "routers", router)
        if router and not self.exists(path):
            yield f"{errors.not_found(path)}{hint(path)}"
        for index, row in enumerate(rows(inputs.get("subnetworks"))):
            field = f"resource.nats[0].subnetworks[{index}].name"
            yield from self._link(table(row).get("name"), project, "subnetworks", field, region)

    def _attachment(self, inputs: Inputs, site: Site) -> Iterator[str]:
        project, region, _ = site.place(inputs)
        for index, subnetwork in enumerate(rows(inputs.get("subnetworks"))):
            yield from self._link(subnetwork, project, "subnetworks", f"resource.subnetworks[{index}]", region)

    def _connection(self, inputs: Inputs, site: Site) -> Iterator[str]:
        network = text_of(inputs, "network")
        project = part(network, "projects") or site.project
        yield from self._link(network, project, "networks", "network")
        for name in rows(inputs.get("reservedPeeringRanges")):
            path = everywhere(project, "addresses", str(name))
            if isinstance(name, str) and not self.exists(path):
                yield f"{errors.not_found(path)}{hint(path)}"

    def _workers(self, inputs: Inputs, site: Site) -> Iterator[str]:
        peered = text_of(table(inputs.get("networkConfig")), "peeredNetwork")
        if peered:
            path = with_id(peered, site)
            if not self.exists(path):
                yield f"{errors.not_found(path)}{hint(path)}"
            elif self.world.get(types.NETWORK, path) and not self._is_peered(path, site):
                # docs.cloud.google.com/build/docs/private-pools/set-up-private-pool-environment. The message is the
                # sandbox's. Networks that are listed or looked up are not checked, because their peerings are unknown.
                yield f"the network '{path}' has no private connection to servicenetworking.googleapis.com"
        attachment = text_of(table(inputs.get("privateServiceConnect")), "networkAttachment")
        if attachment:
            field, location = (
                "private_pool_v1_config.private_service_connect.network_attachment",
                inputs.get("location"),
            )
            yield from self._link(attachment, site.project, "networkAttachments", field, str(location))

    def _is_peered(self, network: str, site: Site) -> bool:
        for connection in self.world.find(types.CONNECTION):
            peered = text_of(connection.inputs, "network")
            path = absolute(peered, site.project) if "/" in peered else everywhere(site.project, "networks", peered)
            if with_id(path, site) == network:
                return True
        return False

    def _trigger(self, inputs: Inputs, site: Site) -> Iterator[str]:
        project = site.place(inputs)[0]
        account = text_of(inputs, "serviceAccount")
        if account and not self.account_exists(part(account, "projects") or project, last(account)):
            account_project = part(account, "projects") or project
            yield f"{errors.no_account(project, last(account))}{account_hint(account_project, last(account))}"
        pool = text_of(table(table(inputs.get("build")).get("options")), "workerPool")
        location = text_of(inputs, "location") or "global"
        if part(pool, "locations") not in ("", location):
            # docs.cloud.google.com/build/docs/locations: a trigger must be in the region of its pool.
            yield str(errors.invalid("build.options.pool.name", pool, f"The trigger is in {location}."))
        elif part(pool, "projects") == project and not self.exists(pool):
            # Google reports this error only when a build starts. No build of this trigger can ever start.
            yield f"{errors.not_found(pool)}{hint(pool)}"

    def _repository(self, inputs: Inputs, site: Site) -> Iterator[str]:
        path = build.repository_path(text_of(inputs, "repository"), inputs, site)
        if last(path) and not self.exists(path):
            yield f"{errors.not_found(path)}{hint(path)}"

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
                yield (
                    f'googleapi: Error 404: Cannot find metric(s) that match type = "{match[0]}". If a metric was '
                    "created recently, it could take up to 10 minutes to become available. Please try again soon."
                )

    def _run_pool(self, inputs: Inputs, site: Site) -> Iterator[str]:
        """Check that the account and the secrets of a revision exist, and that the account can read the secrets."""
        project = site.place(inputs)[0]
        template = table(inputs.get("template"))
        email = text_of(template, "serviceAccount")
        if email and not self.account_exists(project, email):
            yield f"{errors.no_account(project, email)}{account_hint(project, email)}"
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


def with_id(path: str, site: Site) -> str:
    """Return the path with the project's id instead of the project's number, which the API uses."""
    return path.replace(f"projects/{site.number}/", f"projects/{site.project}/", 1)


def hint(path: str) -> str:
    """Return a hint on how to list a resource that exists in the cloud in sandbox.yaml."""
    return f"\n  hint: if the resource exists in the cloud, list it in sandbox.yaml: exists: {{gcp: [{path}]}}"


def account_hint(project: str, email: str) -> str:
    """Return a hint on how to list a service account that exists in the cloud in sandbox.yaml."""
    return hint(f"projects/{project}/serviceAccounts/{email}")
