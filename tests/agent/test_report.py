"""The machine's reports are short enough, are one line, are sent once, and contain no secret."""

from __future__ import annotations

import base64
import json
import math
from pathlib import Path
from typing import Any

import pytest
from gpu_agent.machine.serial_port import Device
from gpu_agent.outcomes import OUTCOMES
from gpu_agent.redact import redact
from gpu_agent.report import Reporter, Verdict, clean, fitted
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.fakes.clock import FakeClock


class Host:
    """A host that stores what is published and logged."""

    def __init__(self, *, down: bool = False) -> None:
        self.down = down
        self.published: list[tuple[str, Any]] = []
        self.within_sec: list[float] = []
        self.logged: list[tuple[str, str, dict[str, Any]]] = []

    def publish(self, key: str, value: str, within_sec: float = 15) -> None:
        self.within_sec.append(within_sec)
        if self.down:
            raise OSError("the metadata server answered 503")
        assert len(value.encode()) <= 1024
        self.published.append((key, json.loads(value)))

    def log(self, severity: str, message: str, within_sec: float, **fields: Any) -> None:
        self.within_sec.append(within_sec)
        self.logged.append((severity, message, fields))


def reporter(folder: Path, host: Host, clock: FakeClock | None = None) -> tuple[Reporter, list[str]]:
    lines: list[str] = []
    return Reporter(host, clock or FakeClock(), lines.append, folder), lines  # type: ignore[arg-type]


def test_a_step_is_no_guest_attribute_and_an_end_has_time(tmp_path: Path) -> None:
    host = Host(down=True)
    said, _ = reporter(tmp_path, host)
    said.step("check")
    said.end("check-failed", "wrong numbers")
    assert host.within_sec == [15, 15, 5]


def test_the_report_of_an_end_takes_at_most_the_time_before_the_power_off(tmp_path: Path) -> None:
    class Slow(Host):
        def publish(self, key: str, value: str, within_sec: float = 15) -> None:
            super().publish(key, value, within_sec)
            clock.sleep(within_sec)

    host, clock = Slow(), FakeClock()
    said, lines = reporter(tmp_path, host, clock)
    by = clock.now() + 20
    said.end("stopped", "the machine received a stop signal", lambda: by)
    assert host.within_sec == [15, 5, 0]
    assert [line.split()[0] for line in lines] == ["SMOKE-RESULT", "GPU-AGENT-END"]


def test_a_stop_during_the_report_of_an_end_shortens_the_rest(tmp_path: Path) -> None:
    host, ends = Host(), iter([math.inf, 1_003.0, 1_003.0, 1_003.0])
    said, _ = reporter(tmp_path, host)
    said.end("check-failed", "wrong numbers", lambda: next(ends))
    assert host.within_sec == [15, 3, 3]


def test_only_lines_for_the_gate_are_written_to_the_serial_port_directly(tmp_path: Path) -> None:
    console: list[str] = []
    said = Reporter(Host(), FakeClock(), lambda _: None, tmp_path, console.append)  # type: ignore[arg-type]
    said.say("| collecting torch")
    said.step("check")
    said.verdict(Verdict("pass", 0, "fine", "proven"))
    said.end("proven", "fine")
    assert [line.split(" ")[0] for line in console] == ["\nGPU-AGENT-STEP", "\nSMOKE-RESULT", "\nGPU-AGENT-END"]
    assert all(line.endswith("\n") for line in console)


def test_a_missing_serial_port_prevents_no_other_report(tmp_path: Path) -> None:
    lines: list[str] = []
    host = Host()
    port = Device((str(tmp_path / "no-device"),)).write
    said = Reporter(host, FakeClock(), lines.append, tmp_path, port)  # type: ignore[arg-type]
    said.end("proven", "fine")
    assert [line.split(" ")[0] for line in lines] == ["SMOKE-RESULT", "GPU-AGENT-END"]
    assert [key for key, _ in host.published] == ["gpu-smoke/verdict", "gpu-agent/end"]


def test_an_end_is_reported_once_in_all_three_places(tmp_path: Path) -> None:
    host, clock = Host(), FakeClock()
    said, lines = reporter(tmp_path, host, clock)
    said.verdict(Verdict("pass", 0, "fine"))
    said.step("register")
    clock.sleep(12.34)
    said.job({"repository": "example-org/app", "run_id": "7", "job": "test"})
    said.end("refused", "GitHub answered 404")
    said.end("crashed", "and then that")
    end = {
        "reason": "refused",
        "detail": "GitHub answered 404",
        "meaning": OUTCOMES["refused"].meaning,
        "next_step": OUTCOMES["refused"].next_step,
        "stops_pool": True,
        "step": "register",
        "seconds": 12.3,
        "job": {"repository": "example-org/app", "run_id": "7", "job": "test"},
    }
    assert host.published[1:] == [("gpu-agent/end", end)]
    assert lines[2:] == [f"GPU-AGENT-END {json.dumps(end, separators=(',', ':'))}\n"]
    assert host.logged == [("ERROR", "refused: GitHub answered 404", end)]


def test_a_verdict_is_reported_once_as_attribute_and_on_the_serial_port(tmp_path: Path) -> None:
    host = Host()
    said, lines = reporter(tmp_path, host)
    said.verdict(Verdict("pass", 0, "fine", "proven"))
    said.verdict(Verdict("fail", 1, "no", "check-failed"))
    verdict = {"verdict": "pass", "exit_code": 0, "summary": "fine", "reason": "proven"}
    assert host.published == [("gpu-smoke/verdict", verdict)]
    (line,) = lines
    assert json.loads(base64.b64decode(line.removeprefix("SMOKE-RESULT "))) == verdict


def test_an_end_before_the_verdict_is_a_fail(tmp_path: Path) -> None:
    host = Host()
    said, _ = reporter(tmp_path, host)
    said.step("driver")
    said.end("timed-out", "step driver did not end within its deadline")
    words = "step driver did not end within its deadline"
    verdict = {"verdict": "fail", "exit_code": 4, "summary": words, "reason": "timed-out"}
    assert host.published[0] == ("gpu-smoke/verdict", verdict)


def test_every_time_out_names_its_step(tmp_path: Path) -> None:
    host = Host()
    said, _ = reporter(tmp_path, host)
    said.step("runner")
    said.end("timed-out", "rootless Docker did not answer in time: Cannot connect")
    words = "step runner: rootless Docker did not answer in time: Cannot connect"
    assert [value.get("summary", value.get("detail")) for _, value in host.published] == [words, words]


def test_a_used_machine_reports_no_gpu_failure_and_no_error(tmp_path: Path) -> None:
    host = Host()
    said, lines = reporter(tmp_path, host)
    said.end("used", "a runner was started on this disk before")
    assert [key for key, _ in host.published] == ["gpu-agent/end"]
    assert [line.split(" ")[0] for line in lines] == ["GPU-AGENT-END"]
    assert [severity for severity, _, _ in host.logged] == ["INFO"]


@pytest.mark.parametrize(("step", "severity"), [("register", "INFO"), ("runner", "ERROR"), ("job", "ERROR")])
def test_a_stop_before_the_registration_is_logged_without_an_error(tmp_path: Path, step: str, severity: str) -> None:
    host = Host()
    said, _ = reporter(tmp_path, host)
    said.step(step)
    said.end("stopped", f"the machine received a stop signal in step {step}")
    assert [found for found, _, _ in host.logged] == [severity]


def test_a_report_of_another_process_is_not_repeated(tmp_path: Path) -> None:
    host = Host()
    reporter(tmp_path, host)[0].end("job-done", "")
    reporter(tmp_path, host)[0].end("crashed", "")
    assert [key for key, _ in host.published] == ["gpu-smoke/verdict", "gpu-agent/end"]


def test_the_end_reaches_the_serial_port_without_a_disk_and_a_server(tmp_path: Path) -> None:
    said, lines = reporter(tmp_path / "gone", Host(down=True))
    said.end("disk-full", "no space left")
    assert [line.split(" ")[0] for line in lines] == ["SMOKE-RESULT", "GPU-AGENT-END", "gpu-agent:", "gpu-agent:"]
    assert lines[2] == (
        "gpu-agent: the guest attribute gpu-smoke/verdict could not be written: the metadata server answered 503\n"
    )


def test_an_invalid_character_in_a_name_does_not_prevent_the_report_of_the_end(tmp_path: Path) -> None:
    host = Host()
    said, lines = reporter(tmp_path, host)
    said.say("the group bad\ud83d")
    said.job({"repository": "a\ud83d/b"})
    said.end("refused", "the group named 'bad\ud83d' is not there")
    assert lines[0] == "the group bad?\n"
    ((_, verdict), (_, end)) = host.published
    assert verdict["summary"] == end["detail"] == "the group named 'bad?' is not there"
    assert end["job"] == {"repository": "a?/b"}
    assert [line.split(" ")[0] for line in lines[1:]] == ["SMOKE-RESULT", "GPU-AGENT-END"]


def test_a_failed_guest_attribute_prevents_no_other_report(tmp_path: Path) -> None:
    class Odd(Host):
        def publish(self, key: str, value: str, within_sec: float = 15) -> None:
            raise ValueError("no such URL")

    host = Odd()
    said, lines = reporter(tmp_path, host)
    said.step("check")
    said.end("check-failed", "wrong numbers")
    assert [line.split(" ")[0] for line in lines if not line.startswith("gpu-agent:")] == [
        "GPU-AGENT-STEP",
        "SMOKE-RESULT",
        "GPU-AGENT-END",
    ]
    assert [message for _, message, _ in host.logged] == ["check-failed: wrong numbers"]


def test_a_report_that_cannot_be_created_does_not_count_as_sent(tmp_path: Path) -> None:
    said, _ = reporter(tmp_path, Host())
    with pytest.raises(KeyError):
        said.end("no such end", "")
    assert list(tmp_path.iterdir()) == []


def test_the_last_line_of_a_key_in_several_lines_is_removed(tmp_path: Path) -> None:
    said, lines = reporter(tmp_path, Host())
    for line in (
        "-----BEGIN PRIVATE KEY-----",
        "MIIEowIBAAKCAQEA" * 4,
        "kJ8s/w==",
        "-----END PRIVATE KEY-----",
        "done",
    ):
        said.say(line)
    assert lines == [*["[redacted]\n"] * 3, "-----END PRIVATE KEY-----\n", "done\n"]


@pytest.mark.parametrize("filler", ["x ", '"', "\\", "漢", "é\\", "\U0001f600"])
def test_a_long_text_is_cut_between_two_characters(tmp_path: Path, filler: str) -> None:
    host = Host()
    reporter(tmp_path, host)[0].verdict(Verdict("fail", 1, "start " + filler * 3000, "check-failed"))
    ((_, verdict),) = host.published
    assert verdict["summary"].startswith("start " + filler * 50)
    assert "\ufffd" not in verdict["summary"]


@given(st.text(), st.integers(60, 200))
def test_whatever_the_text_the_json_fits_and_is_its_beginning(text: str, limit: int) -> None:
    made = fitted({"reason": "crashed", "detail": text}, "detail", limit)
    assert len(made.encode(errors="replace")) <= limit
    assert text.startswith(json.loads(made)["detail"])


SECRETS = {
    "a key": "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----",
    "half a key": "-----BEGIN PRIVATE KEY-----\nMIIEvQ",
    "a line of a key": "MIIEowIBAAKCAQEA" * 4,
    "a JWT": "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOjF9.c2ln-_A",
    "an installation token": "ghs_16C7e42F292c6912E7710c838347Ae178B4a",
    "a new installation token": "ghs_1_eyJhbGciOiJS.eyJpc3MiOjF9.c2ln",
    "a personal token": "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "a fine-grained token": "github_pat_11ABCDEFG0abcdef_ghijkl",
    "Google's token": "ya29.a0AfH6SMB-x_y",
    "a JIT configuration": "eyIucnVubmVyIjoi" * 20,
}


@pytest.mark.parametrize("name", SECRETS)
def test_text_that_looks_like_a_secret_is_removed(name: str) -> None:
    assert redact(SECRETS[name]) == "[redacted]"
    assert SECRETS[name] not in clean(f"before {SECRETS[name]} after")


@pytest.mark.parametrize(
    "text",
    [
        "GPU-1a2b3c4d-0000-1111-2222-333344445555 is not fit",
        "04cf0be1aff4c3ec3554466c39124ca250e3effd8873bb7e8d68535aa9505d5d is not its sha256",
        "https://github.com/actions/runner/releases/download/v2.336.0/actions-runner-linux-x64-2.336.0.tar.gz",
        "NVRM: Xid (PCI:0000:00:04): 79, GPU has fallen off the bus.",
    ],
)
def test_text_that_people_need_is_not_removed(text: str) -> None:
    assert clean(text) == text


def test_no_report_contains_terminal_control_characters() -> None:
    assert clean("a\x1b[31mb\nc\x9bd\x00") == "a [31mb c d "
