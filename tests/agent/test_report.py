"""The machine's reports are short enough, are one line, are sent once, and contain no secret."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from gpu_agent.outcomes import OUTCOMES
from gpu_agent.report import Reporter, Verdict, fitted
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
