"""`make rollout`: trains a model, and rolls it out on an endpoint of the sandbox, with a verdict on real requests.

gpu-ci and the programs of examples/arr-coc are the real ones. The sandbox runs training jobs and deployed models as
processes, and sends requests by the traffic split. Only time is compressed: the clock jumps ahead while gpu-ci waits.
"""

from __future__ import annotations

import argparse
import fcntl
import http.client
import io
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from bisect import bisect_right
from collections import Counter, defaultdict
from contextlib import redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import yaml
from gpu_ci.cli import clock
from gpu_ci.cli import main as main_of_gpu_ci
from pulumi_sandbox.providers.gcp.vertex.endpoint import BOUNDS_MS, Endpoint, Requests
from pulumi_sandbox.providers.gcp.vertex.jobs import CustomJobs
from pulumi_sandbox.providers.gcp.vertex.service import Service, VertexError
from pulumi_sandbox.providers.machines.local_server import Answer, LocalServer, Request, as_json
from pulumi_sandbox.providers.machines.supervisor import PR_SET_PDEATHSIG, prctl
from pulumi_sandbox.workspace import Workspace

ROOT = Path(__file__).resolve().parents[1]
SOURCES, PYTHON = ROOT / "examples" / "arr-coc", ROOT / ".venv-torch" / "bin" / "python"
LOCATION = "projects/acme-ml/locations/europe-west4"
MODEL, ENDPOINT, STABLE_ID = "arr-coc", f"{LOCATION}/endpoints/7001", "5001"
IMAGE = f"europe-west4-docker.pkg.dev/acme-ml/models/arr-coc@sha256:{'a1' * 32}"
PER_MINUTE = 60
"""The requests of a minute of the rollout."""
_TRAINING = ["--steps", "150", "--seed"]  # the CPU needs some seconds
_JOB_SPEED, _START_SEC, _REQUEST_SEC = 60, 60.0, 10.0
_CANCELLED, _FAILED = 130, 1
_CODES = {0: "the new model has all traffic", 1: "an error", 2: "rolled back", 3: "on hold"}
# Prints the bodies of requests. Only the example's own Python has torch.
_BODIES = """
import json
from arr_coc.textures import batch
images = (batch(200, 7)[0].squeeze(1) * 1000).round() / 1000
print(json.dumps([json.dumps({"instances": [each]}) for each in images.tolist()]))
"""
Answers = Counter[tuple[bool, bool]]
"""Numbers of answers: whether it is of the new model, and whether it is an error."""


class Example(NamedTuple):
    """A new model, and what happens during its rollout."""

    text: str
    code: int = 0
    """The exit code of `gpu-ci deploy start`."""
    labels: int | None = None
    """The end of the labels that its file keeps."""
    outage: range = range(0)
    """The minutes in which a third of all requests fail, whatever the model."""


EXAMPLES = {
    "good": Example("the new model is as good as the first one"),
    "bad": Example("the file of the new model lacks its last label, so these textures fail", code=2, labels=-1),
    "unlucky": Example("requests of both models fail for ten minutes, as if the network failed", outage=range(20, 30)),
}


class Ended(BaseException):
    """The command ends with this exit code."""


class TrainingJobs(CustomJobs):
    """Jobs whose command is a process, with the Python of the example instead of the image."""

    def __init__(self, session: Session) -> None:
        super().__init__(LOCATION, time.time())
        self.start, self.started = session.start, dict[str, subprocess.Popen[bytes]]()

    def run(self, name: str) -> None:
        container = self.jobs[name]["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]
        variables = {each["name"]: each["value"] for each in container["env"]}
        arguments = [*container["command"][1:], *container["args"]]
        self.started[name] = self.start(f"job-{name.rpartition('/')[2]}", *arguments, **variables)

    def result(self, name: str) -> tuple[str, str] | None:
        code = self.started[name].poll()
        failed = ("FAILED", f"The replica workerpool0-0 exited with {code}")
        return None if code is None else failed if code else ("SUCCEEDED", "")

    def sleep(self, seconds: float) -> None:
        if any(each.poll() is None for each in self.started.values()):
            time.sleep(seconds / _JOB_SPEED)
        super().sleep(seconds)


class ServedEndpoint(Endpoint):
    """An endpoint whose deployed models are processes that answer requests."""

    def __init__(self, session: Session, bodies: list[str]) -> None:
        super().__init__(ENDPOINT, session.api.now)
        self.start, self.outage, self.bodies = session.start, session.example.outage, bodies
        self.due, self.random = 0.0, random.Random(1)  # noqa: S311 - for the split
        self.servers: dict[str, tuple[subprocess.Popen[bytes], int]] = {}
        self.counts: dict[tuple[str, int], Requests] = defaultdict(
            lambda: Requests(Counter(), [0] * (len(BOUNDS_MS) + 1))
        )
        self.steps: list[tuple[float, int, Answers]] = []
        """The begin of each split, the share of the new model, and the answers."""

    def insert(self, model: dict[str, Any]) -> None:
        version = model["model"].partition("@")[2]
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        say(f"  starting python -m arr_coc.serve with version {version}")
        server = self.start(
            f"version-{version}", "-m", "arr_coc.serve", AIP_HTTP_PORT=str(port), AIP_HEALTH_ROUTE="/health",
            AIP_PREDICT_ROUTE="/predict", AIP_STORAGE_URI=f"models/{version}",
        )  # fmt: skip
        until = time.monotonic() + _START_SEC
        while ask(port, "GET", "/health") != 200:
            if server.poll() is not None or time.monotonic() > until:
                raise VertexError(500, "INTERNAL", last_line(f"version-{version}"))
            time.sleep(0.1)
        self.servers[model["id"]] = server, port
        super().insert(model)

    def remove(self, key: str) -> None:
        self.servers[key][0].terminate()
        super().remove(key)

    def requests_of(self, key: str, minute: int) -> Requests:
        return self.counts[key, minute]

    def set_split(self, split: dict[str, int]) -> None:
        if self.steps and split != self.split:
            say(f"  in {(self.now - self.steps[-1][0]) / 60:.0f} minutes, {failures(self.steps[-1][2])}")
        super().set_split(split)
        self.steps.append((self.now, 100 - split.get(STABLE_ID, 0), Counter()))

    def sleep(self, seconds: float) -> None:
        """Send the requests of this time."""
        end = self.now + seconds
        while self.now < end:
            part = min(end - self.now, 60 - self.now % 60)
            self.due += part * PER_MINUTE / 60
            is_outage = (self.now - self.created) // 60 in self.outage
            for key in self.random.choices(list(self.split), list(self.split.values()), k=int(self.due)):
                begin = time.perf_counter()
                fails = is_outage and self.random.random() < 1 / 3
                code = 503 if fails else ask(self.servers[key][1], "POST", "/predict", self.random.choice(self.bodies))
                codes, latencies = self.counts[key, int(self.now // 60 * 60)]
                codes[str(code)] += 1
                latencies[bisect_right(BOUNDS_MS, 1000 * (time.perf_counter() - begin))] += 1
                self.steps[-1][2][key != STABLE_ID, code >= 500] += 1
            self.due %= 1
            super().sleep(part)


def ask(port: int, method: str, path: str, body: str | None = None) -> int:
    """Return the status of an answer; 503 without one."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_REQUEST_SEC)
    try:
        connection.request(method, path, body)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 503
    finally:
        connection.close()


def failures(answers: Answers) -> str:
    """Return how many requests of each model failed."""
    parts = []
    for is_new, name in ((False, "stable"), (True, "new")):
        if total := answers[is_new, True] + answers[is_new, False]:
            failed = answers[is_new, True]
            parts.append(f"the {name} model failed {failed} of {total} requests ({failed / total:.1%})")
    return ", ".join(parts)


class Session:
    """One training and one rollout. The logs of their processes are in the current folder."""

    def __init__(self, example: Example) -> None:
        self.example, self.processes = example, list[subprocess.Popen[bytes]]()
        self.api: Service = TrainingJobs(self)

    def start(self, name: str, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        with Path(f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [PYTHON, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": str(SOURCES), "OMP_NUM_THREADS": "1", **environment},
                # Ctrl-C is for this command, which then ends them. After a kill, the kernel does.
                start_new_session=True, preexec_fn=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGKILL),
            )  # fmt: skip
        self.processes.append(process)
        return process

    def end(self) -> None:
        for each in self.processes:
            each.kill()
            each.wait()

    def answer(self, request: Request) -> Answer:
        address = urlsplit(request.path)
        body = json.loads(request.content) if request.content else None
        return as_json(*self.api.answer(request.command, address.path, parse_qs(address.query), body))

    def run(self) -> int:
        bodies = self.start("bodies", "-c", _BODIES)
        job = yaml.safe_load((SOURCES / "train.yaml").read_text())
        for version in ("1", "2"):
            Path(f"train-{version}.yaml").write_text(yaml.safe_dump(job | {"args": [*_TRAINING, version]}))
            self.gpu_ci("train", "submit", LOCATION, f"train-{version}.yaml", "--key", version, "--image", IMAGE,
                        "--env", f"MODEL_DIR=models/{version}")  # fmt: skip
        for version in ("1", "2"):
            if self.gpu_ci("train", "wait", LOCATION, "--key", version)[0]:
                raise Ended(_FAILED)
            file = Path(f"models/{version}/metrics.json")
            metrics = json.loads(file.read_text())
            say(f"  version {version} is right for {metrics['accuracy']:.1%} of the textures of its test")
        file.write_text(json.dumps(metrics | {"labels": metrics["labels"][: self.example.labels]}))
        bodies.wait()
        endpoint = self.api = ServedEndpoint(self, json.loads(Path("bodies.log").read_text()))
        endpoint.insert({"id": STABLE_ID, "model": f"{LOCATION}/models/{MODEL}@1"})
        endpoint.set_split({STABLE_ID: 100})
        shutil.copy(SOURCES / "rollout.yaml", ".")
        code, found = self.gpu_ci("deploy", "start", ENDPOINT, f"{MODEL}@2", "--settings", "rollout.yaml")
        ends = [*(begin for begin, _, _ in endpoint.steps[1:]), endpoint.now]
        used = [end - begin for (begin, percent, _), end in zip(endpoint.steps, ends, strict=True) if percent]
        say("\nThe step summary on GitHub:\n\n" + Path("summary.md").read_text().partition("\n### Rollout on ")[2])
        say(f"verdict:    {found['text']}")
        say(f"new model:  at most {max(percent for _, percent, _ in endpoint.steps)} % of the traffic, in all for "
            f"{sum(used) / 60:.0f} minutes")  # fmt: skip
        say(f"requests:   {failures(sum((each for _, _, each in endpoint.steps), Counter()))}")
        if code:
            say(f"its log:    {last_line('version-2')}")
        say(f"exit code:  {code} of gpu-ci deploy start: {_CODES[code]}")
        return 0 if code == self.example.code else _FAILED

    def gpu_ci(self, *words: str) -> tuple[int, dict[str, Any]]:
        """Run a command, and return its exit code and its result."""
        say(f"\n$ gpu-ci {' '.join(words)}")
        with redirect_stdout(io.StringIO()) as output:
            code = main_of_gpu_ci.run(list(words))
        if not output.getvalue():  # a mistake, which gpu-ci has reported
            raise Ended(code)
        return code, json.loads(output.getvalue())


def main() -> int:
    """Return 0 if the rollout ended as the example should, and 130 if the command was cancelled."""
    parser = argparse.ArgumentParser(prog="make rollout", description="Train and roll out a model in the sandbox.")
    parser.add_argument("--example", choices=EXAMPLES, default="good", metavar="NAME",
                        help=f"the new model: {', '.join(EXAMPLES)} (default: %(default)s)")  # fmt: skip
    name = parser.parse_args().example

    def cancel(*_: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        say("\ncancelled")
        raise Ended(_CANCELLED)

    folder = Workspace.find().root / "rollout"
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:  # The kernel releases the lock when this process ends.
        fcntl.flock(os.open(folder.with_suffix(".lock"), os.O_CREAT | os.O_WRONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say(f"make rollout: another one uses {folder}")
        say("  hint: wait for its end, or set PULUMI_SANDBOX_DIR to another folder")
        return _FAILED
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    os.chdir(folder)
    say(f"Training {MODEL}, and rolling it out in the sandbox. Here {EXAMPLES[name].text}.")
    say(f"Minutes are compressed: the clock jumps ahead while gpu-ci waits. Each minute has {PER_MINUTE} requests.")
    session = Session(EXAMPLES[name])
    server = LocalServer("vertex", session.answer, ("GET", "POST", "PATCH"))
    os.environ |= {
        "GOOGLE_OAUTH_ACCESS_TOKEN": "sandbox",
        "GOOGLE_VERTEX_AI_CUSTOM_ENDPOINT": f"http://{server.address}/v1/",
        "GOOGLE_MONITORING_CUSTOM_ENDPOINT": f"http://{server.address}/v3/",
        "GITHUB_STEP_SUMMARY": "summary.md",
    }
    clock.now = lambda: datetime.fromtimestamp(session.api.now, UTC)
    clock.sleep = lambda seconds: session.api.sleep(seconds)
    signal.signal(signal.SIGINT, cancel)
    signal.signal(signal.SIGTERM, cancel)
    try:
        return session.run()
    except Ended as end:
        return int(end.args[0])
    finally:
        session.end()
        server.close()
        others = ", ".join(f"MODEL={each}" for each in EXAMPLES if each != name)
        say(f"\nAll processes have ended. Their logs and the models are in {folder}.")
        say(f"Next: make rollout with {others}, or with other steps in {SOURCES.relative_to(ROOT)}/rollout.yaml.")


def last_line(log: str) -> str:
    return (Path(f"{log}.log").read_text(errors="replace").strip().splitlines() or ["no output"])[-1]


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
