"""`gpu-ci rented` on the fake API: what starts, what is paused, and what a failure leaves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from gpu_ci.cli.commands import gpu_ci
from gpu_manager.cli import rented_command
from gpu_manager.suppliers.jarvislabs.api import TOKEN as TOKEN_VARIABLE
from gpu_manager.suppliers.jarvislabs.api import TOKEN_FILE, URLS

from tests.manager.suppliers.jarvislabs.fake import TOKEN, FakeJarvisLabs, served

RESUME, PAUSE, LIST = "templates/vm/resume", "templates/vm/pause", "users/fetch"


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeJarvisLabs]:
    monkeypatch.setattr(rented_command, "_POLL_SEC", 0.02)
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    monkeypatch.delenv(TOKEN_FILE, raising=False)
    with served() as made:
        for zone, url in made.urls.items():
            monkeypatch.setitem(URLS, zone, url)
        yield made


def add(fake: FakeJarvisLabs, name: str = "tests", status: str = "Paused", **fields: Any) -> int:
    given = {"gpu_type": "H100", "num_gpus": 2, "hdd": 100, "region": "india-noida-01", "instance_name": name}
    return int(fake.add(**{**given, "status": status, **fields})["machine_id"])


def call(*arguments: str) -> Result:
    return CliRunner().invoke(gpu_ci, ["rented", *arguments])


def states(fake: FakeJarvisLabs) -> list[str]:
    return [row["status"] for row in fake.machines.values()]


def sent(fake: FakeJarvisLabs, path: str) -> int:
    return sum(each[2].startswith(path) for each in fake.requests)


def test_start_waits_until_the_vm_runs_and_prints_it_and_again_changes_nothing(fake: FakeJarvisLabs) -> None:
    before = add(fake)
    for _ in range(2):
        done = call("start", "tests", "--json")
        assert done.exit_code == 0, done.stderr
        [machine] = json.loads(done.stdout)["machines"]
        assert {key: machine[key] for key in ("name", "gpu", "region", "status", "usdPerHour")} == {
            "name": "tests", "gpu": "2xH100", "region": "IN2", "status": "running", "usdPerHour": 5.0,
        }  # fmt: skip
        # A resume gives the VM another number.
        assert machine["id"] != before
    assert sent(fake, RESUME) == 1


@pytest.mark.parametrize(
    ("answer", "code", "resumes"),
    [
        ((0, None), 0, 1),
        ((503, {}), 0, 2),
        ((400, {"message": "no capacity"}), 1, 1),
        ((402, {"message": "Please recharge"}), 1, 1),
    ],
)
def test_a_start_is_requested_again_only_without_an_answer(
    fake: FakeJarvisLabs, monkeypatch: pytest.MonkeyPatch, answer: tuple[int, Any], code: int, resumes: int
) -> None:
    monkeypatch.setattr(rented_command, "_REPEAT_AFTER_SEC", 0.1)
    add(fake)
    fake.answers[RESUME] = answer
    done = call("start", "tests", "--timeout", "30s")
    assert (done.exit_code, sent(fake, RESUME)) == (code, resumes)
    assert code == 0 or str(answer[1]["message"]) in done.stderr


def test_a_start_that_takes_too_long_says_how_to_stop_the_vm(fake: FakeJarvisLabs) -> None:
    add(fake, status="Rebooting")
    done = call("start", "tests", "--timeout", "0s")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "hint: gpu-ci rented stop tests" in done.stderr


def test_stop_pauses_every_vm_of_the_name_and_no_other(fake: FakeJarvisLabs) -> None:
    for status in ("Running", "Creating", "Paused"):
        add(fake, status=status)
    add(fake, "other", "Running")
    done = call("stop", "tests", "--json")
    assert done.exit_code == 0, done.stderr
    assert states(fake) == ["Paused", "Paused", "Paused", "Running"]
    assert [each["status"] for each in json.loads(done.stdout)["machines"]] == ["paused"] * 3


def test_stop_exits_with_1_if_a_vm_still_runs_or_pauses(fake: FakeJarvisLabs) -> None:
    fake.pausing.append(add(fake, status="Running"))
    add(fake, status="Running")
    done = call("stop", "tests", "--timeout", "1s")
    assert (done.exit_code, done.stdout, states(fake)) == (1, "", ["Pausing", "Paused"])
    assert "costs money" in done.stderr


@pytest.mark.parametrize("path", [LIST, PAUSE])
@pytest.mark.parametrize("answer", [(0, None), (503, b"<html>"), (200, b"<html>"), (200, [])])
def test_a_request_without_an_answer_leaves_no_vm_on(
    fake: FakeJarvisLabs, monkeypatch: pytest.MonkeyPatch, path: str, answer: tuple[int, Any]
) -> None:
    monkeypatch.setattr(rented_command, "_REPEAT_AFTER_SEC", 0.1)
    add(fake, status="Running")
    fake.answers[path] = answer
    assert (call("stop", "tests").exit_code, states(fake)) == (0, ["Paused"])


def test_a_refused_pause_is_repeated_and_the_other_vms_are_paused(
    fake: FakeJarvisLabs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rented_command, "_REPEAT_AFTER_SEC", 0.1)
    add(fake, status="Running")
    add(fake, status="Running")
    fake.answers[PAUSE] = (400, {"message": "busy"})
    assert (call("stop", "tests").exit_code, states(fake)) == (0, ["Paused", "Paused"])


def test_a_vm_that_the_list_shows_late_is_paused_too(fake: FakeJarvisLabs, monkeypatch: pytest.MonkeyPatch) -> None:
    add(fake)
    late = add(fake, status="Running")
    fake.hidden.add(late)
    monkeypatch.setattr(rented_command.time, "sleep", lambda _: fake.hidden.clear())
    assert (call("stop", "tests").exit_code, states(fake)) == (0, ["Paused", "Paused"])


@pytest.mark.parametrize("word", ["start", "stop"])
def test_a_name_that_means_no_vm_is_wrong_input(fake: FakeJarvisLabs, word: str) -> None:
    add(fake)
    assert "expected: one of tests" in call(word, "test").stderr
    add(fake, "box", "Running", framework="pytorch")
    assert "is a container" in call(word, "box").stderr
    assert (call(word, "test").exit_code, call(word, "box").exit_code, fake.posts()) == (2, 2, [])


def test_two_paused_vms_of_a_name_are_not_started(fake: FakeJarvisLabs) -> None:
    add(fake)
    add(fake)
    assert (call("start", "tests").exit_code, fake.posts()) == (2, [])


def test_list_prints_the_vms_with_prices_in_usd_only(fake: FakeJarvisLabs) -> None:
    add(fake)
    add(fake, "box", "Running", framework="pytorch")
    assert [line.split() for line in call("list").stdout.splitlines()[2:]] == [
        ["tests", "2xH100", "IN2", "paused", "5.0"]
    ]
    fake.pays_in_inr = True
    [machine] = json.loads(call("list", "--json").stdout)["machines"]
    assert (machine["name"], machine["usdPerHour"]) == ("tests", None)


def test_the_key_comes_from_a_file_or_a_variable_and_is_never_shown(
    fake: FakeJarvisLabs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text(f"{TOKEN}\n")
    monkeypatch.setenv(TOKEN_VARIABLE, "another-key")
    assert call("list", "--token-file", str(tmp_path / "key")).exit_code == 0
    for arguments in (("list",), ("stop", "tests")):
        refused = call(*arguments)
        assert refused.exit_code == 1
        assert "answered 401" in refused.stderr
        assert "hint: give --token-file" in refused.stderr
        assert "another-key" not in refused.output
    monkeypatch.delenv(TOKEN_VARIABLE)
    assert TOKEN_FILE in call("list").stderr
    assert call("list", "--token-file", "missing").exit_code == 2
