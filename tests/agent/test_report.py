"""The machine's reports are short enough, are one line, are sent once, and contain no secret."""

from __future__ import annotations

import base64
import json
import os
import random
import threading
from pathlib import Path
from typing import Any

import pytest
from gpu_agent import report
from gpu_agent.outcomes import OUTCOMES
from gpu_agent.redact import Lines, redact
from gpu_agent.report import Reporter, Serial, Verdict, fitted
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


def test_only_lines_for_the_gate_are_written_to_the_serial_port_directly(tmp_path: Path) -> None:
    console: list[str] = []
    said = Reporter(Host(), FakeClock(), lambda _: None, tmp_path, console.append)  # type: ignore[arg-type]
    said.say("| collecting torch")
    said.step("check")
    said.verdict(Verdict("pass", 0, "fine", "proven"))
    said.end("proven", "fine")
    assert [line.split(" ")[0] for line in console] == ["\nGPU-AGENT-STEP", "\nSMOKE-RESULT", "\nGPU-AGENT-END"]
    assert all(line.endswith("\n") for line in console)


def test_an_end_is_reported_once_in_all_three_places(tmp_path: Path) -> None:
    host, clock = Host(), FakeClock()
    said, lines = reporter(tmp_path, host, clock)
    said.verdict(Verdict("pass", 0, "fine"))
    said.step("register")
    clock.sleep(12.34)
    said.job({"repository": "example-org/app", "run_id": "7", "run_attempt": "2", "job": "test"})
    said.gpu_use({"utilAvg": 0.41, "memMaxMib": 9120, "joules": None})
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
        "phases": {"register": 12.3},
        "gpuUse": {"utilAvg": 0.41, "memMaxMib": 9120, "joules": None},
        "job": {"repository": "example-org/app", "run": 7, "attempt": 2},
    }
    assert host.published[1:] == [("gpu-agent/end", end)]
    assert lines[2:] == [f"GPU-AGENT-END {json.dumps(end, separators=(',', ':'))}\n"]
    assert host.logged == [("ERROR", "refused: GitHub answered 404", end)]


def test_an_end_has_the_seconds_of_each_step_of_the_boot(tmp_path: Path) -> None:
    host, clock = Host(), FakeClock()
    said, _ = reporter(tmp_path, host, clock)
    clock.sleep(0.5)
    for name, seconds in (("config", 0.2), ("driver", 3.1), ("check", 10.8), ("driver", 2)):
        said.step(name)
        clock.sleep(seconds)
    said.end("no-driver", "nvidia-smi does not answer")
    _, end = host.published[-1]
    assert end["phases"] == {"config": 0.2, "driver": 5.1, "check": 10.8}
    assert (end["seconds"], end["gpuUse"], end["job"]) == (16.6, None, None)


HINT = {"repository": "acme/kernels", "run_id": "10001", "run_attempt": "1"}


@pytest.mark.parametrize(
    "change",
    [
        {"repository": ""},
        {"repository": "acme"},
        {"repository": "acme/kernels/x"},
        {"repository": "acme/ker nels"},
        {"repository": "acme/" + "k" * 101},
        {"repository": "acme/ghp_" + "a1B2" * 9},
        {"run_id": "0"},
        {"run_id": "-1"},
        {"run_id": "1e9"},
        {"run_id": "1" * 19},
        {"run_id": "\u0661"},
        {"run_attempt": ""},
    ],
)
def test_a_job_whose_variables_are_not_in_githubs_form_is_unknown(change: dict[str, str]) -> None:
    assert report.job_of(HINT) == {"repository": "acme/kernels", "run": 10001, "attempt": 1}
    assert report.job_of({**HINT, **change}) is None


STEPS = ("config", "driver", "check", "runner", "register", "before-job", "waiting", "job", "after-job", "recheck")


def test_the_longest_end_fits_and_keeps_a_hundred_characters_of_its_detail(tmp_path: Path) -> None:
    repository = f"{'a' * 39}/{'.'.join(['b' * 24] * 4)}"
    for reason in OUTCOMES:
        host, clock = Host(), FakeClock()
        (folder := tmp_path / reason).mkdir()
        said, _ = reporter(folder, host, clock)
        for name in STEPS:
            said.step(name)
            clock.sleep(432_000.1)
        said.job({"repository": repository, "run_id": "9" * 18, "run_attempt": "9" * 18})
        said.gpu_use({"utilAvg": 0.123, "memMaxMib": 999_999_999, "joules": 123_456_789_012.3})
        said.end(reason, "no " * 400)
        _, end = host.published[-1]
        assert (end["reason"], end["job"]["repository"], len(end["phases"])) == (reason, repository, len(STEPS))
        assert len(end["detail"]) >= 100, reason


def test_a_verdict_is_reported_once_as_attribute_and_on_the_serial_port(tmp_path: Path) -> None:
    host = Host()
    said, lines = reporter(tmp_path, host)
    said.verdict(Verdict("pass", 0, "fine", "proven"))
    said.verdict(Verdict("fail", 1, "no", "check-failed"))
    verdict = {"verdict": "pass", "exit_code": 0, "summary": "fine", "reason": "proven"}
    assert host.published == [("gpu-smoke/verdict", verdict)]
    (line,) = lines
    assert json.loads(base64.b64decode(line.removeprefix("SMOKE-RESULT "))) == verdict


def test_a_used_machine_reports_no_gpu_failure_and_no_error(tmp_path: Path) -> None:
    host = Host()
    said, lines = reporter(tmp_path, host)
    said.end("used", "a runner was started on this disk before")
    assert [key for key, _ in host.published] == ["gpu-agent/end"]
    assert [line.split(" ")[0] for line in lines] == ["GPU-AGENT-END"]
    assert [severity for severity, _, _ in host.logged] == ["INFO"]


@given(st.text(), st.integers(60, 200))
def test_whatever_the_text_the_json_fits_and_is_its_beginning(text: str, limit: int) -> None:
    made = fitted({"reason": "crashed", "detail": text}, "detail", limit)
    assert len(made.encode(errors="replace")) <= limit
    assert text.startswith(json.loads(made)["detail"])


def test_a_child_process_writes_its_own_lines_even_if_its_parent_is_stuck(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(report, "_WAIT_SEC", 0.01)
    reader, writer = os.pipe()
    mine, stuck = os.getpid(), threading.Event()

    def write(text: str) -> None:
        if os.getpid() == mine:
            stuck.wait()
        os.write(writer, text.encode())

    port = Serial(write)
    port.write("parent ")
    port.write("waits ")
    child = os.fork()
    if child == 0:
        port.write("child ")
        os._exit(0 if port.flush(20) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    stuck.set()
    assert port.flush(20)
    assert os.read(reader, 100) == b"child parent waits "
    os.close(reader)
    os.close(writer)


def base64_of(length: int, seed: int, alphabet: bytes = b"+/") -> str:
    """Return random base64 of this length, the same in each run."""
    return base64.b64encode(random.Random(seed).randbytes(length), alphabet).decode()[:length]


@pytest.mark.parametrize("alphabet", [b"+/", b"-_"])
@pytest.mark.parametrize("length", [65, 76, 100, 128, 200, 201, 1000])
def test_base64_of_any_length_is_removed(length: int, alphabet: bytes) -> None:
    for seed in range(200):
        assert redact(f"it said {base64_of(length, seed, alphabet)} at last") == "it said [redacted] at last"


@pytest.mark.parametrize("width", [64, 76])
def test_a_key_is_removed_line_by_line_with_its_short_last_line(width: int) -> None:
    text = base64_of(3 * width, 1)
    lines = Lines()
    key = [text[:width], text[width : 2 * width], "from somebody else", text[2 * width :], "kJ8s/w==", "done"]
    said = [lines.redact(line) for line in key]
    assert said == ["[redacted]", "[redacted]", "from somebody else", "[redacted]", "[redacted]", "done"]
    assert redact("\n".join(key)) == "\n".join(said)


@pytest.mark.parametrize(
    "secret",
    [
        "AABF3JGZDX3P5PMEXLND6TS6FCWO6",
        "LLBF3JGZDX3P5PMEXLND6TS6FCWO6",
        "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpX",
        "eyJhbGciOiJSUzI1NiJ9.",
        "eyJhbGciOiJSUzI1NiJ9.eyJpc3Mi",
        "eyIucnVubmVyIjoiZXlKQloy",
    ],
)
def test_registration_tokens_and_truncated_tokens_and_blobs_are_removed(secret: str) -> None:
    assert redact(f"got '{secret}' back") == "got '[redacted]' back"
    assert secret not in redact(f"token={secret}")


@pytest.mark.parametrize(
    "text",
    [
        "sha256=04cf0be1aff4c3ec3554466c39124ca250e3effd8873bb7e8d68535aa9505d5d",
        "04CF0BE1AFF4C3EC3554466C39124CA250E3EFFD8873BB7E8D68535AA9505D5D",
        "/system/docker/04cf0be1aff4c3ec3554466c39124ca250e3effd8873bb7e8d68535aa9505d5d/merged",
        "projects/example-ci-with-a-long-name-1/zones/us-central1-a/instances/gpu-l4-production-x7k2-and-more",
        "https://github.com/Example-Organization/GPU-Test-Repository-For-Models/actions/runs/12345678901/job/2345",
        "//secretmanager/v1/projects/123456789012/secrets/github-app-private-key/versions/latest",
        "/usr/local/lib/python3/site-packages/torch/lib/libtorch_cuda_linalg_and_some_more_of_it/file",
        "GPU-1a2b3c4d-0000-1111-2222-333344445555 and 00000000:00:04.0",
        "-" * 80,
    ],
)
def test_text_that_people_need_is_not_removed(text: str) -> None:
    assert redact(text) == text
