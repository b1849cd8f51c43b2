"""VertexEndpoint: its resources, what it leaves to rollouts, and its permissions."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_ci.errors import ArgsError
from gpu_ci.gcp.vertex_endpoint import VertexEndpoint, VertexEndpointArgs, endpoint_id

from tests.gpu_ci.harness import Deployment, deploy
from tests.gpu_ci.support import COMPUTED


def made(**changes: Any) -> Deployment:
    args = {**VertexEndpoint.EXAMPLE, "project": "acme-ml", **changes}
    return deploy(lambda: VertexEndpoint("scan", VertexEndpointArgs(**args)), computed=COMPUTED)


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
