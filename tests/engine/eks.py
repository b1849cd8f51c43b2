"""Helpers for staging with only its EKS pool, with a fake torch that has the expected GPU."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import yaml

from tests.conftest import ROOT, project_of
from tests.gpu_ci.program import stack
from tests.sandbox_runner import SandboxRunner

UP = ("up", "--stack", "staging", "--yes", "--skip-preview")
NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
FAKES = ROOT / "tests" / "smoke" / "fakes"
APP_KEY = "planted-59-app-key"


def torch(**faults: Any) -> str:
    """Return FAKE_TORCH for one A10G with these faults."""
    return json.dumps({"gpus": [{"name": "NVIDIA A10G", "cc": "8.6"}], **faults})


def settings() -> dict[str, Any]:
    """Return sandbox.yaml with fakes of driver and torch for containers, and an App's key that tests can search for."""
    found: dict[str, Any] = yaml.safe_load((ROOT / "sandbox.yaml").read_text())
    environment = {"PYTHONPATH": str(FAKES), "FAKE_TORCH": torch(), "GPU_SMOKE_ROOT": str(FAKES / "root")}
    found["guest"]["environment"] = environment
    answers = found["lookups"]["gcp:secretmanager/getSecretVersionAccess:getSecretVersionAccess"]
    [answer] = [each for each in answers if each["match"]["secret"] == "*/github-app-key"]
    key = f"-----BEGIN PRIVATE KEY-----\n{APP_KEY}\n-----END PRIVATE KEY-----\n"
    answer["result"] = {"secretData": key}
    return found


def project(shared: Path) -> Path:
    """Return this project with only the pool a10g of staging, its cluster, and their resources on GitHub."""
    return project_of(shared, "eks", stack.on_eks(), settings())


def project_on_aws_alone(shared: Path) -> Path:
    """Return the project without anything of Google: the keys of its Apps are in AWS Secrets Manager."""
    values, found = stack.on_eks(), settings()
    del values["gcp:project"]
    github = values["gpu-ci:site"]["github"]
    secrets = "arn:aws:secretsmanager:us-east-1:123456789012:secret:"
    for app in [github.pop("managerApp") and github["app"], github["runnerApp"]]:
        app["privateKey"] = secrets + app["privateKey"].rpartition("/")[2]
    answers = found["lookups"].pop("gcp:secretmanager/getSecretVersionAccess:getSecretVersionAccess")
    found["lookups"]["aws:secretsmanager/getSecretVersion:getSecretVersion"] = [
        {
            "match": {"secretId": each["match"]["secret"].replace("*/", "*:")},
            "secrets": ["secretString"],
            "result": {"secretString": each["result"]["secretData"]},
        }
        for each in answers
    ]
    del found["exists"]["gcp"]
    return project_of(shared, "aws-alone", values, found)


def program(name: str, folder: Path) -> SandboxRunner:
    """Return a copy of a program of tests/programs that imports from this checkout."""
    project = folder / name
    shutil.copytree(ROOT / "tests" / "programs" / name, project)
    for file in project.glob("*.yaml"):
        file.write_text(file.read_text().replace("../../../", f"{ROOT}/"))
    return SandboxRunner(project=project, folder=folder / "a sandbox")


def diagnostics(output: str) -> dict[str, str]:
    """Return the diagnostics in the output of an `up`, by the name of the resource."""
    found: dict[str, str] = {}
    name = ""
    for line in output.partition("\nDiagnostics:\n")[2].partition("\nResources:\n")[0].splitlines():
        if line.startswith("  ") and line[2:3].strip() and line.endswith("):"):
            name = line.rpartition("(")[2].removesuffix("):")
        elif name:
            found[name] = found.get(name, "") + line.strip() + "\n"
    return found
