"""Import of resources that sandbox.yaml lists under `exists`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sandbox.conftest import Project

SETTINGS = """
exists:
  github: [acme/kernels, acme/kernels/environments/prod]
  gcp: ["projects/*/regions/*/subnetworks/ci", "projects/*/secrets/*"]
  aws: [cluster/ci, subnet-0a1b2c3d]
"""
PROGRAM = """
import pulumi, pulumi_aws as aws, pulumi_gcp as gcp, pulumi_github as github
at = lambda id: pulumi.ResourceOptions(import_=id)
github.Repository("s", name="kernels", description="mine", opts=at("kernels"))
github.RepositoryEnvironment("e", repository="kernels", environment="prod", opts=at("kernels:prod"))
gcp.compute.Subnetwork("n", name="ci", region="us-central1", network="default", ip_cidr_range="10.1.0.0/20",
    opts=at("projects/acme/regions/us-central1/subnetworks/ci"))
gcp.secretmanager.Secret("k", secret_id="app-key", replication={"auto": {}}, opts=at("projects/acme/secrets/app-key"))
aws.ec2.Subnet("z", vpc_id="vpc-0123456789abcdef0", cidr_block="10.2.0.0/24", opts=at("subnet-0a1b2c3d"))
"""


@pytest.mark.slow
@pytest.mark.engine
def test_what_sandbox_yaml_lists_is_imported_and_then_updated_as_the_program_says(project: Project) -> None:
    runner = project(PROGRAM)
    (runner.project / "sandbox.yaml").write_text(SETTINGS)
    config = {"gcp:project": "acme", "gcp:region": "us-central1", "aws:region": "us-east-1", "github:owner": "acme"}
    lines = "".join(f"  {name}: {value}\n" for name, value in config.items())
    (runner.project / "Pulumi.dev.yaml").write_text(f"config:\n{lines}")
    _, done = runner.steps("up", "--stack", "dev", "--yes", "--skip-preview")
    assert {name for step, name in done if step == "import"} == {"s", "e", "n", "k", "z"}
    assert {step for step, _ in done} <= {"import", "update", "create"}
    rows: dict[str, Any] = {row["name"]: row["id"] for row in runner.world()}
    assert rows["s"] == "kernels"
    _, done = runner.steps("up", "--stack", "dev", "--yes", "--skip-preview")
    assert done == []
    runner.run("refresh", "--stack", "dev", "--yes", "--skip-preview")
    runner.run("destroy", "--stack", "dev", "--yes", "--skip-preview")


@pytest.mark.slow
@pytest.mark.engine
def test_what_sandbox_yaml_does_not_list_is_not_imported(project: Project) -> None:
    runner = project(PROGRAM.replace('at("kernels")', 'at("kernel")'))
    (runner.project / "sandbox.yaml").write_text(SETTINGS)
    (runner.project / "Pulumi.dev.yaml").write_text("config:\n  github:owner: acme\n  gcp:project: acme\n")
    assert runner.run("preview", "--stack", "dev", ok=False).has("resource 'kernel' does not exist")
