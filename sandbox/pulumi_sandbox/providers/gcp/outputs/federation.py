"""Compute ids and outputs of workload identity pools and their providers, as the provider reads them back."""

from __future__ import annotations

from collections.abc import Callable

from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.names import last
from pulumi_sandbox.providers.gcp.outputs.machine import Located
from pulumi_sandbox.providers.gcp.site import Site, Values
from pulumi_sandbox.providers.inputs import text_of


def pool_path(project: str, pool: str) -> str:
    return f"projects/{project}/locations/global/workloadIdentityPools/{last(pool)}"


def identity(token: str, inputs: Values, site: Site) -> str:
    pool = pool_path(site.place(inputs)[0], text_of(inputs, "workloadIdentityPoolId"))
    if token == types.POOL:
        return pool
    return f"{pool}/providers/{text_of(inputs, 'workloadIdentityPoolProviderId')}"


def _named(at: Located) -> Values:
    """The API returns names with the project's number."""
    return {"name": f"projects/{at.site.number}/{at.path.split('/', 2)[2]}", "state": "ACTIVE"}


KINDS: dict[str, Callable[[Located], Values]] = {types.POOL: _named, types.POOL_PROVIDER: _named}
