"""The real API server, with the definitions of Kueue's chart, accepts and refuses what the sandbox does."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import pytest
from gpu_ci.kubernetes.gpu_namespace import GpuNamespace, GpuNamespaceArgs
from gpu_ci.kubernetes.kueue import Kueue, KueueArgs

from tests.control_plane.api import Api, numbered, until
from tests.control_plane.conftest import Twin, typed
from tests.control_plane.objects import as_sent, declared
from tests.sandbox.providers.kubernetes.conftest import changed
from tests.sandbox.providers.kubernetes.test_kueue import CLUSTER_QUEUE, cluster_queue

QUEUES = {"vision": {"gpus": 4, "cohort": "gpu", "lendingLimit": 1}, "speech": {"gpus": 0, "cohort": "gpu"}}
RESOURCE = "spec/resourceGroups/0/flavors/0/resources/0"


@pytest.fixture(scope="module")
def defined(api: Api) -> Api:
    """Return the API server, which knows the definitions."""
    text = files("pulumi_sandbox").joinpath("fixtures", "kueue_definitions.json").read_text()
    for each in json.loads(text)["definitions"]:
        api.apply(each)
        version, kind = f"{each['spec']['group']}/v1beta2", each["spec"]["names"]["kind"]
        until(lambda of=version, it=kind: api.knows({"apiVersion": of, "kind": it}), f"{kind} is served")
    return api


@pytest.mark.parametrize(
    ("program", "kinds"),
    [
        (
            lambda: Kueue("kueue", KueueArgs(queues=QUEUES)),
            ["ClusterQueue", "ClusterQueue", "Namespace", "ResourceFlavor"],
        ),
        (
            lambda: GpuNamespace("queued", GpuNamespaceArgs(gpus=4, queues=["vision", "speech"])),
            [
                "LocalQueue",
                "LocalQueue",
                "Namespace",
                *["NetworkPolicy"] * 3,
                "ResourceQuota",
                "ServiceAccount",
            ],
        ),
    ],
    ids=["kueue", "namespace"],
)
def test_the_api_server_takes_every_object_of_kueue(
    defined: Api, cluster: Twin, program: Callable[[], Any], kinds: list[str]
) -> None:
    found = declared(program)
    assert sorted(given["kind"] for _, given in found) == kinds
    for token, given in sorted(found, key=lambda one: one[1]["kind"] != "Namespace"):
        kept = defined.apply(as_sent(given))
        assert (kept["kind"], kept["metadata"]["name"]) == (given["kind"], given["metadata"]["name"])
        assert cluster.sandbox_problems(token, given) == []


# Changes of a ClusterQueue.
CHANGES: dict[str, tuple[str, Any]] = {
    "right": ("metadata/name", "vision"),
    "unknown field": ("spec/cohort", "gpu"),
    "unknown field of a quota": (f"{RESOURCE}/quota", "2"),
    "no quota": (f"{RESOURCE}/nominalQuota", ...),
    "no quantity": (f"{RESOURCE}/nominalQuota", "two"),
    "no flavor": ("spec/resourceGroups/0/flavors/0/name", ...),
    "wrong name": ("spec/resourceGroups/0/flavors/0/name", "A B"),
    "wrong policy": ("spec/preemption", {"withinClusterQueue": "Sometimes"}),
    "limit without a cohort": (f"{RESOURCE}/borrowingLimit", "1"),
    "negative quota": (f"{RESOURCE}/nominalQuota", "-1"),
}
FLAVOR = "spec.resourceGroups[0].flavors"
# The problems of the API server where the sandbox has another one. Without Kueue, no webhook checks a negative quota.
OTHERS = {
    "no flavor": [
        (
            f"{FLAVOR}: element 0: associative list with keys has an element that omits all key fields "
            '["name"] (and doesn\'t have default values for any key fields)'
        )
    ],
    "negative quota": [],
}
# The API server adds this line to problems of a schema.
NOT_CHECKED = "<nil>: Invalid value: null: some validation rules were not checked"


@pytest.mark.parametrize("case", CHANGES)
def test_the_sandbox_reports_the_api_servers_problems_of_a_queue(defined: Api, cluster: Twin, case: str) -> None:
    given = changed(cluster_queue("vision", 2), *CHANGES[case])
    lines = defined.problems_of(typed(CLUSTER_QUEUE, given))
    real = [numbered(line, given) for line in lines if not line.startswith(NOT_CHECKED)]
    emulated = cluster.sandbox_problems(CLUSTER_QUEUE, given)
    assert real == OTHERS.get(case, emulated)
    assert len(emulated) == (case != "right")
