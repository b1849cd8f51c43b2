"""`gpu-ci deploy start` and the other commands of rollouts: results, exit codes, and mistakes in names and settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from gpu_ci.cli.deploy import rollout_inputs, rollout_report
from gpu_ci.delivery.rollout.decide import End
from gpu_ci.delivery.rollout.loop import Clock, Event

from tests.gpu_ci.cli.conftest import Answer, Ask
from tests.gpu_ci.delivery.fake_vertex import ENDPOINT, FakeVertex, served
from tests.gpu_ci.delivery.rollouts import BAD, QUICK, Rollout, target

Deploy = Callable[..., Answer]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeVertex:
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "planted")
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    fake = FakeVertex()
    fake.rates["5"] = 0.3
    monkeypatch.setattr(rollout_inputs, "connect", lambda _: target(fake))
    monkeypatch.setattr(rollout_inputs, "real_clock", lambda: Clock(lambda: fake.now, fake.sleep))
    return fake


@pytest.fixture
def deploy(ask: Ask, fake: FakeVertex, tmp_path: Path) -> Deploy:
    (tmp_path / "rollout.yaml").write_text(yaml.safe_dump(QUICK))

    def call(command: str, *words: str) -> Answer:
        settings = ["--settings", "rollout.yaml"] if command in ("start", "watch") else []
        return ask("deploy", command, ENDPOINT, *words, *settings)

    return call


def test_start_of_a_good_model(deploy: Deploy, fake: FakeVertex) -> None:
    answer = deploy("start", "scan@4")
    assert answer.code == 0
    found = answer.json
    assert (found["status"], found["rollout"]["model"], found["rollout"]["step"]) == ("done", "scan@4", 100)
    assert [each["percent"] for each in found["deployedModels"]] == [0, 100]
    assert "has 10 % of the traffic" in answer.err


def test_start_of_a_bad_model(deploy: Deploy) -> None:
    answer = deploy("start", "scan@5")
    assert (answer.code, answer.json["status"], answer.json["reason"]) == (2, "rolled-back", "errors")


def test_detached_start_requests_the_model_and_returns(deploy: Deploy, fake: FakeVertex) -> None:
    begin = fake.now
    answer = deploy("start", "scan@4", "--detach")
    assert (answer.code, answer.json["status"]) == (0, "open")
    assert fake.now - begin < 10
    assert [kind for kind, _ in fake.changes] == ["patch", "deploy"]
    assert deploy("watch", "--for", "20m").code == 3
    assert deploy("status").json["rollout"]["step"] == 10
    assert deploy("watch").code == 0


def test_pause_resume_and_rollback(deploy: Deploy, fake: FakeVertex) -> None:
    deploy("start", "scan@4", "--for", "15m")
    assert deploy("pause").json["rollout"]["status"] == "paused"
    assert deploy("watch").code == 3
    assert deploy("status").code == 3
    assert deploy("resume").json["status"] == "open"
    answer = deploy("rollback")
    assert (answer.code, answer.json["status"]) == (0, "rolled-back")
    assert fake.split == {"5001": 100}
    assert list(fake.models) == ["5001"]
    assert deploy("status").code == 2


def test_rollback_of_a_model_that_is_being_deployed(deploy: Deploy, fake: FakeVertex) -> None:
    deploy("start", "scan@4", "--detach")
    assert "gpu-ci deploy watch undeploys it after that" in deploy("rollback").err
    fake.sleep(3600)
    assert len(fake.models) == 2
    deploy("watch")
    assert list(fake.models) == ["5001"]


def test_rollback_does_not_continue_the_next_rollout(
    deploy: Deploy, fake: FakeVertex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The settings of the next rollout are those of another command."""
    deploy("start", "scan@4")
    sleep = fake.sleep

    def start_another(seconds: float) -> None:
        sleep(seconds)
        if fake.labels["gpu-ci-rollout"] not in fake.models:
            monkeypatch.setattr(fake, "sleep", sleep)
            Rollout(fake).start(BAD)

    monkeypatch.setattr(fake, "sleep", start_another)
    answer = deploy("rollback")
    assert (answer.code, answer.json["reason"]) == (1, "rollout-open")
    assert [kind for kind, _ in fake.changes][-2:] == ["undeploy", "patch"]


def test_second_rollout_is_refused(deploy: Deploy) -> None:
    deploy("start", "scan@4", "--detach")
    answer = deploy("start", "scan@5")
    assert answer.code == 1
    assert "a rollout is open" in answer.err
    assert "hint: gpu-ci deploy rollback" in answer.err


def test_commands_without_a_rollout(deploy: Deploy) -> None:
    assert deploy("watch").code == 0
    assert deploy("status").json["status"] == "none"
    for command in ("pause", "resume", "rollback"):
        assert deploy(command).code == 1


def test_cleanup_lists_before_it_removes(deploy: Deploy, fake: FakeVertex) -> None:
    deploy("start", "scan@4")
    for at in range(3):
        fake.add(f"60{at}", "1", f"gpu-ci-60{at}-1")
        fake.models[f"60{at}"]["createTime"] = fake.time(1_799_999_000)
    answer = deploy("cleanup", "--keep", "2")
    assert answer.json["removable"] == ["600", "601"]
    assert "add --yes" in answer.err
    assert "600" in fake.models
    assert deploy("cleanup", "--keep", "2", "--yes").code == 0
    assert not {"600", "601"} & set(fake.models)


def test_cleanup_is_refused_during_a_rollout(deploy: Deploy, fake: FakeVertex) -> None:
    deploy("start", "scan@4", "--for", "15m")
    answer = deploy("cleanup", "--yes")
    assert answer.code == 1
    assert "a rollout is open" in answer.err


def test_missing_permission(deploy: Deploy, fake: FakeVertex) -> None:
    fake.fault = lambda number, method, path: "forbidden" if method == "PATCH" else None
    answer = deploy("start", "scan@4")
    assert answer.code == 1
    assert "aiplatform.endpoints.update" in answer.err
    assert fake.changes == []


@pytest.mark.parametrize("value", ["today", "999999999999"])  # the second one is after the year 9999
def test_broken_label(deploy: Deploy, fake: FakeVertex, value: str) -> None:
    deploy("start", "scan@4", "--detach")
    fake.labels["gpu-ci-since"] = value
    for command in ("status", "pause", "watch"):
        answer = deploy(command)
        assert answer.code == 1
        assert "labels.gpu-ci-since" in answer.err + answer.out


def test_summary_of_a_step(deploy: Deploy, fake: FakeVertex, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "summary.md"
    file.write_text("earlier\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(file))
    deploy("start", "scan@4")
    text = file.read_text()
    assert text.startswith("earlier\n### Rollout on")
    assert "| 10 % | `██░░░░░░░░░░░░░░░░░░` |" in text
    assert "| 50 % | `██████████░░░░░░░░░░` |" in text
    assert "| 100 % | `████████████████████` |" in text


def test_summary_that_cannot_be_written(deploy: Deploy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    answer = deploy("start", "scan@5")
    assert (answer.code, answer.json["status"]) == (2, "rolled-back")
    assert f"GITHUB_STEP_SUMMARY: {tmp_path} cannot be written: Is a directory" in answer.err


def test_text_of_google_stays_in_its_cell() -> None:
    event = Event(0, {"1": 10, "2": 90}, "1", "a | b\n<img src=x>", True)
    text = rollout_report.summary_of("e", [event], rollout_report.document(None, End("error", "x", "| <b>")))
    assert "a \\| b &lt;img src=x>" in text


def test_commands_over_http(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeVertex()
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "planted")
    with served(fake) as address:
        monkeypatch.setenv("GOOGLE_VERTEX_AI_CUSTOM_ENDPOINT", f"{address}/v1/")
        assert ask("deploy", "status", ENDPOINT).json["deployedModels"][0]["model"] == "scan@3"


def test_missing_credentials(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_CREDENTIALS", "/missing")
    monkeypatch.delenv("GOOGLE_OAUTH_ACCESS_TOKEN", raising=False)
    answer = ask("deploy", "status", ENDPOINT)
    assert answer.code == 1
    assert "GOOGLE_CREDENTIALS" in answer.err


# Each file, and what the report must name: line, path, and a part of the text.
MISTAKES: dict[str, tuple[str, str]] = {
    "strategy: blue_green": (":1: strategy", "did you mean blue-green"),
    "strategy: fast": (":1: strategy", "must be one of"),
    "stategy: canary": (":1: stategy", "did you mean strategy"),
    "steps: 10": (":1: steps", "must be a list"),
    "steps: []": (":1: steps", "needs at least one"),
    "steps: [{percent: 100}]": (":1: steps[0].percent", "at most 99"),
    "steps: [{percent: 0}]": (":1: steps[0].percent", "at least 1"),
    "steps: [{minutes: 5}]": (":1: steps[0].percent", "is missing"),
    "steps: [{percent: 10%}]": (":1: steps[0].percent", "got: '10%'"),
    "steps: [{percent: 50}, {percent: 10}]": (":1: steps", "rising percentages, such as 10, 50"),
    "steps: [{percent: 10, minutes: 0}]": (":1: steps[0].minutes", "at least 1"),
    "strategy: immediate\nsteps: [{percent: 10}]": ("rollout.yaml", "the strategy immediate has no steps"),
    "errors: {tolerance: 0.5}": (":1: errors.tolerance", "at least 1"),
    "errors: {ceiling: 50}": (":1: errors.ceiling", "at most 1"),
    "errors: {celing: 0.5}": (":1: errors.celing", "did you mean ceiling"),
    "latency: {tolerance: 2}": (":1: latency.limitMs", "is missing"),
    "latency: {limitMs: 0}": (":1: latency.limitMs", "more than 0"),
    "latency: 200": (":1: latency", "must be a map"),
    "minRequests: many": (":1: minRequests", "got: 'many'"),
    "min_requests: 5": (":1: min_requests", "did you mean minRequests"),
    "maxHold: -1": (":1: maxHold", "at least 0"),
    "onMaxHold: stop": (":1: onMaxHold", "must be one of"),
    "bakeMinutes: 0": (":1: bakeMinutes", "at least 1"),
    "keep: 0": (":1: keep", "at least 1"),
    "machine: {accelerator: nvidia-l4, type: g2-standard-8}": (":1: machine.accelerator", "form"),
    "machine: {type: g2-standard-8, minReplicas: 3, maxReplicas: 2}": (":1: machine.maxReplicas", "3 or more"),
    "serviceAccount: me@example.com": (":1: serviceAccount", "form"),
    "- canary": ("rollout.yaml", "must be a map"),
    "keep: 3\nkeep: 4": (":2:1", "duplicate of line 1"),
    "steps: [": (":2:1", "is not valid YAML"),
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistake_in_the_settings(deploy: Deploy, fake: FakeVertex, tmp_path: Path, text: str) -> None:
    (tmp_path / "rollout.yaml").write_text(text + "\n")
    answer = deploy("start", "scan@4")
    place, part = MISTAKES[text]
    assert answer.code == 1
    assert f"rollout.yaml{place}" in answer.err or place == "rollout.yaml", answer.err
    assert part in answer.err, answer.err
    assert fake.requests == []


def test_all_mistakes_at_once(ask: Ask, fake: FakeVertex, tmp_path: Path) -> None:
    (tmp_path / "rollout.yaml").write_text("keep: 0\nbakeMinutes: x\n")
    answer = ask("deploy", "start", "endpoints/7001", "scan@production", "--settings", "rollout.yaml")
    assert answer.code == 1
    for part in ("rollout.yaml:1: keep", "rollout.yaml:2: bakeMinutes", "ENDPOINT: is not", "MODEL: is not"):
        assert part in answer.err
    assert answer.err.count("expected:") == 4


@pytest.mark.parametrize(
    ("model", "part"),
    [
        ("scan", "ID@NUMBER"),
        ("scan@0", "ID@NUMBER"),
        ("projects/other/locations/europe-west4/models/scan@4", "is not next to the endpoint"),
    ],
)
def test_mistake_in_the_model(deploy: Deploy, fake: FakeVertex, model: str, part: str) -> None:
    answer = deploy("start", model)
    assert answer.code == 1
    assert part in answer.err
    assert fake.requests == []


@pytest.mark.parametrize("time", ["50", "m", "1d", "-5m"])
def test_mistake_in_the_time(deploy: Deploy, time: str) -> None:
    answer = deploy("watch", f"--for={time}")
    assert answer.code == 1
    assert "such as 50m" in answer.err


def test_missing_settings(ask: Ask, fake: FakeVertex) -> None:
    answer = ask("deploy", "watch", ENDPOINT, "--settings", "missing.yaml")
    assert answer.code == 1
    assert "missing.yaml: no such file" in answer.err
