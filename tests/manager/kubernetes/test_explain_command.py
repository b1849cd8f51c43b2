"""`gpu-ci explain --kubernetes`: its requests with `gh` and `kubectl`, and its output."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from gpu_ci.cli import programs
from gpu_ci.cli.commands import gpu_ci
from gpu_ci.cli.programs import NotAskedError, Output
from gpu_ci.kubernetes import gpu_nodes
from gpu_ci.kubernetes.gpu_nodes import UNPROVEN_KEY

from tests.manager.kubernetes.objects import (
    NAMESPACE,
    SYSTEM,
    event,
    listener,
    listener_pod,
    node,
    pod,
    runner,
    scale_set,
)
from tests.manager.test_config import CONFIG

URL = "https://github.com/acme/kernels/actions/runs/123"
QUEUED: dict[str, Any] = {
    "id": 456, "run_id": 123, "name": "gpu tests", "workflow_name": "CI", "status": "queued", "conclusion": None,
    "labels": ["l4"], "runner_name": None, "created_at": datetime.now(UTC).isoformat(),
}  # fmt: skip


@dataclass
class Programs:
    """A fake `gh` with one job, and a fake `kubectl` with a cluster that lacks only the runner's node."""

    job: dict[str, Any] = field(default_factory=lambda: dict(QUEUED))
    jobs: int = 1
    missing: str = ""
    forbidden: str = ""
    hosts: tuple[str, ...] = ()
    """The hosts to which `gh` is logged in."""
    message: str = ""
    """The message of the scheduler without a node for the runner's pod; by default the pod has one."""
    node: dict[str, Any] = field(default_factory=dict)
    ran: list[list[str]] = field(default_factory=list)

    def run(
        self, command: Sequence[str], timeout_sec: float = 0, environment: Mapping[str, str] | None = None
    ) -> Output:
        self.ran.append(list(command))
        if command[0] == self.missing:
            raise NotAskedError(f"{command[0]} is not installed")
        if command[:2] == ["gh", "auth"]:
            return Output(int(command[-1] not in self.hosts), "", "You are not logged into any accounts on it")
        if command[0] == "gh":
            return Output(0, json.dumps(self.page(command[-1]) if "/runs/" in command[-1] else self.job), "")
        kind = command[command.index("get") + 1].partition(".")[0]
        namespace = command[command.index("--namespace") + 1] if "--namespace" in command else ""
        if kind == self.forbidden:
            return Output(1, "", f'Error from server (Forbidden): {kind} is forbidden: User "dev" cannot list resource')
        objects = {
            "autoscalingrunnersets": [scale_set()],
            "autoscalinglisteners": [listener()],
            "ephemeralrunners": [runner("l4-a")],
            "pods": [
                pod("l4-a", node="" if self.message else "gpu-1", selector=gpu_nodes.labels("l4")),
                listener_pod(),
            ],
            "resourcequotas": [],
            "nodes": [self.node] if self.node else [],
            "events": [event("l4-a", "FailedScheduling", self.message)] if self.message else [],
        }
        found = [each for each in objects[kind] if namespace in ("", each["metadata"].get("namespace"))]
        return Output(0, json.dumps({"items": found}), "")

    def page(self, path: str) -> dict[str, Any]:
        """GitHub lists 100 jobs a page at most (docs.github.com, "REST API endpoints for workflow jobs")."""
        number = int(path.partition("&page=")[2] or 1)
        rows = [{**self.job, "id": 456 + each} for each in range(self.jobs)][(number - 1) * 100 : number * 100]
        return {"total_count": self.jobs, "jobs": rows}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Programs:
    found = Programs()
    monkeypatch.setattr(programs, "run", found.run)
    return found


def call(*words: str) -> Result:
    return CliRunner().invoke(gpu_ci, ["explain", *words])


def test_a_job_is_explained_from_github_and_the_cluster(asked: Programs) -> None:
    found = call(f"{URL}/job/456", "--kubernetes", "--context", "ci")
    assert found.output == ("acme/kernels CI / gpu tests (job 456): its runner starts in pod l4-a on node gpu-1\n")
    assert asked.ran[0] == ["gh", "api", "--hostname", "github.com", "repos/acme/kernels/actions/jobs/456"]
    assert all(command[:3] == ["kubectl", "--context", "ci"] for command in asked.ran[1:])
    places = [command[4:-2] for command in asked.ran[1:] if command[4] in ("pods", "events")]
    assert [place[2] for place in places] == [NAMESPACE, SYSTEM, NAMESPACE, SYSTEM]


ELSEWHERE = "https://github.acme.example:8443/acme/kernels/actions/runs/123/job/456"


def test_a_host_that_only_the_address_names_gets_no_token(asked: Programs) -> None:
    """`gh` sends the token of GH_ENTERPRISE_TOKEN to any host but GitHub's."""
    found = call(ELSEWHERE, "--kubernetes")
    assert found.exit_code == 2
    assert "got: github.acme.example:8443\n" in found.stderr
    assert asked.ran == [["gh", "auth", "status", "--hostname", "github.acme.example:8443"]]
    # `gh` is not needed for a job whose labels are given.
    assert call(ELSEWHERE, "--kubernetes", "--runs-on", "l4").exit_code == 0


@pytest.mark.parametrize(
    ("host", "knows", "config"),
    [
        ("github.com", (), ""),
        ("acme.ghe.com", (), ""),
        ("github.acme.example", ("github.acme.example",), ""),
        ("github.acme.example", (), "https://github.acme.example/api/v3"),
    ],
)
def test_a_host_of_gh_or_of_the_configuration_gets_the_request(
    asked: Programs, tmp_path: Path, host: str, knows: tuple[str, ...], config: str
) -> None:
    asked.hosts = knows
    file = tmp_path / "manager.json"
    if config:
        file.write_text(json.dumps({**CONFIG, "github": {**CONFIG["github"], "apiUrl": config}}))
    url = f"https://{host}/acme/kernels/actions/runs/123/job/456"
    assert call(url, "--kubernetes", "--config", str(file)).exit_code == 0
    assert ["gh", "api", "--hostname", host, "repos/acme/kernels/actions/jobs/456"] in asked.ran
    assert any("auth" in command for command in asked.ran) is bool(knows)


def test_the_cluster_is_read_once_for_all_jobs_of_a_matrix(asked: Programs) -> None:
    call(URL, "--kubernetes")
    once = len(asked.ran)
    asked.ran.clear()
    asked.jobs = 100
    assert len(json.loads(call(URL, "--kubernetes", "--json").output)["jobs"]) == 100
    assert len(asked.ran) == once


def test_the_jobs_of_a_large_matrix_are_read_page_by_page(asked: Programs) -> None:
    asked.jobs = 256
    rows = json.loads(call(URL, "--kubernetes", "--json").output)["jobs"]
    assert [row["id"] for row in rows] == list(range(456, 712))


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com@evil.example/acme/kernels/actions/runs/123",
        "https://--help/acme/kernels/actions/runs/123",
        "https://github.com/acme/ker?nels/actions/runs/123",
        "https://github.com/acme/../actions/runs/123",
        "http://github.com/{owner}/kernels/actions/runs/123",
    ],
)
def test_an_address_of_another_form_runs_nothing(asked: Programs, url: str) -> None:
    """`gh` sends its token to the host."""
    assert call(url, "--kubernetes").exit_code == 2
    assert asked.ran == []


def test_a_message_of_the_cluster_is_printed_without_control_characters(asked: Programs) -> None:
    asked.message = "\x1b]0;title\x07 full"
    found = call(f"{URL}/job/456", "--kubernetes").output
    assert " ]0;title  full" in found
    assert "\x1b" not in found


def test_runs_on_needs_no_gh(asked: Programs) -> None:
    asked.missing = "gh"
    found = call(f"{URL}/job/456", "--kubernetes")
    assert found.exit_code == 2
    assert "gpu-ci explain: gh is not installed\n  hint: --runs-on NAME needs no `gh`" in found.stderr
    found = call(f"{URL}/job/456", "--kubernetes", "--runs-on", "l4")
    assert found.output == "acme/kernels (job 456): its runner starts in pod l4-a on node gpu-1\n"


def test_a_node_that_is_checked_explains_a_job_if_the_user_may_list_nodes(asked: Programs) -> None:
    asked.message, asked.node = "0/1 nodes are available", node("gpu-1", UNPROVEN_KEY)
    found = call(f"{URL}/job/456", "--kubernetes")
    assert found.output.endswith("pod l4-a waits for the check of the node gpu-1\n")
    asked.forbidden = "nodes"
    assert "no autoscaler has reacted: 0/1 nodes" in call(f"{URL}/job/456", "--kubernetes").output


@pytest.mark.parametrize("kind", ["autoscalingrunnersets", "events"])
def test_a_missing_right_is_no_reason_of_the_job(asked: Programs, kind: str) -> None:
    asked.forbidden = kind
    found = call(f"{URL}/job/456", "--kubernetes")
    assert found.exit_code == 2
    assert f"(Forbidden): {kind} is forbidden" in found.stderr
    assert "hint: allow the user of kubectl to list autoscalingrunnersets" in found.stderr
