"""The output of `gpu-ci manager status` and `gpu-ci explain` about a pass, and the log of the pass."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from gpu_ci.cli.commands import gpu_ci
from gpu_ci.cli.output import InputError
from gpu_manager.budgets import Budgets, Team
from gpu_manager.cli import options
from gpu_manager.cli.run_command import Answering, Log, Loop, is_idle, limited_pause_sec
from gpu_manager.config import read
from gpu_manager.decision.decide import decide
from gpu_manager.loop import Event, PassResult
from gpu_manager.memory import CancelledRun, Memory
from gpu_manager.metrics.prometheus import Prometheus
from gpu_manager.model import Observation, RunKey, Runner
from gpu_manager.ports import Refused, Unavailable
from gpu_manager.stores.sqlite import SqliteStore
from gpu_manager.view import merged, view

from tests.manager.stores.fake_storage import Stored
from tests.manager.stores.test_bucket import Cloud
from tests.manager.stores.test_sqlite import RECORDS
from tests.manager.test_config import CONFIG
from tests.manager.test_decide import NOW, POOL, job, machine, observe

URL = "https://github.com/example-org/kernels/actions/runs/{}/job/{}"


def one_pass(observation: Observation, *events: Event) -> PassResult:
    return PassResult(observation, decide([POOL], observation, Memory()), list(events))


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    """Return a folder with a configuration and a state: three jobs wait, and the pool has two machines, one of them
    busy.
    """
    (tmp_path / "manager.json").write_text(json.dumps(CONFIG))
    jobs = (job(1), job(2), job(3), job(4, status="in_progress", runner="l4-a"))
    observation = observe(jobs=jobs, machines=(machine("l4-a"),), runners=(Runner(1, "l4-a", online=True, busy=True),))
    store = SqliteStore(tmp_path / "state.sqlite")
    store.publish(view([POOL], one_pass(observation)))
    store.close()
    return tmp_path


def call(folder: Path, *arguments: str) -> Result:
    where = ["--config", str(folder / "manager.json"), "--state", str(folder / "state.sqlite")]
    return CliRunner().invoke(gpu_ci, [*arguments, *where])


def test_status_shows_each_job_with_its_machine_or_its_reason(asked: Path) -> None:
    document = json.loads(call(asked, "manager", "status", "--json").output)
    assert [(each["id"], each.get("reason", "")) for each in document["jobs"]] == [
        (1, ""),
        (2, "at-max"),
        (3, "at-max"),
        (4, ""),
    ]
    assert document["machines"][0]["status"] == "busy"
    text = call(asked, "manager", "status").output
    assert "(job 4): runs on l4-a" in text
    assert "at-max: 2 of 2 machines are in use" in text


@pytest.mark.parametrize(("ago_sec", "text"), [(119, "119 s"), (239, "3 min"), (240, "4 min"), (7200, "2 h")])
def test_an_old_last_pass_means_that_no_manager_runs(
    asked: Path, monkeypatch: pytest.MonkeyPatch, ago_sec: float, text: str
) -> None:
    monkeypatch.setattr("time.time", lambda: NOW + ago_sec)
    warning = ": no manager runs with this --state, so this state may be out of date"
    expected = f"as of {text} ago{warning if ago_sec >= 240 else ''}"
    assert call(asked, "manager", "status").output.splitlines()[0] == expected
    explained = call(asked, "explain", URL.format(12, 2)).output.splitlines()
    assert (explained[0] == expected) is (ago_sec >= 240)


def test_explain_finds_the_job_by_its_address(asked: Path) -> None:
    assert "at-max" in call(asked, "explain", URL.format(12, 2)).output
    assert "runs on l4-a" in call(asked, "explain", URL.format(14, 4)).output
    found = json.loads(call(asked, "explain", URL.format(12, 2), "--json").output)
    assert [each["nextStep"] for each in found["jobs"]] == ["wait for a machine, or raise the pool's max"]


def test_explain_says_that_the_manager_has_cancelled_the_run(asked: Path) -> None:
    run = CancelledRun(RunKey("example-org/kernels", 12), 1, "job 2 was queued for 601 s")
    found = one_pass(observe())
    found.decision.memory.cancelled["a run"] = run
    store = SqliteStore(asked / "state.sqlite")
    store.publish(view([POOL], found))
    store.close()
    assert "attempt 1 of this run: queue-timeout: job 2 was queued" in call(asked, "explain", URL.format(12, 2)).output
    assert "queue-timeout" not in call(asked, "explain", URL.format(13, 2)).output


@pytest.mark.parametrize(
    ("limited", "text"),
    [
        (None, "the manager's last pass got no complete answer from GitHub"),
        (NOW + 90, "github-limited: GitHub's rate limit ends in 90 s; wait until the time that GitHub names"),
    ],
)
def test_an_unknown_queue_is_reported_with_its_reason(
    asked: Path, monkeypatch: pytest.MonkeyPatch, limited: float | None, text: str
) -> None:
    monkeypatch.setattr("time.time", lambda: NOW)
    store = SqliteStore(asked / "state.sqlite")
    store.publish(view([POOL], one_pass(observe(jobs=None, github_limited_until=limited))))
    store.close()
    assert f"jobs: unknown: {text}" in call(asked, "manager", "status").output
    found = call(asked, "explain", URL.format(12, 2))
    assert (found.exit_code, text in found.stderr) == (2, True)


def test_without_a_manager_there_is_nothing_to_show(tmp_path: Path) -> None:
    (tmp_path / "manager.json").write_text(json.dumps(CONFIG))
    found = call(tmp_path, "manager", "status")
    assert found.exit_code == 2
    assert "no manager has written here yet" in found.stderr


@pytest.mark.parametrize("command", [["manager", "status"], ["explain", URL.format(12, 2)]])
@pytest.mark.parametrize("folder", ["", "another sandbox"])
def test_without_files_the_hint_has_those_of_the_sandbox(
    asked: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], folder: str
) -> None:
    monkeypatch.chdir(asked)
    monkeypatch.setenv("XDG_STATE_HOME", str(asked / "state"))
    monkeypatch.setenv("PULUMI_SANDBOX_DIR", folder)
    mine = CliRunner().invoke(gpu_ci, command)
    assert (mine.exit_code, "gpu-ci job" in mine.stderr) == (2, False)
    assert ("add --kubernetes" in mine.stderr) == (command[0] == "explain")
    (asked / (folder or ".sandbox") / "manager").mkdir(parents=True)
    for name in ("manager.json", "state.sqlite"):
        shutil.copy(asked / name, Path(folder or ".sandbox", "manager", name))
    without_state = CliRunner().invoke(gpu_ci, command)
    (asked / "manager.json").unlink()
    without_both = CliRunner().invoke(gpu_ci, command)
    hints = [each.stderr.partition("for the manager of `gpu-ci job`: ")[2] for each in (without_state, without_both)]
    assert hints[0] == hints[1] != ""
    found = CliRunner().invoke(gpu_ci, [*command, *shlex.split(hints[0])])
    assert (found.exit_code, "at-max: 2 of 2 machines are in use" in found.output) == (0, True)


def test_the_log_has_each_change_of_a_job_once() -> None:
    lines: list[str] = []
    log = Log(as_json=True, write=lines.append)
    waiting, running = (
        observe(jobs=(job(1),)),
        observe(jobs=(job(1, status="in_progress", runner="l4-a"),), machines=(machine("l4-a"),)),
    )
    for observation in (waiting, waiting, running, observe()):
        log.report(one_pass(observation))
    assert [json.loads(line)["event"] for line in lines] == ["job-covered", "job-runs", "job-ended"]


def test_the_log_has_the_time_until_the_next_try_of_a_job_and_each_try_once() -> None:
    lines: list[str] = []
    log = Log(as_json=True, write=lines.append)
    closed = {"us-central1 nvidia-l4 spot": (NOW + 100, "L4")}
    for now, until in ((NOW, NOW + 100), (NOW + 10, NOW + 100), (NOW + 101, NOW + 221)):
        closed["us-central1 nvidia-l4 spot"] = (until, "L4")
        observation = observe(jobs=(job(1),), now=now)
        log.report(PassResult(observation, decide([POOL], observation, Memory(closed_quotas=dict(closed))), []))
    detail = "over-quota: the quota L4 is used up in us-central1; next try in"
    assert [json.loads(line)["detail"] for line in lines] == [f"{detail} 100 s", f"{detail} 120 s"]


def test_the_loop_waits_as_long_as_githubs_rate_limit() -> None:
    assert limited_pause_sec(one_pass(observe(jobs=None, github_limited_until=NOW + 50)), 10) == 50
    # Google lists a preemption for an hour, so it must be read within that time.
    assert limited_pause_sec(one_pass(observe(jobs=None, github_limited_until=NOW + 3600)), 10) == 60


def test_a_pass_with_an_unknown_source_is_not_idle() -> None:
    assert is_idle(one_pass(observe()))
    assert not is_idle(one_pass(observe(machines=None)))


def test_a_job_that_can_get_no_machine_does_not_keep_the_manager_running() -> None:
    no_pool, expired = job(1, "self-hosted", "gpu", "l5"), job(2, age=25 * 3600)
    found = one_pass(observe(jobs=(no_pool, expired)))
    assert [reason.code for reason in found.decision.reasons.values()] == ["expired", "no-pool"]
    assert is_idle(found)
    approval = one_pass(observe(jobs=(no_pool, job(3, status="waiting"))))
    assert "approval-pending" in [reason.code for reason in approval.decision.reasons.values()]
    assert not is_idle(approval)
    assert not is_idle(one_pass(observe(jobs=(no_pool,), machines=(machine("l4-a"),))))


def test_status_and_explain_read_the_object_that_managers_share(asked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud = Cloud()
    store = cloud.store("a")
    store.take()
    store.publish(json.loads(call(asked, "manager", "status", "--json").output))
    monkeypatch.setattr("gpu_ci.mailbox.google_objects.GoogleObjects", cloud.storage.bucket)
    where = ["--config", str(asked / "manager.json"), "--state", "gs://state/manager.json"]
    found = CliRunner().invoke(gpu_ci, ["manager", "status", *where])
    assert "at-max: 2 of 2 machines are in use" in found.output
    assert "at-max" in CliRunner().invoke(gpu_ci, ["explain", URL.format(12, 2), *where]).output


def test_the_configuration_may_be_an_object(asked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud = Cloud()
    cloud.storage.objects[("state", "config.json")] = Stored(json.dumps(CONFIG).encode(), 5, cloud.now)
    monkeypatch.setattr("gpu_ci.mailbox.google_objects.GoogleObjects", cloud.storage.bucket)
    assert options.configuration("gs://state/config.json") == read(asked / "manager.json")
    for address, text in (
        ("gs://other/config.json", "gs://other/config.json: does not exist"),
        ("gs://state", "--config: is not the address of an object"),
    ):
        with pytest.raises(InputError, match=text):
            options.configuration(address)


def test_a_state_file_that_is_no_sqlite_file_is_an_error_of_one_line(asked: Path) -> None:
    (asked / "state.sqlite").write_bytes(b"no database, and longer than the header of one" * 20)
    write_key(asked)
    for found in (call(asked, "manager", "status"), run_once(asked)):
        assert found.exit_code == 2
        assert "state.sqlite: the manager's state cannot be used" in found.stderr


def test_a_file_that_holds_no_key_is_refused_at_the_start(asked: Path) -> None:
    file = asked / "key.pem"
    found = [run_once(asked)]
    file.mkdir()
    found.append(run_once(asked))
    file.rmdir()
    file.write_text("no key")
    found.append(run_once(asked))
    assert [each.exit_code for each in found] == [2, 2, 2]
    assert [each.stderr.splitlines()[0].partition("key.pem: ")[2][:40] for each in found] == [
        "the App's key cannot be read: No such fi",
        "the App's key cannot be read: Is a direc",
        "does not contain an unencrypted RSA priv",
    ]


def run_once(folder: Path, *more: str) -> Result:
    return call(folder, "manager", "run", "--once", "--app-key", str(folder / "key.pem"), *more)


def write_key(folder: Path) -> None:
    """Write a private key in PEM form to key.pem."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = serialization.PrivateFormat.TraditionalOpenSSL
    content = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(content)


def test_a_signal_while_the_manager_starts_to_wait_ends_it(asked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The main thread holds the lock of the event at that time. A handler that sets the event would wait for ever."""

    def hold(_: SqliteStore, stopped: threading.Event, __: object) -> bool:
        with stopped._cond:  # type: ignore[attr-defined]
            os.kill(os.getpid(), signal.SIGTERM)
        return not stopped.wait(10)

    def give_up(*_: object) -> None:
        raise TimeoutError

    write_key(asked)
    monkeypatch.setattr(SqliteStore, "hold", hold)
    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(20)
    try:
        result = run_once(asked)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert (result.exit_code, result.output) == (0, "")


def test_the_views_of_two_loops_are_one_and_unknown_machines_of_one_are_unknown() -> None:
    first, second = (view([POOL], one_pass(observe(jobs=(job(number),)))) for number in (1, 2))
    both = merged([first, second])
    assert [each["id"] for each in both["jobs"]] == [1, 2]
    assert (len(both["pools"]), both["machines"]) == (2, [])
    assert merged([first, {**second, "machines": None}])["machines"] is None


class Broken:
    """A supplier and its channel whose code fails."""

    TITLE = "Broken"

    def __init__(self, error: Exception) -> None:
        self.channel, self.error = self, error

    def list(self, _: object) -> None:
        raise self.error

    def listen(self, _: object) -> None:
        raise self.error


def test_an_unexpected_error_of_a_suppliers_code_is_a_request_without_an_answer() -> None:
    asked = Answering(Broken(KeyError("hush")))
    assert asked.TITLE == "Broken"
    for method in (asked.list, asked.channel.listen):
        with pytest.raises(Unavailable, match=r"^(list|listen): the supplier's code failed: KeyError$"):
            method([])
    with pytest.raises(Refused, match=r"^no$"):
        Answering(Broken(Refused("no"))).list([])


def test_each_loop_reads_the_runner_groups_of_all_loops_and_measures_its_own_pools(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    read_groups: list[set[str]] = []
    adapter = "gpu_manager.github.adapter.GithubAdapter"
    monkeypatch.setattr(adapter, lambda url, app, owner, groups, **_: read_groups.append(groups))
    (tmp_path / "manager.json").write_text(json.dumps(CONFIG))
    config, app = read(tmp_path / "manager.json"), cast(Any, None)
    pools = {"compute-engine": [POOL], "toy": [replace(POOL, name="toy", runner_group="others")]}
    prometheus = Prometheus()
    Loop(
        "compute-engine", config, pools, app, "", app, Budgets((), lambda _: ()), Log(False), prometheus, measured=False
    )
    assert read_groups == [{POOL.runner_group, "others"}]
    value = prometheus.registry.get_sample_value
    assert value("gpu_ci_preemptions_total", {"pool": POOL.name}) == 0
    assert value("gpu_ci_preemptions_total", {"pool": "toy"}) is None


def test_a_loop_that_is_measured_writes_what_teams_have_spent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "manager.json").write_text(json.dumps(CONFIG))
    config, nothing, lines = read(tmp_path / "manager.json"), cast(Any, None), list[str]()
    monkeypatch.setattr("gpu_manager.github.adapter.GithubAdapter", lambda *_, **__: None)
    result = one_pass(observe())
    monkeypatch.setattr("gpu_manager.cli.run_command.Manager", lambda *_, **__: SimpleNamespace(step=lambda: result))
    team = Team("vision", frozenset({"example-org/kernels"}), 10.0)
    budgets, log = Budgets([team], lambda _: ()), Log(True, lines.append)
    Loop(
        "compute-engine", config, {"compute-engine": [POOL]}, nothing, "", nothing, budgets, log, None, measured=True
    ).step()
    [spent] = [found for line in lines if (found := json.loads(line)).get("event") == "team"]
    assert (spent["team"], spent["usd"], spent["budgetRatio"]) == ("vision", 0.0, 0.0)


def test_the_records_of_a_manager_are_printed_as_lines_of_json_since_a_time(asked: Path) -> None:
    store = SqliteStore(asked / "state.sqlite")
    store.add(RECORDS)
    store.close()
    lines = [each.line() for each in RECORDS]
    assert call(asked, "manager", "records", "--since", "2026-11-01").stdout.splitlines() == lines
    later = call(asked, "manager", "records", "--since", "2026-11-28")
    assert (later.stdout.splitlines(), later.stderr.partition(";")[0]) == (lines[1:], "records since 2026-11-28: 2")
    wrong = call(asked, "manager", "records", "--since", "soon")
    assert (wrong.exit_code, "--since: is not a time in the past" in wrong.stderr) == (2, True)
