"""Runs the real manager of the sandbox next to Prometheus, Alertmanager and a receiver of alerts."""

from __future__ import annotations

import contextlib
import json
import math
import re
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import yaml
from gpu_ci.monitoring.alerts import Objectives, rule_file
from pulumi_sandbox.workspace import free_port

from tests.engine.compute_pool import GPU_CI, environment, manager_files, served
from tests.monitoring.conftest import HOME, program
from tests.sandbox_runner import SandboxRunner

PATIENCE_SEC = 120
OBJECTIVES = Objectives(wait_sec=5)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def faster(document: dict[str, Any]) -> dict[str, Any]:
    """Return rules whose windows are a sixtieth as long, and whose conditions must hold for a much shorter time."""

    def shorter(match: re.Match[str], by: int = 60) -> str:
        return f"[{max(int(match[1]) * _SECONDS[match[2]] // by, 1)}s]"

    for group in document["groups"]:
        group["interval"] = "1s"
        for rule in group["rules"]:
            rule["expr"] = re.sub(r"\[(\d+)([smhd])\]", shorter, rule["expr"])
            if "for" in rule:
                rule["for"] = "2s"
    return document


class Receiver:
    """A webhook that collects what Alertmanager sends: the status, labels and annotations of each alert."""

    def __init__(self) -> None:
        self.alerts: list[dict[str, Any]] = []
        found = self.alerts

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                found.extend(json.loads(self.rfile.read(int(self.headers["content-length"])))["alerts"])
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it
                """Log nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def has(self, status: str, name: str) -> bool:
        """Return True if an alert of this name was delivered as firing or resolved."""
        return any(each["status"] == status and each["labels"]["alertname"] == name for each in self.alerts)


class Watched:
    """The programs, on free ports, in a folder."""

    def __init__(self, runner: SandboxRunner, folder: Path) -> None:
        self.runner, self.folder, self.running = runner, folder, list[subprocess.Popen[Any]]()
        self.receiver, self.began = Receiver(), time.time()
        self.config, self.options = manager_files(runner, folder)
        self.port, self.prometheus, alertmanager = free_port(), free_port(), free_port()
        self.variables = environment(runner) | served(runner, runner.start("serve"))
        self.write("rules.yml", faster(rule_file(OBJECTIVES, "docs/")))
        self.write(
            "prometheus.yml",
            {
                "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                "rule_files": ["rules.yml"],
                "alerting": {"alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{alertmanager}"]}]}]},
                "scrape_configs": [
                    {"job_name": "gpu-ci-manager", "static_configs": [{"targets": [f"127.0.0.1:{self.port}"]}]}
                ],
            },
        )
        hook = {"url": f"http://127.0.0.1:{self.receiver.server.server_port}", "send_resolved": True}
        times = {"group_wait": "0s", "group_interval": "1s"}
        self.write(
            "alertmanager.yml",
            {
                "route": {"receiver": "local", "group_by": ["alertname", "pool"], **times},
                "receivers": [{"name": "local", "webhook_configs": [hook]}],
            },
        )
        self.manager = self.start_manager()
        self.start(
            program("prometheus"),
            f"--config.file={folder}/prometheus.yml",
            f"--web.listen-address=127.0.0.1:{self.prometheus}",
            f"--storage.tsdb.path={folder}/series",
        )
        self.start(
            program("prometheus-alertmanager"),
            f"--config.file={folder}/alertmanager.yml",
            f"--web.listen-address=127.0.0.1:{alertmanager}",
            "--cluster.listen-address=",
            f"--storage.path={folder}/alerts",
        )

    def write(self, name: str, content: dict[str, Any]) -> None:
        (self.folder / name).write_text(yaml.safe_dump(content))

    def start(self, *command: str, **options: Any) -> subprocess.Popen[Any]:
        with (self.folder / f"{Path(command[0]).name}.log").open("a") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, **{"cwd": HOME, **options})
        self.running.append(process)
        return process

    def start_manager(self) -> subprocess.Popen[Any]:
        command = [GPU_CI, "manager", "run", "--interval-sec", "1", "--metrics-port", str(self.port), *self.options]
        command += ["--state", f"{self.folder}/state.sqlite"]
        return self.start(*command, env=self.variables, cwd=self.runner.project)

    def queue(self, pool: str, script: str) -> int:
        labels = ",".join(next(each["labels"] for each in self.config["pools"] if each["name"] == pool))
        job = self.runner.json("job", "queue", "--repository", "kernels", "--labels", labels, "--run", script, "--json")
        return int(job["id"])

    def fires(self, *names: str) -> None:
        self.until(lambda: all(self.receiver.has("firing", name) for name in names), f"{names} fire")

    def resolves(self, *names: str) -> None:
        self.until(lambda: all(self.receiver.has("resolved", name) for name in names), f"{names} resolve")

    def until(self, found: Callable[[], object], what: str) -> None:
        last = time.monotonic() + PATIENCE_SEC
        while not found():
            delivered = sorted({(each["status"], each["labels"]["alertname"]) for each in self.receiver.alerts})
            assert time.monotonic() < last, f"not within {PATIENCE_SEC} s: {what}; delivered: {delivered}"
            time.sleep(0.2)

    def lines(self, expression: str) -> list[dict[str, Any]]:
        """Return the series of an expression over the run, each with its labels and points (seconds, value)."""
        asked = {"query": expression, "start": self.began, "end": time.time(), "step": 1}
        address = f"http://127.0.0.1:{self.prometheus}/api/v1/query_range?{urllib.parse.urlencode(asked)}"
        with urllib.request.urlopen(address, timeout=30) as answer:
            found = json.load(answer)["data"]["result"]
        points = [
            {"labels": each["metric"], "points": [(at - self.began, float(value)) for at, value in each["values"]]}
            for each in found
        ]
        return [each for each in points if any(not math.isnan(value) for _, value in each["points"])]

    def has_read(self, metric: str) -> bool:
        """Return True if Prometheus has read a metric. It does not answer while it starts."""
        with contextlib.suppress(OSError):
            return bool(self.lines(metric))
        return False

    def close(self) -> None:
        for process in reversed(self.running):
            process.terminate()
        for process in self.running:
            process.wait(timeout=60)
        self.receiver.server.shutdown()
        self.receiver.server.server_close()
