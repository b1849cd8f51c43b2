"""Refuse requests to the Compute Engine API with query parameters that no known client sends together.

The discovery document names the parameters of a method, but not which of them exclude each other. A row is added with
the client that sends it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from pulumi_sandbox.providers.gcp import discovery, errors
from pulumi_sandbox.providers.gcp.restrictions import COMPUTE

# Verb, path below the project, and parameters that a client sends together. A request has some of those of one row.
_KNOWN: tuple[tuple[str, str, frozenset[str]], ...] = tuple(
    (verb, path, frozenset(parameters.split()))
    for verb, path, parameters in (
        # SchedMD/slurm-gcp (aggregated lists of instances) and yugabyte/yugabyte-db (operations of one machine).
        ("GET", r".+/(instances|operations|images|instanceTemplates|routers)", "filter maxResults pageToken"),
        # dstackai/dstack, for images. The sandbox sorts only operations, as the description of orderBy advises.
        ("GET", r"zones/[^/]+/operations", "orderBy maxResults pageToken"),
        # apache/airflow, ComputeEngineInsertInstanceFromTemplateOperator.
        ("POST", r"zones/[^/]+/instances", "sourceInstanceTemplate requestId"),
        # The description of requestId in the discovery document: it makes any change safe to repeat.
        ("POST", r"global/images|.+/instances/[^/]+/(start|stop|setMetadata)", "requestId"),
        ("DELETE", r".+", "requestId"),
        # gcloud compute instances stop --discard-local-ssd.
        ("POST", r".+/instances/[^/]+/stop", "discardLocalSsd"),
        # gcloud compute instances get-guest-attributes, and get-serial-port-output.
        ("GET", r".+/getGuestAttributes", "queryPath"),
        ("GET", r".+/getGuestAttributes", "variableKey"),
        ("GET", r".+/serialPort", "port start"),
    )
)


def refusals(verb: str, path: str, query: Mapping[str, Sequence[str]]) -> Iterator[errors.GoogleError]:
    """Yield the error of a request whose parameters no known client sends together."""
    # Each method of Google's APIs has parameters such as `alt` and `fields`.
    parameters = query.keys() - discovery.document(COMPUTE)["parameters"].keys()
    if {"filter", "orderBy"} <= parameters:
        # The answer to a list of addresses (github.com/doitintl/kubeip/issues/132).
        text = "Specifying both a list filter and sort order is not currently supported."
        yield errors.invalid("orderBy", query["orderBy"][-1], text)
    elif parameters and not any(parameters <= known for known in _known(verb, path)):
        names = ", ".join(sorted(parameters))
        text = f"The sandbox knows no client that sends {names} together in {verb} {path}"
        yield errors.GoogleError(400, "sandbox", f"{text}; known_requests.py lists the clients.")


def _known(verb: str, path: str) -> Collection[frozenset[str]]:
    return [known for one, pattern, known in _KNOWN if one == verb and re.fullmatch(pattern, path)]
