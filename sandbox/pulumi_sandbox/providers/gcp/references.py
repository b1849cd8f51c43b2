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

    def missing(self, token: str, inputs: Inputs, site: Site) -> Iterator[str]:
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

    def _link(self, given: Any, project: str, collection: str, where: str, region: str = "") -> Iterator[str]:
        """Check a reference to a network, or to a subnetwork of `region`, by name or path."""
        if not isinstance(given, str) or not given:
            return
        short = in_region(project, region, collection, given) if region else everywhere(project, collection, given)
        path = absolute(given, project) if "/" in given else short
        kind = collection.removesuffix("s")
        if region and part(path, "regions") != region:
            yield str(errors.invalid(where, path, f"The {kind} is not in region {region}."))
        elif not self.exists(path):
            yield f"{errors.invalid(where, path, f'The referenced {kind} resource cannot be found.')}{hint(path)}"

    def _nat(self, inputs: Inputs, site: Site) -> Iterator[str]:
        project, region, _ = site.place(inputs)
        given = text_of(inputs, "router")
        path = absolute(given, project) if "/" in given else in_region(project, region, "routers", given)
        if given and not self.exists(path):
            yield f"{errors.not_found(path)}{hint(path)}"
        for index, row in enumerate(rows(inputs.get("subnetworks"))):
            where = f"resource.nats[0].subnetworks[{index}].name"
            yield from self._link(table(row).get("name"), project, "subnetworks", where, region)

    def _attachment(self, inputs: Inputs, site: Site) -> Iterator[str]:
        project, region, _ = site.place(inputs)
        for index, given in enumerate(rows(inputs.get("subnetworks"))):
            yield from self._link(given, project, "subnetworks", f"resource.subnetworks[{index}]", region)

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
            elif self.world.get(types.NETWORK, path) and not self._peers(path, site):
                # docs.cloud.google.com/build/docs/private-pools/set-up-private-pool-environment. The message is the
                # sandbox's. Networks that are listed or looked up are not checked, because their peerings are unknown.
                yield f"the network '{path}' has no private connection to servicenetworking.googleapis.com"
        attached = text_of(table(inputs.get("privateServiceConnect")), "networkAttachment")
        if attached:
            where, place = "private_pool_v1_config.private_service_connect.network_attachment", inputs.get("location")
            yield from self._link(attached, site.project, "networkAttachments", where, str(place))

    def _peers(self, network: str, site: Site) -> bool:
        for one in self.world.find(types.CONNECTION):
            given = text_of(one.inputs, "network")
            path = absolute(given, site.project) if "/" in given else everywhere(site.project, "networks", given)
            if with_id(path, site) == network:
                return True
        return False

    def _trigger(self, inputs: Inputs, site: Site) -> Iterator[str]:
        project = site.place(inputs)[0]
        account = text_of(inputs, "serviceAccount")
        if account and not self.account_exists(part(account, "projects") or project, last(account)):
            home = part(account, "projects") or project
            yield f"{errors.no_account(project, last(account))}{account_hint(home, last(account))}"
        pool = text_of(table(table(inputs.get("build")).get("options")), "workerPool")
        place = text_of(inputs, "location") or "global"
        if part(pool, "locations") not in ("", place):
            # docs.cloud.google.com/build/docs/locations: a trigger must be in the region of its pool.
            yield str(errors.invalid("build.options.pool.name", pool, f"The trigger is in {place}."))
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
            if found := re.search(r"logging(?:\.googleapis\.com/user/|_googleapis_com:user_)[^\"{\s]+", text):
                yield (
                    f'googleapi: Error 404: Cannot find metric(s) that match type = "{found[0]}". If a metric was '
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
            given = text_of(table(table(row).get("secret")), "secret")
            if not given:
                continue
            path = given if "/" in given else f"projects/{project}/secrets/{given}"
            if not self.exists(path):
                yield f"Secret {path} was not found{hint(path)}"
            elif email and not self._reads(email, last(given)):
                # The message is from the deployment log of a service (github.com/getsentry/eng-pipes/pull/893).
                yield (
                    f"Permission denied on secret: projects/{site.number}/secrets/{last(given)}/versions/latest for "
                    f"Revision service account {email}. The service account used must be granted the 'Secret Manager "
                    "Secret Accessor' role (roles/secretmanager.secretAccessor) at the secret, project or higher level."
                )

    def _reads(self, email: str, secret: str) -> bool:
        """Return True if the emulated state has a grant of the secret to the account."""
        return any(
            one.inputs.get("member") == f"serviceAccount:{email}" and last(text_of(one.inputs, "secretId")) == secret
            for one in self.world.find(types.SECRET_MEMBER)
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
