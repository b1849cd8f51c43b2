"""Tests a runner manager on Google Cloud with the real engine: created, configured again, and destroyed."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from gpu_ci.gcp.manager_metrics import MEASURED
from pulumi_sandbox.providers.gcp.compute.vm_store import INSTANCE
from pulumi_sandbox.world.store import Record, World

from tests.engine import eks

pytestmark = pytest.mark.engine

PLACE = "projects/example-ci-staging/zones/us-central1-a"
STOPPED = {
    "id": "1",
    "name": "stopped",
    "zone": f"https://www.googleapis.com/compute/v1/{PLACE}",
    "status": "TERMINATED",
    "labels": {"gpu-ci-manager": "dev", "gpu-ci-template": "l4-template-1"},
    "metadata": {"items": []},
}
UP = ("up", "--stack", "dev", "--yes", "--skip-preview")


@pytest.mark.slow
def test_it_starts_once_its_account_may_read_the_key_and_a_new_configuration_is_a_new_revision(tmp_path: Path) -> None:
    with closing(eks.program("manager", tmp_path)) as stack:
        stack.run(*UP)
        outputs = stack.json("stack", "output", "--stack", "dev", "--json")
        assert outputs["workerPool"] == "projects/example-ci-staging/locations/us-central1/workerPools/gpu-manager-dev"
        assert outputs["stateObject"].startswith("gs://manager-state-")
        assert outputs["serviceAccountEmail"] == "gpu-manager-dev@example-ci-staging.iam.gserviceaccount.com"
        kinds = [row["type"] for row in stack.world()]
        assert kinds.count("gcp:monitoring/alertPolicy:AlertPolicy") == 2
        assert kinds.count("gcp:logging/metric:Metric") == 2 + len(MEASURED)
        assert stack.steps(*UP)[1] == []
        [pool] = [row for row in stack.world() if row["type"] == "gcp:cloudrunv2/workerPool:WorkerPool"]
        stack.run("config", "set", "--stack", "dev", "max", "2")
        stack.run(*UP)
        [changed] = [row for row in stack.world() if row["type"] == "gcp:cloudrunv2/workerPool:WorkerPool"]
        assert changed["id"] == pool["id"]
        # Cloud Run starts a new revision for another annotation.
        was, found = (row["inputs"]["template"]["annotations"]["gpu-ci-configuration"] for row in (pool, changed))
        assert was != found
        with closing(World(stack.folder / "world.db")) as world:
            world.insert(Record(INSTANCE, f"{PLACE}/instances/stopped", "stopped", outputs=STOPPED, origin="api"))
        stack.run("destroy", "--stack", "dev", "--yes", "--skip-preview")
        assert stack.world() == []
