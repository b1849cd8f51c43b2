"""Asks the real API server about the objects of Kubernetes' own validation tests.

The answers are in tools/kubernetes_cases/cases.json.gz. CASES=write writes them again.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kubernetes.dynamic.exceptions import DynamicApiError

from tests.control_plane.api import Api, until
from tests.control_plane.processes import ControlPlane
from tools.kubernetes_cases import store
from tools.kubernetes_cases.recording import Case, record

# The ranges of the addresses of Services in the tests, with one address of each.
ADDRESSES = {"1.2.3.0/24": "1.2.3.9", "10.0.0.0/24": "10.0.0.9", "2001::/112": "2001::9"}


@pytest.fixture
def own_api(tmp_path: Path) -> Iterator[Api]:
    """Return an API server for this test alone: its objects have any names and namespaces."""
    # This controller would set the status of claims without a volume.
    plane = ControlPlane(tmp_path, "--controllers=*,-persistentvolume-binder-controller")
    try:
        found = Api(plane.start())
        found.ensure_account("default")
        yield found
    finally:
        plane.stop()


@pytest.mark.timeout(1800)
def test_an_api_server_still_gives_the_stored_answers(own_api: Api, tmp_path: Path) -> None:
    go = shutil.which("go")
    assert go
    (tmp_path / "module").mkdir()
    cases = record(go, tmp_path / "module")
    prepare(own_api, cases)
    answered = [asked(own_api, each) for each in cases]
    if os.environ.get("CASES") == "write":
        store.write(answered)
    assert [verdict(each) for each in answered] == [verdict(each) for each in store.read()]


def verdict(case: Case) -> tuple[Any, ...]:
    """Return what must not change. Messages contain generated identities."""
    return case.test, case.operation, case.new, case.old, case.server_accepts, case.excluded


def prepare(api: Api, cases: list[Case]) -> None:
    """Create what the objects refer to: namespaces, service accounts and addresses."""
    for at, one in enumerate(ADDRESSES):
        api.apply(
            {
                "apiVersion": "networking.k8s.io/v1",
                "kind": "ServiceCIDR",
                "metadata": {"name": f"tests-{at}"},
                "spec": {"cidrs": [one]},
            }
        )
    for one in ADDRESSES.values():
        until(partial(has_address, api, one), f"{one} can be allocated")
    namespaces = {one["metadata"].get("namespace") for each in cases for one in (each.new, each.old) if one}
    for namespace in sorted(namespaces - {None}):
        # An invalid name is a part of some tests.
        with contextlib.suppress(DynamicApiError):
            api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
            api.ensure_account(namespace)
    for each in cases:
        account = each.new.get("spec", {}).get("serviceAccountName") if each.kind == "Pod" else None
        if account:
            with contextlib.suppress(DynamicApiError):
                metadata = {"name": account, "namespace": each.new["metadata"]["namespace"]}
                api.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})


def has_address(api: Api, address: str) -> bool:
    metadata = {"name": "addresses", "namespace": "default"}
    spec = {
        "clusterIP": address,
        "ipFamilies": ["IPv6" if ":" in address else "IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "ports": [{"port": 80}],
    }
    return not problems_of(api, {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})


def problems_of(api: Api, given: dict[str, Any]) -> tuple[str, ...]:
    """Return the problems of an object that the API server reports. The object is not stored afterwards.

    In a dry run, the API server takes the address of a Service from a random one of its ranges. So a Service whose
    address is not in this range is created and deleted (k8s.io/kubernetes,
    pkg/registry/core/service/ipallocator/cidrallocator.go, MetaAllocator.DryRun).
    """
    found = tuple(api.problems_of(given))
    if any("failed to allocate IP" in one for one in found):
        found = tuple(api.problems_of(given, dry_run=False))
        if not found:
            delete(api, given)
    return found


def delete(api: Api, given: dict[str, Any]) -> None:
    """Delete an object and wait until the API server does not find it."""
    version, kind, metadata = given["apiVersion"], given["kind"], given["metadata"]
    name, namespace = metadata["name"], metadata.get("namespace")
    api.delete(version, kind, name, namespace)
    until(lambda: not api.get(version, kind, namespace, name), f"{name} is deleted")


def asked(api: Api, case: Case) -> Case:
    """Return the case with the answer of the API server."""
    if case.old is None:
        return replace(case, answer=problems_of(api, case.new))
    try:
        api.apply(case.old)
    except DynamicApiError as error:
        return replace(case, old_refused=str(json.loads(error.body)["message"]))
    metadata = case.old["metadata"]
    identity = case.old["apiVersion"], case.kind
    if case.status:
        api.patch_status(*identity, metadata["name"], case.status, metadata.get("namespace"))
    answer = problems_of(api, case.new)
    delete(api, case.old)
    return replace(case, answer=answer)
