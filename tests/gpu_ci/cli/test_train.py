"""`gpu-ci train`: results, exit codes, the name of the run, and mistakes in settings and options."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from gpu_ci.cli.deploy import rollout_inputs
from gpu_ci.cli.train import inputs
from gpu_ci.cli.train import jobs as commands
from gpu_ci.delivery.rollout.loop import Clock

from tests.gpu_ci.cli.conftest import Answer, Ask
from tests.gpu_ci.delivery.fake_jobs import FakeJobs, client
from tests.gpu_ci.delivery.fake_vertex import PARENT, served
from tests.gpu_ci.delivery.test_training import FULL, IMAGE, REQUIRED

PAGE = Path(__file__).resolve().parents[3] / "docs/guides/train-from-ci.md"
Train = Callable[..., Answer]
RUN = {"GITHUB_REPOSITORY": "acme/scan", "GITHUB_RUN_ID": "1", "GITHUB_JOB": "train", "GITHUB_RUN_ATTEMPT": "1"}


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeJobs:
    for name, value in RUN.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "planted")
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    fake = FakeJobs()
    monkeypatch.setattr(inputs, "connect", lambda _: client(fake))
    monkeypatch.setattr(commands, "real_clock", lambda: Clock(lambda: fake.now, fake.sleep))
    return fake


@pytest.fixture
def train(ask: Ask, fake: FakeJobs, tmp_path: Path) -> Train:
    (tmp_path / "train.yaml").write_text(yaml.safe_dump(FULL))

    def call(command: str, *words: str) -> Answer:
        return ask("train", command, PARENT, *(["train.yaml"] if command == "submit" else []), *words)

    return call


def test_submit_wait_and_cancel(train: Train, fake: FakeJobs, ask: Ask) -> None:
    answer = train("submit")
    assert answer.code == 0
    found = answer.json
    assert (found["job"], found["state"]) == (f"{PARENT}/customJobs/4711", "QUEUED")
    assert answer.err.startswith("worst-case cost: $")
    assert f"${found['worstCaseUsd']:,.2f} and the fee of Vertex AI: 1.5 h, 4 x g2-standard-12" in answer.err
    assert train("submit").json["job"] == found["job"]
    assert len(fake.jobs) == 1
    answer = train("wait")
    assert (answer.code, answer.json["state"]) == (0, "SUCCEEDED")
    assert answer.err.splitlines()[-1] == f"SUCCEEDED: {found['job']}"
    assert ask("train", "wait", found["job"]).code == 0
    assert train("cancel").json["state"] == "SUCCEEDED"


def test_cost_is_printed_before_the_job_is_created(train: Train, fake: FakeJobs) -> None:
    fake.fault = lambda number, method, path: "forbidden" if method == "POST" else None
    answer = train("submit")
    assert answer.code == 1
    assert answer.err.startswith("worst-case cost: $")
    assert "denied" in answer.err
    assert answer.out == ""


def test_unknown_price(train: Train, tmp_path: Path) -> None:
    (tmp_path / "train.yaml").write_text(yaml.safe_dump(REQUIRED | {"strategy": "FLEX_START"}))
    answer = train("submit")
    assert answer.json["worstCaseUsd"] is None
    assert answer.err.startswith("worst-case cost: unknown: the catalog has no flex-start price in europe-west4")


@pytest.mark.parametrize(("result", "code"), [("FAILED", 2), ("EXPIRED", 2), ("PARTIALLY_SUCCEEDED", 2)])
def test_wait_for_a_job_that_fails(train: Train, fake: FakeJobs, result: str, code: int) -> None:
    fake.end = result
    name = train("submit").json["job"]
    answer = train("wait")
    assert (answer.code, answer.json["state"]) == (code, result)
    assert f"gcloud ai custom-jobs stream-logs {name}" in answer.err


def test_cancelled(train: Train, fake: FakeJobs) -> None:
    name = train("submit").json["job"]
    answer = train("cancel")
    assert (answer.code, answer.json["state"]) == (0, "CANCELLING")
    answer = train("wait")
    assert (answer.code, answer.json["state"]) == (3, "CANCELLED")
    assert train("cancel").code == 0
    assert train("submit").json == answer.json | {
        key: train("submit").json[key] for key in ("worstCaseUsd", "worstCase")
    }, "a repeated step does not start a cancelled job again"
    assert list(fake.jobs) == [name]


def test_cancel_that_google_does_not_execute(train: Train, fake: FakeJobs, monkeypatch: pytest.MonkeyPatch) -> None:
    train("submit")
    fake.fault = lambda number, method, path: "forbidden" if path.endswith(":cancel") else None
    answer = train("cancel")
    assert (answer.code, "denied" in answer.err) == (1, True)
    fake.fault = lambda number, method, path: None
    monkeypatch.setattr(fake, "cancel", lambda name: None)
    answer = train("cancel")
    assert answer.code == 1
    assert "not cancelled after a minute" in answer.err


def test_time_is_over(train: Train, fake: FakeJobs) -> None:
    name = train("submit").json["job"]
    answer = train("wait", "--for", "5m")
    assert (answer.code, answer.json["state"]) == (4, "RUNNING")
    assert f"gpu-ci train wait {name}" in answer.err
    assert fake.active() == [name]


def test_run_without_a_job(train: Train, fake: FakeJobs) -> None:
    begin = fake.now
    assert (train("cancel").code, train("cancel").json) == (0, {"job": None})
    assert fake.now - begin > 60, "a list may be late"
    answer = train("wait")
    assert answer.code == 1
    assert "this run has no job" in answer.err


def test_missing_job(ask: Ask, fake: FakeJobs) -> None:
    for command in ("wait", "cancel"):
        answer = ask("train", command, f"{PARENT}/customJobs/1")
        assert answer.code == 1
        assert "is not found" in answer.err


def test_quota(train: Train, fake: FakeJobs) -> None:
    fake.fault = lambda number, method, path: "quota" if method == "POST" else None
    answer = train("submit")
    assert answer.code == 1
    assert "Quota exceeded" in answer.err
    assert "hint: request more quota" in answer.err


def test_outage_hints_at_the_same_command(train: Train, fake: FakeJobs) -> None:
    fake.fault = lambda number, method, path: "outage"
    answer = train("submit")
    assert answer.code == 1
    assert "hint: run the same command again" in answer.err


@pytest.mark.parametrize("name", RUN)
def test_each_run_has_its_own_job(train: Train, fake: FakeJobs, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    train("submit")
    monkeypatch.setenv(name, "2")
    train("submit")
    train("submit", "--key", "large")
    assert len(fake.jobs) == 3
    assert train("wait", "--key", "large").json["job"] == list(fake.jobs)[2]


def test_other_settings_need_a_key(train: Train, fake: FakeJobs) -> None:
    train("submit")
    answer = train("submit", "--env", "SIZE=large")
    assert answer.code == 1
    assert "this run has a job with other settings" in answer.err
    assert "--key" in answer.err
    assert train("submit", "--env", "SIZE=large", "--key", "large").code == 0
    [pool, _] = fake.posts()[1]["jobSpec"]["workerPoolSpecs"]
    assert pool["containerSpec"]["env"] == [
        {"name": "DATA", "value": "gs://acme/scan"},
        {"name": "SIZE", "value": "large"},
    ]


def test_outside_github_actions_the_run_needs_a_key(
    train: Train, fake: FakeJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_RUN_ID")
    for command in ("submit", "wait", "cancel"):
        answer = train(command)
        assert answer.code == 1
        assert "--key: is missing" in answer.err
    assert fake.requests == []
    assert train("submit", "--key", "today").code == 0
    assert fake.posts()[0]["displayName"] == "today"


def test_summary_of_a_step(train: Train, fake: FakeJobs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(file))
    fake.end = "FAILED"
    train("submit")
    train("wait")
    text = file.read_text()
    assert f"| job | {PARENT}/customJobs/4711 |\n| state | QUEUED |" in text
    assert "| worst-case cost | $" in text
    assert "| state | FAILED |" in text
    assert "| error | The replica workerpool0-0 exited with 1 \\| &lt;b> |" in text


def test_real_client_and_clock(ask: Ask, fake: FakeJobs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.yaml").write_text(yaml.safe_dump(REQUIRED))
    with served(fake) as address:
        monkeypatch.setenv("GOOGLE_VERTEX_AI_CUSTOM_ENDPOINT", f"{address}/v1/")
        monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "planted")
        monkeypatch.setattr(commands, "real_clock", rollout_inputs.real_clock)
        for name in RUN:
            monkeypatch.delenv(name, raising=False)
        answer = ask("train", "submit", PARENT, "train.yaml", "--key", "one")
        assert (answer.code, answer.json["state"]) == (0, "QUEUED"), answer.err
        fake.now += 9999
        assert ask("train", "wait", PARENT, "--key", "one").code == 0


# Mistakes

TAG = IMAGE.partition("@")[0] + ":1"
MISTAKES = {
    "image": (TAG, ":1: image", "form"),
    "machineType": ("g2-standart-12", ":1: machineType", "did you mean g2-standard-12"),
    "machineType ": ("n1-standard-8", ":1: machineType", "n1-standard-8+nvidia-tesla-t4x1"),
    "machineType  ": ("a4x-maxgpu-4g-metal", ":1: machineType", "nvidia-gb300, which Vertex AI does not offer"),
    "machineType   ": ("g4-standard-6", ":1: machineType", "a part of a GPU"),
    "machineType    ": ("a3-megagpu-8g", ":1: machineType", "is not in europe-west9"),
    "timeoutMinutes": (None, ":1: timeoutMinutes", "such as timeoutMinutes: 360"),
    "timeoutMinutes ": ("6h", ":1: timeoutMinutes", "got: '6h'"),
    "timeoutMinutes  ": (0, ":1: timeoutMinutes", "at least 1"),
    "timeout": ("6h", ":1: timeout", "did you mean timeoutMinutes"),
    "replicas": (0, ":1: replicas", "at least 1"),
    "strategy": ("spot", ":1: strategy", "did you mean SPOT"),
    "maxWaitMinutes": (60, ":1: maxWaitMinutes", "only for the strategy FLEX_START"),
    "reservation": ("train", ":1: reservation", "such as reservation: projects/acme/zones"),
    "disableRetries": ("yes", ":1: disableRetries", "must be true or false"),
    "serviceAccount": ("me@example.com", ":1: serviceAccount", "form"),
    "network": ("projects/acme/global/networks/train", ":1: network", "such as network: projects/123456789012"),
    "args": (["--epochs", 10], ":1: args[1]", "must be text"),
    "command": ("python train.py", ":1: command", "must be a list"),
    "env": ({"HF_TOKEN": "planted-1"}, ":1: env.HF_TOKEN", "looks like a secret"),
    "env ": ({"LOGIN": "ghp_planted1234567890"}, ":1: env.LOGIN", "Secret Manager"),
    "env  ": ({"2ND": "x"}, ":1: env.2ND", "no digit first"),
    "env   ": ({"EPOCHS": 10}, ":1: env.EPOCHS", "must be text"),
    "env    ": ("HF_TOKEN=planted", ":1: env", "must be a map"),
    "args ": (["--token=ghp_planted1234567890"], ":1: args[0]", "looks like a secret"),
}


@pytest.mark.parametrize("key", MISTAKES)
def test_mistake_in_the_settings(ask: Ask, fake: FakeJobs, tmp_path: Path, key: str) -> None:
    value, where, part = MISTAKES[key]
    name = key.strip()
    # The wrong line is the first one.
    document = {name: value} | {each: REQUIRED[each] for each in REQUIRED if each != name}
    (tmp_path / "train.yaml").write_text(yaml.safe_dump(document, sort_keys=False, default_flow_style=None))
    parent = PARENT.replace("west4", "west9") if "west9" in part else PARENT
    answer = ask("train", "submit", parent, "train.yaml")
    assert answer.code == 1
    assert f"train.yaml{where}" in answer.err, answer.err
    assert part in answer.err, answer.err
    for label in ("got:", "expected:", "hint:"):
        assert label in answer.err, answer.err
    assert "planted" not in answer.err + answer.out
    assert fake.requests == []


def test_mistakes_that_depend_on_the_strategy(train: Train, tmp_path: Path) -> None:
    wrong = {"strategy": "SPOT", "reservation": "projects/acme/zones/europe-west4-b/reservations/train"}
    (tmp_path / "train.yaml").write_text(yaml.safe_dump(REQUIRED | wrong))
    assert "is only for the strategy STANDARD" in train("submit").err
    (tmp_path / "train.yaml").write_text(yaml.safe_dump(REQUIRED | {"strategy": "FLEX_START", "timeoutMinutes": 10081}))
    assert "at most 10080, which are 7 days" in train("submit").err


def test_all_mistakes_at_once(ask: Ask, fake: FakeJobs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("GITHUB_JOB")
    (tmp_path / "train.yaml").write_text("machineType: l4\nreplicas: x\nenv: {A: b}\n")
    answer = ask("train", "submit", "europe-west4", "train.yaml", "--image", TAG, "--env", "API_KEY=planted")
    assert answer.code == 1
    for part in (
        "LOCATION: is not a location",
        "--key: is missing",
        "--image: image",
        "train.yaml:1: machineType",
        "train.yaml:2: replicas",
        "--env: env.API_KEY",
        "train.yaml: timeoutMinutes: is missing",
    ):
        assert part in answer.err, answer.err
    for label in ("got:", "expected:", "hint:"):
        assert answer.err.count(label) == 7, answer.err
    assert "planted" not in answer.err


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--env", "planted"], "--env: is not a variable"),
        (["--env", "MY_SECRET=planted"], "--env: env.MY_SECRET"),
        (["--image", "scan"], "--image: image"),
    ],
)
def test_mistake_in_an_option(train: Train, fake: FakeJobs, words: list[str], part: str) -> None:
    answer = train("submit", *words)
    assert answer.code == 1
    assert part in answer.err
    assert "planted" not in answer.err
    assert fake.requests == []


def test_mistake_in_the_file(ask: Ask, fake: FakeJobs, tmp_path: Path) -> None:
    (tmp_path / "list.yaml").write_text("- 1\n")
    (tmp_path / "twice.yaml").write_text("image: a\nimage: b\n")
    for file, part in {
        "missing.yaml": "no such file",
        "list.yaml": "must be a map",
        "twice.yaml": ":2:1",
    }.items():
        answer = ask("train", "submit", PARENT, file)
        assert answer.code == 1
        assert file in answer.err
        assert part in answer.err, answer.err


def test_mistake_in_the_job(ask: Ask, fake: FakeJobs) -> None:
    for command in ("wait", "cancel"):
        answer = ask("train", command, "customJobs/1")
        assert answer.code == 1
        assert "JOB: is not the name of a job" in answer.err
    answer = ask("train", "submit", f"{PARENT}/customJobs/1", "train.yaml")
    assert answer.code == 1
    assert "LOCATION: is not a location" in answer.err


# The page


def test_workflow_and_settings_of_the_page(ask: Ask, fake: FakeJobs, tmp_path: Path) -> None:
    blocks = re.findall(r"^```(?:yml)?\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "train.yaml").write_text(blocks[0].replace("sha256:…", f"sha256:{'0' * 64}"))
    [job] = yaml.safe_load(blocks[1])["jobs"].values()
    words = {"$LOCATION": job["env"]["LOCATION"], "$IMAGE": IMAGE}
    steps = [each for each in job["steps"] if each.get("run", "").startswith("gpu-ci ")]
    codes = []
    for step in steps:
        command = [words.get(word, word) for word in shlex.split(step["run"])]
        codes.append(ask(*command[1:]).code)
    assert codes == [0, 0, 0]
    assert [each.get("if") for each in steps] == [None, None, "${{ cancelled() }}"]
    assert fake.posts()[0]["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["imageUri"] == IMAGE
    workflow = tmp_path / "train.yml"
    workflow.write_text(f"on: workflow_dispatch\n{blocks[1]}")
    checker = Path(sys.executable).with_name("check-jsonschema")
    subprocess.run([checker, "--quiet", "--builtin-schema", "vendor.github-workflows", workflow], check=True)
