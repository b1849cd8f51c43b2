"""The sandbox serves any Pulumi Python program: this one uses four providers and knows nothing of gpu_ci."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.sandbox_runner import SandboxRunner

pytestmark = pytest.mark.engine

MADE = {
    "aws:acm/certificate:Certificate": 1,
    "aws:ec2/subnet:Subnet": 2,
    "aws:ec2/vpc:Vpc": 1,
    "aws:iam/role:Role": 1,
    "aws:route53/record:Record": 1,
    "aws:route53/zone:Zone": 1,
    "gcp:compute/network:Network": 1,
    "gcp:compute/subnetwork:Subnetwork": 1,
    "gcp:compute/subnetworkIAMPolicy:SubnetworkIAMPolicy": 1,
    "gcp:sql/databaseInstance:DatabaseInstance": 1,
    "gcp:storage/bucket:Bucket": 1,
    "github:index/actionsSecret:ActionsSecret": 1,
    "github:index/repository:Repository": 1,
    "kubernetes:apps/v1:Deployment": 1,
    "kubernetes:core/v1:Namespace": 1,
}


@pytest.fixture
def unrelated(tmp_path: Path) -> Iterator[SandboxRunner]:
    runner = SandboxRunner(project=ROOT / "tests" / "programs" / "unrelated", folder=tmp_path / "a sandbox")
    yield runner
    runner.close()


def counted(runner: SandboxRunner) -> dict[str, int]:
    counts: dict[str, int] = {}
    for row in runner.world():
        counts[row["type"]] = counts.get(row["type"], 0) + 1
    return counts


@pytest.mark.slow
def test_a_program_over_four_clouds_comes_up_changes_drifts_is_imported_and_goes(unrelated: SandboxRunner) -> None:
    up = unrelated.run("up", "--stack", "dev", "--yes", "--skip-preview")
    assert "building for 3 replicas" in up.output
    assert counted(unrelated) == MADE

    outputs = unrelated.json("stack", "output", "--stack", "dev", "--json")
    assert outputs["subnets"] == ["eu-central-1a", "eu-central-1b"]
    assert outputs["replicas"] == 3
    assert outputs["token"] == "[secret]"
    assert outputs["database"].startswith("/cloudsql/emulated-by-sandbox-connection-name-")
    assert outputs["nameServer"].startswith("emulated-by-sandbox-name-servers-")
    assert "not-a-real-token" not in up.output
    files = [path for path in unrelated.folder.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert [path for path in files if b"not-a-real-token" in path.read_bytes()] == []

    [vpc] = [row for row in unrelated.world() if row["type"] == "aws:ec2/vpc:Vpc"]
    unrelated.run("world", "edit", vpc["id"], "tags.owner=somebody-else")
    refresh = unrelated.run("refresh", "--diff", "--preview-only", "--stack", "dev")
    assert "somebody-else" in refresh.output
    unrelated.run("world", "edit", vpc["id"], "tags.owner=web")

    # An import takes back what a state has forgotten.
    [bucket] = [row for row in unrelated.world() if row["type"] == "gcp:storage/bucket:Bucket"]
    unrelated.run("state", "delete", "--stack", "dev", "--yes", bucket["urn"])
    unrelated.run(
        "import", bucket["type"], bucket["name"], bucket["id"],
        "--stack", "dev", "--yes", "--generate-code=false", "--protect=false",
    )  # fmt: skip
    more = unrelated.stack_file("Pulumi.dev.yaml", {("unrelated:size",): "5"})
    changed = unrelated.run("up", "--stack", "dev", "--yes", "--skip-preview", "--diff", "--config-file", str(more))
    assert "replicas: 3 => 5" in changed.output
    assert "~ 1 updated" in changed.output
    assert "16 unchanged" in changed.output

    unrelated.run("destroy", "--stack", "dev", "--yes")
    assert unrelated.world() == []
    assert unrelated.gone() == {}
