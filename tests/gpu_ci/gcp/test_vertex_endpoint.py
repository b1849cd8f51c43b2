"""VertexEndpoint: its resources, what it leaves to rollouts, and its permissions."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_ci.errors import ArgsError
from gpu_ci.gcp.vertex_endpoint import VertexEndpoint, VertexEndpointArgs, endpoint_id

from tests.gpu_ci.harness import Deployment, deploy
from tests.gpu_ci.support import COMPUTED

DEPLOYER = "serviceAccount:gh-deploy-prod@acme-ml.iam.gserviceaccount.com"


def made(**changes: Any) -> Deployment:
    args = {**VertexEndpoint.EXAMPLE, "project": "acme-ml", **changes}
    return deploy(lambda: VertexEndpoint("scan", VertexEndpointArgs(**args)), computed=COMPUTED)


def test_resources() -> None:
    assert sorted(row.name for row in made().rows) == [
        "scan", "scan-account", "scan-account-user", "scan-deployer", "scan-endpoint", "scan-errors", "scan-models",
        "scan-role",
    ]  # fmt: skip


def test_endpoint_has_no_split() -> None:
    inputs = made(labels={"team": "vision"}).one(":AiEndpoint").inputs
    assert "trafficSplit" not in inputs
    assert inputs["labels"] == {"gpu-ci-pool": "scan", "team": "vision"}
    assert inputs["location"] == inputs["region"] == "europe-west4"
    assert inputs["dedicatedEndpointEnabled"] is True


def test_endpoint_in_a_network_has_no_dns_name_of_its_own() -> None:
    inputs = made(network="projects/123/global/networks/ml").one(":AiEndpoint").inputs
    assert inputs["dedicatedEndpointEnabled"] is False
    assert inputs["network"] == "projects/123/global/networks/ml"


def test_deployer_gets_these_permissions_and_no_others() -> None:
    found = made()
    assert found.one(":IAMCustomRole").inputs["permissions"] == [
        "aiplatform.endpoints.deploy", "aiplatform.endpoints.get", "aiplatform.endpoints.undeploy",
        "aiplatform.endpoints.update", "monitoring.timeSeries.list",
    ]  # fmt: skip
    assert found.one("projects/iAMMember:IAMMember").inputs["member"] == DEPLOYER
    account = found.one("serviceaccount/iAMMember:IAMMember").inputs
    assert (account["role"], account["member"]) == ("roles/iam.serviceAccountUser", DEPLOYER)


def test_models_are_those_of_the_endpoint() -> None:
    inputs = made(forceDestroy=True).one(":DeployedModels").inputs
    assert inputs == {
        "endpoint": "projects/acme-ml/locations/europe-west4/endpoints/1234567890",
        "forceDestroy": True,
    }


def test_alert_names_the_endpoint_and_the_limit() -> None:
    [condition] = made(maxErrorRatio=0.2).one(":AlertPolicy").inputs["conditions"]
    query = condition["conditionPrometheusQueryLanguage"]["query"]
    assert query.count('endpoint_id="1234567890"') == 2
    assert query.endswith("> 0.2")


def test_id_fits_googles_limit_and_differs_by_stack() -> None:
    ids = {endpoint_id(name, stack) for name in ("a", "scan") for stack in ("dev", "prod")}
    assert len(ids) == 4
    assert all(len(each) == 10 and each.isdigit() and each[0] != "0" for each in ids)


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"location": "europe"}, "location"),
        ({"deployer": "me@example.com"}, "deployer"),
        ({"network": "projects/acme/global/networks/ml"}, "network"),
        ({"maxErrorRatio": 1}, "maxErrorRatio"),
        ({"notificationChannels": ["mail"]}, "notificationChannels"),
        ({"trafficSplit": "{}"}, "trafficSplit"),
    ],
)
def test_bad_argument(changes: Any, path: str) -> None:
    with pytest.raises(ArgsError, match=path):
        made(**changes)
