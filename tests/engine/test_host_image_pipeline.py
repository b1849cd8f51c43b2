"""A host image with the real engine: deployed, provisioned, checked, promoted to a pool, rolled back and pruned.

The builder machine runs the real provision.sh in a folder, with stubs for the programs that change a machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from gpu_ci.gcp.host_image_pipeline import PROGRAM
from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.compute.vm_store import INSTANCE
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.store import World

from tests.agent.fakes.google import FakeGoogle
from tests.conftest import ROOT
from tests.engine.compute_pool import GPU_CI, UP, environment, staging_with_l4
from tests.gpu_ci.gcp.host_image.builder import RUNNER, Builder
from tests.gpu_ci.gcp.host_image.images import IMAGE

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(900)]

IMAGES = "projects/example-ci-staging/global/images"
TEMPLATE = "l4-template"
# A step has a token of the build's account, which only programs of the same command can have.
AS_THE_BUILD = """
import os, sys
from pulumi_sandbox.providers.machines.metadata import token_of
email, program, *arguments = sys.argv[1:]
os.environ |= {"PYTHONPATH": program, "GOOGLE_OAUTH_ACCESS_TOKEN": token_of(email)}
os.execv(sys.executable, [sys.executable, *arguments])
"""
# A module sitecustomize for `pulumi-sandbox serve`, whose API has no images.
WITH_IMAGES = """
from pulumi_sandbox.providers.gcp.compute.server import ComputeApi
from tests.gpu_ci.gcp.host_image.images import with_images
ComputeApi.__init__ = with_images(ComputeApi.__init__)
"""
# Cloud Build's image of Python has neither package. The emulated operations end sooner than those of Google.
BEFORE_THE_BUILD = """
import sys
sys.modules["pydantic"] = sys.modules["pulumi"] = None
from gpu_ci.gcp.gate import runner, waiting
from gpu_ci.gcp.host_image import build
build._OPERATION_EVERY_SEC = runner._OPERATION_EVERY_SEC = waiting._SHORTEST_SEC = 0.5
"""


class Stack:
    """Staging with one pipeline, whose builder machine has stubs. Its first pool needs no image."""

    def __init__(self, folder: Path) -> None:
        self.runner = staging_with_l4(folder)
        self.file = self.runner.project / "Pulumi.staging.yaml"
        document = yaml.safe_load(self.file.read_text())
        self.pool = document["config"]["gpu-ci:pools"]["l4"]
        document["config"]["gpu-ci:pools"] = {"builds": {"kind": "cloud-build", "region": "us-central1"}}
        self.file.write_text(yaml.safe_dump(document, sort_keys=False))
        (folder / "builder").mkdir()
        self.builder = Builder(folder / "builder", FakeGoogle())
        self.sha256 = self.builder.settings["SHA256"]
        self._add_stubs_to_guests()
        self.program = folder / "workspace"
        for path, text in PROGRAM.files().items():
            file = self.program / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        (self.program / "sitecustomize.py").write_text(BEFORE_THE_BUILD)
        self.images_module = folder / "images"
        self.images_module.mkdir()
        (self.images_module / "sitecustomize.py").write_text(WITH_IMAGES)

    def _add_stubs_to_guests(self) -> None:
        stubs = self.builder.tools
        # The check machines boot with the same PATH. Their image has these programs.
        for name in ("git", "nft", "openssl", "setpriv", "sync"):
            (stubs.folder / name).unlink()
        text = (stubs.folder / "python3").read_text().split("\n", 1)[1]
        real = ROOT / ".venv-torch" / "bin" / "python3"
        stubs.add(
            "python3",
            f'[[ ${{0##*/}} == python || "$*" == *"-m venv"* || "$*" == *version_info* ]] ||\n'
            f'  exec "{real}" "$@"\n{text}',
        )
        path = self.runner.project / "sandbox.yaml"
        settings = yaml.safe_load(path.read_text())
        settings["guest"]["path"].insert(0, str(stubs.folder))
        settings["guest"]["environment"] |= {
            "GPU_CI_ROOT": str(self.builder.root),
            "CALLS": str(self.builder.calls),
            "DOWNLOADS": str(self.builder.downloads),
        }
        path.write_text(yaml.safe_dump(settings))

    def write(self, **pipeline: Any) -> None:
        """Write the pipeline into the stack file, with these fields."""
        document = yaml.safe_load(self.file.read_text())
        document["config"]["gpu-ci:images"] = {
            "gpu-host": {
                "kind": "host",
                "machineType": "g2-standard-8",
                "zones": ["us-central1-a", "us-central1-b"],
                # The emulated check machine has no Docker.
                "runner": {"version": RUNNER, "sha256": {"x64": self.sha256}, "docker": "none"},
                "keep": 2,
                **pipeline,
            }
        }
        self.file.write_text(yaml.safe_dump(document, sort_keys=False))

    def add_pool(self, image: str) -> None:
        """Write the pool with this image, as a user does once."""
        document = yaml.safe_load(self.file.read_text())
        document["config"]["gpu-ci:pools"] = {"l4": {**self.pool, "image": image}}
        self.file.write_text(yaml.safe_dump(document, sort_keys=False))

    @contextmanager
    def world(self) -> Iterator[World]:
        world = World(Workspace(self.runner.folder).world)
        yield world
        world.close()

    def images(self) -> dict[str, str]:
        """The images of the project by name, each with the result of its check, the oldest first."""
        with self.world() as world:
            rows = sorted(world.find(IMAGE), key=lambda row: str(row.outputs["creationTimestamp"]))
        return {row.name: row.outputs["labels"].get("gpu-ci-check", "") for row in rows}

    def template_image(self) -> str:
        [row] = [row for row in self.runner.world() if row["name"] == TEMPLATE]
        return str(row["outputs"]["disks"][0]["sourceImage"])

    def serve(self, *command: str) -> subprocess.Popen[str]:
        """Start a command next to the APIs of the sandbox, to which images are added."""
        variables = environment(self.runner) | {"PYTHONPATH": os.pathsep.join([str(self.images_module), str(ROOT)])}
        return self.runner.start("serve", "--exec", "--", *command, **variables)

    def step(self, name: str, **changes: Any) -> tuple[int, str]:
        """Run a step of the trigger's build as Cloud Build does, with the permissions of the account of the build.

        `changes` are settings of another `up`.
        """
        with self.world() as world:
            [trigger] = [row for row in world.find(types.TRIGGER) if row.name == "gpu-host-trigger"]
        [step] = [each for each in trigger.inputs["build"]["steps"] if each["id"] == name]
        *arguments, settings = step["args"]
        settings = json.dumps({**json.loads(settings), **changes})
        email = str(trigger.inputs["serviceAccount"]).rpartition("/")[2]
        python = (sys.executable, "-c", AS_THE_BUILD, email, str(self.program))
        process = self.serve(*python, *arguments, settings)
        output, _ = process.communicate(timeout=240)
        return process.returncode, output

    def built(self, code: int = 0, **changes: Any) -> str:
        """Build and check an image, and return its name. `code` is the exit code of the check."""
        before = self.images()
        for step, expected in (("build", 0), ("check", code)):
            ended, output = self.step(step, **changes)
            assert ended == expected, output
        [name] = set(self.images()) - set(before)
        return name

    @contextmanager
    def booted_images(self) -> Iterator[set[str]]:
        """Collect the boot images of the machines that run meanwhile."""
        found: set[str] = set()
        end = threading.Event()

        def watch() -> None:
            with self.world() as world:
                while not end.wait(0.1):
                    rows = [row.outputs["disks"] for row in world.find(INSTANCE)]
                    found.update(str(disk["initializeParams"]["sourceImage"]) for disks in rows for disk in disks)

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            yield found
        finally:
            end.set()
            watcher.join()

    def gpu_ci(self, *words: str) -> str:
        process = self.serve(GPU_CI, *words)
        output, _ = process.communicate(timeout=240)
        assert process.returncode == 0, output
        return output

    def candidates(self) -> dict[str, str]:
        output = self.gpu_ci("images", "candidates", "--json")
        [document], _ = json.JSONDecoder().raw_decode(output[output.index("[\n") :])
        [pipeline] = document["pipelines"]
        return {each["name"]: each["check"] for each in pipeline["candidates"]}


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    found = Stack(tmp_path)
    yield found
    found.runner.close()


def test_a_host_image_from_its_build_to_a_rollback(stack: Stack) -> None:
    stack.write()
    stack.runner.run("stack", "init", "staging")
    stack.runner.run(*UP)
    first = stack.built()
    assert stack.candidates() == {first: "passed"}

    # The user replaces the pool by one with the first image. The next image has another torch.
    stack.write(torch="2.14.1")
    stack.add_pool(f"{IMAGES}/{first}")
    with stack.booted_images() as booted:
        up = stack.runner.run(*UP)
    assert "pass: l4:" in up.output
    assert booted == {f"{IMAGES}/{first}"}
    assert stack.template_image() == f"{IMAGES}/{first}"

    # A check on a machine that must use CUDA fails, because this computer has no GPU.
    stack.runner.run("world", "break", "guest", "--on", "*-check-*", "--set", "GPU_SMOKE_DEVICE=cuda")
    failed = stack.built(code=1)
    assert stack.candidates() == {failed: "failed", first: "passed"}
    before = stack.file.read_text()
    stack.gpu_ci("images", "promote")
    assert stack.file.read_text() == before

    # Of two images, keep: 1 would delete the older one. Only the template keeps it: no setting of this build names it.
    newest = stack.built(made_from={"torch": "2.14.2"}, in_use=[], keep=1)
    assert stack.images() == {first: "passed", newest: "passed"}
    stack.gpu_ci("images", "promote", "gpu-host")
    assert stack.file.read_text() == before.replace(first, newest)
    stack.runner.run(*UP)
    assert stack.template_image() == f"{IMAGES}/{newest}"

    # `git revert`.
    stack.file.write_text(before)
    stack.runner.run(*UP)
    assert stack.template_image() == f"{IMAGES}/{first}"
