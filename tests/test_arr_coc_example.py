"""examples/arr-coc: its workflow and settings, the registration of a model, and real training and serving."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

import httplib2
import pytest
import yaml
from googleapiclient.discovery import build
from googleapiclient.errors import HttpError
from gpu_ci.cli.commands import gpu_ci
from gpu_ci.cli.deploy import rollout_inputs
from gpu_ci.cli.mistakes import Mistakes
from gpu_ci.cli.train import inputs
from gpu_ci.delivery.training.settings import worst_case

from tests.conftest import ROOT
from tests.gpu_ci.cli.json_server import served
from tests.gpu_ci.delivery import google_requests
from tests.test_docs import unknown_words

EXAMPLE = ROOT / "examples" / "arr-coc"
WORKFLOW = EXAMPLE / ".github" / "workflows" / "deploy.yml"
JOBS: dict[str, Any] = yaml.safe_load(WORKFLOW.read_text())["jobs"]
BIN = Path(sys.executable).parent
IMAGE = f"europe-west4-docker.pkg.dev/acme-ml/models/arr-coc@sha256:{'1' * 64}"
PARENT = "projects/acme-ml/locations/europe-west4"
MODEL = f"{PARENT}/models/arr-coc"
ACTIONLINT = "github.com/rhysd/actionlint/cmd/actionlint"
LABELS = ["stripes", "checks", "noise", "blobs"]


def module(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(EXAMPLE)
    return import_module(name)


# Workflow and settings


def test_the_commands_read_the_settings_without_a_problem() -> None:
    mistakes = Mistakes()
    folder = "MODEL_DIR=gs://acme-ml-models/arr-coc/1-1"
    training = inputs.read_settings(str(EXAMPLE / "train.yaml"), "europe-west4", IMAGE, [folder], mistakes)
    rollout = rollout_inputs.read_settings(str(EXAMPLE / "rollout.yaml"), mistakes)
    mistakes.refuse()
    assert training
    assert worst_case(training, "europe-west4").usd
    assert (rollout.strategy, rollout.after(0), rollout.after(50)) == ("canary", 10, 100)
    assert rollout.machine


@pytest.mark.slow
def test_the_workflow_and_the_dockerfile_pass_the_linters(tmp_path: Path) -> None:
    linter, project = tmp_path / "actionlint", tmp_path / "project"
    subprocess.run(["go", "build", "-o", linter, ACTIONLINT], cwd=ROOT / "tools" / "actionlint", check=True)
    subprocess.run(["cp", "-r", EXAMPLE, project], check=True)
    subprocess.run(["git", "init", "--quiet"], cwd=project, check=True)
    # actionlint checks the scripts of steps with shellcheck, if it is on PATH.
    environment = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"}
    for command in (
        [linter],
        ["check-jsonschema", "--quiet", "--builtin-schema", "vendor.github-workflows", WORKFLOW],
        ["zizmor", "--offline", "--no-progress", "--quiet", "."],
        ["hadolint", "--config", ROOT / ".hadolint.yaml", "Dockerfile"],
    ):
        done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_jobs_run_in_order_and_each_command_exists() -> None:
    assert {name: job.get("needs") for name, job in JOBS.items()} == {
        "test": None, "image": "test", "train": "image", "rollout": ["image", "train"],
    }  # fmt: skip
    [base] = re.findall(r"^ARG BASE=.+@sha256:\w{64}$", (EXAMPLE / "Dockerfile").read_text(), re.MULTILINE)
    assert base in (ROOT / "images/runtime/Dockerfile").read_text()
    assert JOBS["test"]["if"] == "github.ref == 'refs/heads/main'"
    # Only the jobs with credentials of Google Cloud have an environment, and the GPU runner has none.
    environments = {name: job.get("environment") for name, job in JOBS.items() if "id-token" in job["permissions"]}
    assert environments == {"image": "training", "train": "training", "rollout": "production"}
    steps = [step for job in JOBS.values() for step in job["steps"]]
    assert [each["uses"] for each in steps if not re.search(r"@[0-9a-f]{40}$", each.get("uses", "@" + 40 * "0"))] == []
    lines = [line.strip() for each in steps for line in each.get("run", "").splitlines()]
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("gpu-ci ")]
    assert [each[:2] for each in commands] == [
        ["train", "submit"], ["train", "wait"], ["train", "cancel"], ["deploy", "start"],
    ]  # fmt: skip
    assert [unknown_words(gpu_ci, each) for each in commands] == [[]] * 4
    [cancel] = [each for each in steps if "train cancel" in each.get("run", "")]
    assert cancel["if"] == "${{ cancelled() }}"


# Registration


class Registry:
    """The models of one location. Uploads end after a second look at their operation."""

    def __init__(self) -> None:
        self.aliases: dict[str, str] = {}
        self.uploads: list[Any] = []
        self.failure = ""
        self.looks = 0

    def request(self, uri: str, method: str = "GET", body: Any = None, **_: Any) -> tuple[httplib2.Response, bytes]:
        path, value = unquote(urlsplit(uri).path), json.loads(body) if body else None
        google_requests.check(method, path, {}, value)
        status, answer = self.answer(path.removeprefix("/v1/"), value)
        response = httplib2.Response({"status": str(status), "content-type": "application/json"})
        return response, json.dumps(answer).encode()

    def answer(self, name: str, body: Any) -> tuple[int, Any]:
        operation = f"{PARENT}/operations/1"
        if body:
            assert ("parentModel" in body) == bool(self.aliases)
            self.uploads.append(body)
            return 200, {"name": operation}
        if name == operation:
            self.looks += 1
            if self.looks % 2:
                return 200, {"name": operation}
            if self.failure:
                return 200, {"name": operation, "done": True, "error": {"code": 7, "message": self.failure}}
            version = str(len(self.uploads))
            self.aliases |= {f"{MODEL}@{self.uploads[-1]['model']['versionAliases'][0]}": version, MODEL: version}
            return 200, {"name": operation, "done": True, "response": {"model": MODEL, "modelVersionId": version}}
        if name in self.aliases:
            return 200, {"name": MODEL, "versionId": self.aliases[name]}
        return 404, {"error": {"code": 404, "status": "NOT_FOUND"}}


def test_each_run_registers_one_version(monkeypatch: pytest.MonkeyPatch) -> None:
    program, registry = module("register", monkeypatch), Registry()
    monkeypatch.setattr(program, "POLL_SEC", 0)
    api = build("aiplatform", "v1", http=registry).projects().locations()

    def register(run: str) -> Any:
        return program.register(api, MODEL, run, IMAGE, f"gs://acme-ml-models/arr-coc/{run}")

    assert [register(run) for run in ("run-1-1", "run-2-1", "run-1-1", "run-2-1")] == ["1", "2", "1", "2"]
    first, second = registry.uploads
    assert (first["modelId"], second["parentModel"]) == ("arr-coc", MODEL)
    assert second["model"]["containerSpec"]["imageUri"] == IMAGE
    assert second["model"]["artifactUri"] == "gs://acme-ml-models/arr-coc/run-2-1"
    registry.failure = "the service agent may not read the image"
    with pytest.raises(RuntimeError, match="may not read the image"):
        register("run-3-1")
    monkeypatch.setattr(registry, "answer", lambda *_: (403, {"error": {"code": 403, "message": "denied"}}))
    with pytest.raises(HttpError, match="denied"):
        register("run-4-1")
    assert len(registry.uploads) == 3


@pytest.mark.slow
def test_cloud_storage_gets_the_files_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    objects: dict[str, bytes] = {}

    def respond(request: BaseHTTPRequestHandler, given: bytes) -> tuple[int, bytes]:
        path = unquote(urlsplit(request.path).path)
        if request.command == "GET":
            return 200, objects[path.partition("/o/")[2]]
        head, content = given.split(b"\r\n\r\n", 2)[1:]
        name = json.loads(head.partition(b"\r\n--")[0])["name"]
        objects[name] = content.rpartition(b"\r\n--")[0]
        return 200, json.dumps({"name": name, "bucket": "acme-ml-models", "size": "1"}).encode()

    storage = module("arr_coc.storage", monkeypatch)
    with served(respond) as address:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", address)
        with storage.writing("gs://acme-ml-models/arr-coc/1-1/", ["b", "a"]) as folder:
            (folder / "a").write_bytes(b"A")
            (folder / "b").write_bytes(b"B")
        assert list(objects.items()) == [("arr-coc/1-1/b", b"B"), ("arr-coc/1-1/a", b"A")]
        with storage.reading("gs://acme-ml-models/arr-coc/1-1", ["a", "b"]) as folder:
            assert [(folder / name).read_bytes() for name in ("a", "b")] == [b"A", b"B"]
    with storage.reading("/models", ["a"]) as folder:
        assert folder == Path("/models")


# Training and serving

ENVIRONMENT = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": "."}
BATCH = """
import json
from arr_coc.textures import LABELS, batch
images, labels = batch(40, seed=123)
print(json.dumps([images[:, 0].tolist(), [LABELS[each] for each in labels]]))
"""
NUMBERS = """
import pathlib, sys
from arr_coc.model import load
print({name: value.tolist() for name, value in load(pathlib.Path(sys.argv[1]))[0].state_dict().items()})
"""


def run(python: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [str(python), *words]
    return subprocess.run(
        command, cwd=EXAMPLE, env=ENVIRONMENT | environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def trained(torch_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    done = run(torch_python, "-m", "arr_coc.train", "--min-accuracy", "0.95", AIP_MODEL_DIR=str(folder))
    assert done.returncode == 0, done.stderr
    return folder


@contextmanager
def serving(python: Path, folder: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    environment = ENVIRONMENT | {"AIP_STORAGE_URI": str(folder), "AIP_HTTP_PORT": "0"}
    command, pipes = [python, "-m", "arr_coc.serve"], {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=EXAMPLE, env=environment, text=True, **pipes) as process:
        assert process.stdout
        yield process.stdout.readline().split()[-1], process
        process.kill()


@pytest.fixture(scope="module")
def textures(torch_python: Path) -> list[tuple[Any, str]]:
    images, labels = json.loads(run(torch_python, "-c", BATCH).stdout)
    return list(zip(images, labels, strict=True))


def ask(address: str, body: Any = None) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(address, json.dumps(body).encode() if body is not None else None) as answer:  # noqa: S310
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.mark.slow
def test_training_reaches_its_accuracy_and_a_seed_gives_one_model(
    torch_python: Path, trained: Path, tmp_path: Path
) -> None:
    metrics = json.loads((trained / "metrics.json").read_text())
    assert metrics["labels"] == LABELS
    assert 0.95 < metrics["accuracy"] <= 1
    again = run(torch_python, "-m", "arr_coc.train", "--out", str(tmp_path / "again"))
    assert again.returncode == 0, again.stderr
    first, second = (run(torch_python, "-c", NUMBERS, str(each)).stdout for each in (trained, tmp_path / "again"))
    assert "head.bias" in first
    assert first == second
    few = run(torch_python, "-m", "arr_coc.train", "--out", str(tmp_path), "--steps", "1", "--min-accuracy", "0.95")
    assert (few.returncode, "below 0.95" in few.stderr) == (1, True)


@pytest.mark.slow
def test_the_server_answers_as_vertex_ai_expects(
    torch_python: Path, trained: Path, textures: list[tuple[Any, str]]
) -> None:
    images = [image for image, _ in textures]
    with serving(torch_python, trained) as (address, process):
        assert ask(f"{address}/health") == (200, {"status": "ok"})
        status, answer = ask(f"{address}/predict", {"instances": images})
        right = [found["label"] == label for found, (_, label) in zip(answer["predictions"], textures, strict=True)]
        assert (status, sum(right) >= 38) == (200, True)
        status, answer = ask(f"{address}/predict", {"instances": [images[0], [[2.0] * 32] * 32]})
        assert (status, answer["error"].partition(":")[0]) == (400, "instances[1]")
        assert ask(f"{address}/other", {})[0] == 404
        process.terminate()
        assert process.wait(timeout=30) == 0


@pytest.mark.slow
def test_a_model_without_a_label_fails_for_the_requests_that_need_it(
    torch_python: Path, trained: Path, textures: list[tuple[Any, str]], tmp_path: Path
) -> None:
    shutil.copy(trained / "model.pt", tmp_path)
    (tmp_path / "metrics.json").write_text(json.dumps({"accuracy": 0.99, "labels": LABELS[:3]}))
    with serving(torch_python, tmp_path) as (address, process):
        answers = {label: ask(f"{address}/predict", {"instances": [image]}) for image, label in textures}
        process.terminate()
        _, errors = process.communicate(timeout=30)
    assert {label: status for label, (status, _) in answers.items()} == dict.fromkeys(LABELS, 200) | {"blobs": 500}
    assert ("IndexError" in errors, "IndexError" in str(answers)) == (True, False)


@pytest.mark.slow
def test_the_tests_of_the_project_pass_on_a_cpu_and_a_pool_requires_its_gpu(torch_python: Path) -> None:
    packages = os.pathsep.join([str(ROOT / "smoke"), str(Path(pytest.__file__).resolve().parents[1])])
    command = ("-m", "pytest", "-p", "no:cacheprovider")
    done = run(torch_python, *command, PYTHONPATH=packages, PYTHONDONTWRITEBYTECODE="1")
    assert done.returncode == 0, done.stdout
    assert " 15 passed, 1 skipped in " in done.stdout
    required = run(torch_python, *command, "-m", "gpu", "--gpu=require", PYTHONPATH=packages)
    assert required.returncode != 0
    assert "no GPU test ran" in required.stdout
