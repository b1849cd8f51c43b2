"""One endpoint. Tests change its arguments by environment variables, because a changed stack file would stay."""

from __future__ import annotations

import os

import pulumi
import pulumi_gcp as gcp
from gpu_ci.gcp.vertex_endpoint import VertexEndpoint, VertexEndpointArgs

deployer = gcp.serviceaccount.Account("deployer", account_id="gh-deploy-dev", project="acme-ml")
endpoint = VertexEndpoint(
    "scan",
    VertexEndpointArgs(
        project="acme-ml",
        location=os.environ.get("SCAN_LOCATION", "europe-west4"),
        deployer=deployer.email,
        labels={"team": "vision"},
        force_destroy=os.environ.get("SCAN_FORCE_DESTROY") == "true",
        max_error_ratio=float(os.environ.get("SCAN_MAX_ERROR_RATIO", "0.1")),
    ),
)
pulumi.export("endpoint", endpoint.endpoint)
