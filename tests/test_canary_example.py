"""examples/canary: its objects against schemas, and its loop with a metrics server that answers as Prometheus does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import kubernetes_validate
import pytest
import yaml
from pulumi_sandbox.providers.gcp.discovery import document

from tests.conftest import ROOT

CANARY = ROOT / "examples" / "canary"
BIN = Path(sys.executable).parent


def objects(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((CANARY / name).read_text()))


def wrong(value: Any, node: Any, path: str = "") -> Iterator[str]:
    """Yield the fields that a schema of Cloud Deploy does not have, and values of another type."""
    node = document("clouddeploy.v1")["schemas"][node["$ref"]] if "$ref" in node else node
    if isinstance(value, dict):
        for key, inner in value.items():
            field = node.get("properties", {}).get(key) or node.get("additionalProperties")
            yield from wrong(inner, field, f"{path}.{key}") if field else [f"{path}.{key}"]
    elif isinstance(value, list):
        for inner in value:
            yield from wrong(inner, node["items"], path) if node["type"] == "array" else [path]
    elif {"string": str, "integer": int, "boolean": bool}[node["type"]] is not type(value):
        yield path


def test_the_objects_of_cloud_deploy_have_the_fields_of_its_api() -> None:
    found = []
    for each in objects("clouddeploy.yaml"):
        assert each.pop("apiVersion") == "deploy.cloud.google.com/v1"
        found.append(kind := each.pop("kind"))
        each |= each.pop("metadata")
        assert list(wrong(each, {"$ref": kind})) == []
    assert found == ["DeliveryPipeline", "Automation"]
    assert list(wrong({"serialPipeline": {"stages": [{"strategi": {}}]}}, {"$ref": "DeliveryPipeline"})) != []


def test_the_job_of_argo_is_one_of_kubernetes() -> None:
    [template, rollout] = objects("argo-rollouts.yaml")
    spec = template["spec"]["metrics"][0]["provider"]["job"]["spec"]
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "judge"}, "spec": spec}
    kubernetes_validate.validate(job, "1.36", strict=True)
    [container] = spec["template"]["spec"]["containers"]
    [codes] = [each["onExitCodes"] for each in spec["podFailurePolicy"]["rules"] if "onExitCodes" in each]
    assert codes["containerName"] == container["name"]
    # The arguments of the template are those that each step gives.
    steps = [each["analysis"] for each in rollout["spec"]["strategy"]["canary"]["steps"] if "analysis" in each]
    assert len(steps) == 3
    names = {each["name"] for each in template["spec"]["args"]}
    assert all({each["name"] for each in step["args"]} == names for step in steps)
    assert all(f"{{{{args.{name}}}}}" in str(container["env"]) for name in names)


@pytest.mark.parametrize("name", ["argo-rollouts.yaml", "clouddeploy.yaml"])
def test_the_environment_has_what_the_loop_reads(name: str) -> None:
    text = (CANARY / name).read_text()
    assert [word for word in ("PROMETHEUS", "CANARY", "STABLE", "ERRORS") if word not in text] == []


class Prometheus:
    """Answers range queries: constant counts by model, and a series of errors only where a model has errors."""

    def __init__(self) -> None:
        self.rates = {"v1": (450.5, 9.0), "v2": (50.5, 1.0)}
        self.failures = 0
        self.queries: list[dict[str, str]] = []
        self.tokens: set[str | None] = set()

    def answer(self, query: dict[str, str]) -> tuple[int, Any]:
        self.queries.append(query)
        if self.failures:
            self.failures -= 1
            return 503, {"status": "error"}
        [model] = [each for each in self.rates if f'"{each}"' in query["query"]]
        requests, errors = self.rates[model]
        value = errors if "code=" in query["query"] else requests
        times = range(int(query["start"]), int(query["end"]) + 1, int(query["step"]))
        values = [[second, str(value)] for second in times]
        return 200, {"status": "success", "data": {"result": [{"metric": {}, "values": values}] if value else []}}


@pytest.fixture
def prometheus() -> Iterator[tuple[Prometheus, str]]:
    fake = Prometheus()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            address = urlsplit(self.path)
            assert address.path == "/api/v1/query_range"
            fake.tokens.add(self.headers["Authorization"])
            code, body = fake.answer({key: value[0] for key, value in parse_qs(address.query).items()})
            self.send_response(code)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield fake, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def variables_of(url: str, **variables: str) -> dict[str, str]:
    return os.environ | {
        "PATH": f"{BIN}:{os.environ['PATH']}", "PROMETHEUS": url, "CANARY": 'requests{version="v2"}',
        "STABLE": 'requests{version="v1"}', "ERRORS": 'code=~"5.."', "WAIT_SEC": "0.1", **variables,
    }  # fmt: skip


def loop(url: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = variables_of(url, **variables)
    return subprocess.run([CANARY / "judge.sh"], env=environment, capture_output=True, text=True, check=False)


def test_the_loop_ends_with_the_verdict_and_outlasts_a_failing_server(prometheus: tuple[Prometheus, str]) -> None:
    fake, url = prometheus
    fake.failures = 2
    fake.rates["v2"] = (50.5, 20.0)
    bad = loop(url)
    assert (bad.returncode, json.loads(bad.stdout)["reason"]) == (2, "errors")  # also before the step began
    assert bad.stderr.count("HTTP Error 503") == 2
    assert fake.queries[-1]["query"] == 'sum(increase(requests{version="v1",code=~"5.."}[1m]))'


def test_the_loop_sends_a_token_if_it_has_one(prometheus: tuple[Prometheus, str], tmp_path: Path) -> None:
    fake, url = prometheus
    fake.rates["v2"] = (50.5, 20.0)
    assert (loop(url).returncode, fake.tokens) == (2, {None})
    (tmp_path / "a token").write_text("t1\n")
    fake.tokens.clear()
    assert (loop(url, TOKEN_FILE=str(tmp_path / "a token")).returncode, fake.tokens) == (2, {"Bearer t1"})


def test_the_loop_holds_until_its_caller_ends_it(prometheus: tuple[Prometheus, str]) -> None:
    fake, url = prometheus
    fake.rates["v2"] = (0.0, 0.0)
    quiet = dict.fromkeys(("stdout", "stderr"), subprocess.DEVNULL)
    with subprocess.Popen([CANARY / "judge.sh"], env=variables_of(url), start_new_session=True, **quiet) as process:
        while len(fake.queries) <= 4:  # a pass has four
            assert process.poll() is None
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)


def test_the_counts_leave_out_late_minutes_and_absent_series_of_errors_are_none(
    prometheus: tuple[Prometheus, str],
) -> None:
    fake, url = prometheus
    fake.rates = {"v1": (450.5, 0.0), "v2": (0.0, 0.0)}
    words = ["--canary", 'requests{version="v2"}', "--stable", 'requests{version="v1"}', "--errors", 'code=~"5.."']
    before = time.time()
    done = subprocess.run(
        [sys.executable, CANARY / "counts.py", url, *words, "--hours", "0.5"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == 31
    assert all(line["minute"] % 60 == 0 for line in lines)
    assert before - 240 < lines[-1]["minute"] <= time.time() - 180
    assert lines[0] == {"minute": lines[0]["minute"], "stable": {"requests": 450.5, "errors": 0.0}}


@pytest.mark.parametrize("words", [[], ["http://127.0.0.1:1", "--canary", "x{}", "--stable", "y{}", "--errors", "z"]])
def test_an_error_of_the_counts_is_not_the_code_of_a_rollback(words: list[str]) -> None:
    done = subprocess.run([sys.executable, CANARY / "counts.py", *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Traceback" not in done.stderr
