"""Resources that Google accepts, with values that are not known yet; and a node pool without a location."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.compute.vm_store import INSTANCE
from pulumi_sandbox.providers.values import UNKNOWN

from tests.sandbox.providers.gcp.conftest import TEMPLATE, Google
from tests.sandbox.providers.gcp.gke.pools import CLUSTER, POOL

TRIGGER: dict[str, Any] = {
    "location": "us-central1",
    "serviceAccount": "projects/ci-project/serviceAccounts/builds@ci-project.iam.gserviceaccount.com",
    "build": {"steps": [{"name": "bash"}], "options": {"logging": "CLOUD_LOGGING_ONLY"}, "timeout": "600s"},
    "github": {"owner": "acme", "name": "kernels", "push": {"branch": "^main$"}},
}
PROVIDER: dict[str, Any] = {
    "workloadIdentityPoolId": "github",
    "workloadIdentityPoolProviderId": "actions",
    "attributeMapping": {"google.subject": "assertion.sub"},
    "attributeCondition": 'assertion.repository_owner_id == "9919"',
    "oidc": {"issuerUri": "https://token.actions.githubusercontent.com"},
}
BOUND = {
    "project": "ci-project",
    "role": "roles/logging.logWriter",
    "member": "serviceAccount:runner@other-project.iam.gserviceaccount.com",
}


VM = {name: value for name, value in TEMPLATE.items() if name != "disks"} | {
    "bootDisk": {"initializeParams": {"image": "one"}},
    "zone": "us-central1-a",
}


ACCEPTED: dict[str, tuple[str, dict[str, Any]]] = {
    "a template": (types.REGION_TEMPLATE, TEMPLATE),
    "a template that is not known yet": (
        types.REGION_TEMPLATE,
        {**TEMPLATE, "machineType": UNKNOWN, "scheduling": UNKNOWN, "reservationAffinity": UNKNOWN},
    ),
    "a subnetwork of a region that is newer than the sandbox": (
        types.SUBNETWORK,
        {"network": "default", "ipCidrRange": "10.10.0.0/20", "region": "mars-north1"},
    ),
    "a VM": (INSTANCE, VM),
    "a trigger": (types.TRIGGER, TRIGGER),
    "an identity of GitHub": (types.POOL_PROVIDER, PROVIDER),
    "a federated identity": (
        types.PROJECT_MEMBER,
        {**BOUND, "member": "principalSet://iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/*"},
    ),
    "a node pool": (types.NODE_POOL, POOL),
    "a cluster": (types.CLUSTER, CLUSTER),
}


@pytest.mark.parametrize(("token", "inputs"), ACCEPTED.values(), ids=ACCEPTED)
def test_what_google_takes_is_accepted(google: Google, token: str, inputs: dict[str, Any]) -> None:
    assert google.problems(token, inputs) == []


def test_a_node_pool_that_is_nowhere_is_refused(google: Google) -> None:
    google.config.pop("region")
    [problem] = google.problems(types.NODE_POOL, {"cluster": "ci"})
    assert problem.startswith("location: Unable to determine location")
