"""A project in the sandbox with the templates of a pipeline, whose machines run scripts of the test."""

from __future__ import annotations

import base64
import itertools
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gpu_ci.gcp.gate import runner, waiting
from gpu_ci.gcp.host_image import __main__ as program
from gpu_ci.gcp.host_image import build as image_build
from pulumi_sandbox.providers.gcp.compute import instances_api, vm_store
from pulumi_sandbox.providers.gcp.compute.server import ComputeApi
from pulumi_sandbox.providers.gcp.compute.vm_store import INSTANCE
from pulumi_sandbox.providers.machines.metadata import TOKEN
from pulumi_sandbox.world.store import Record

from tests.gpu_ci.gcp.host_image import images
from tests.gpu_ci.gcp.host_image.images import IMAGE
from tests.sandbox.providers.gcp.api import Api, script
from tests.sandbox.providers.gcp.conftest import PROJECT, TEMPLATE, Google

ZONES = ["us-central1-a", "us-central1-b"]
BASE = "projects/images/global/images/one"


def says(verdict: str, reason: str = "", summary: str = "fine") -> str:
    """A startup script that reports this verdict as provision.sh and the agent do, and waits for its deletion."""
    text = json.dumps({"verdict": verdict, "exit_code": 0, "summary": summary, "reason": reason})
    return f"echo SMOKE-RESULT {base64.b64encode(text.encode()).decode()}; exec sleep 300"


class Project:
    """A project with the two templates of a pipeline, and the settings of its build."""

    def __init__(self, google: Google, monkeypatch: pytest.MonkeyPatch) -> None:
        google.cloud.configure(google.config)
        self.google, self.api = google, Api(google)
        self.environ = {
            "GOOGLE_COMPUTE_CUSTOM_ENDPOINT": f"http://127.0.0.1:{google.workspace.compute_port}/compute/v1/",
            "GOOGLE_OAUTH_ACCESS_TOKEN": TOKEN,
            "NO_PROXY": "*",
        }
        for name, value in self.environ.items():
            monkeypatch.setenv(name, value)
        self.settings: dict[str, Any] = {}
        self.count = itertools.count()
        self.templates(says("pass", "provisioned"), says("pass", "rehearsed"))

    def templates(self, builder: str, check: str) -> None:
        """Create templates whose machines run these scripts."""
        made = {
            role: self.google.make(
                "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate",
                f"{role}-{next(self.count)}",
                {**TEMPLATE, "disks": [{**TEMPLATE["disks"][0], "boot": True, "autoDelete": True}], **script(text)},
            ).outputs["selfLink"]
            for role, text in (("builder", builder), ("check", check))
        }
        self.settings |= {
            "project": PROJECT,
            "pipeline": "gpu-host-prod",
            "made_from": {"base": BASE, "torch": "2.15.0"},
            "keep": 2,
            "refresh_days": 7,
            **{role: {"template": link, "zones": ZONES, "deadline_sec": 60} for role, link in made.items()},
        }

    def run(self, step: str) -> int:
        handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            return program.main([step, "--settings", json.dumps(self.settings)])
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)  # the program sets its own, which later tests must not have

    def images(self) -> dict[str, str]:
        """The images of the project by name, each with the result of its check."""
        rows = self.google.world.find(IMAGE)
        return {row.name: row.outputs["labels"].get("gpu-ci-check", "") for row in rows}

    def machines(self) -> list[str]:
        return [row.id for row in self.google.world.find(INSTANCE)]

    def add_image(
        self, name: str, created: str, result: str = "passed", pipeline: str = "gpu-host-prod", status: str = "READY"
    ) -> str:
        """Create an image as an earlier build did."""
        path = f"projects/{PROJECT}/global/images/{name}"
        labels = {"gpu-ci-image": pipeline, **({"gpu-ci-check": result} if result else {})}
        outputs = {"name": name, "labels": labels, "status": status, "creationTimestamp": created}
        outputs["selfLink"] = f"https://www.googleapis.com/compute/v1/{path}"
        self.google.world.insert(Record(IMAGE, path, name, "", outputs, outputs, "api"))
        return path


def project_in_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(vm_store, "STOPPING_SEC", 0.05)
    monkeypatch.setattr(instances_api, "ACCOUNT_SEC", 0.0)
    monkeypatch.setattr(images, "CREATION_SEC", 0.0)
    monkeypatch.setattr(ComputeApi, "__init__", images.with_images(ComputeApi.__init__))
    monkeypatch.setattr(waiting, "_SHORTEST_SEC", 0.05)
    monkeypatch.setattr(runner, "_OPERATION_EVERY_SEC", 0.05)
    monkeypatch.setattr(image_build, "_OPERATION_EVERY_SEC", 0.05)
    google = Google(tmp_path)
    yield Project(google, monkeypatch)
    google.cloud.stop()
    google.world.close()
