"""The summary of GPU tests at the end of a run: those that ran, those that did not, and a failure if none ran."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from pytest_gpu_ci.machine import NO_GPU

SHOWN = 5  # tests named in a line; the others are only counted


class Summary:
    """The summary in the process that reports. Under pytest-xdist the controller knows tests only by their reports."""

    def __init__(self, config: pytest.Config, workers: int, gpus: list[str]) -> None:
        self.mode = config.option.gpu
        self.sharing = (
            f"{workers} workers share {len(gpus)} GPU{'s'[: len(gpus) > 1]}" if workers > len(gpus) > 0 else ""
        )
        self.collects_only = config.option.collectonly
        self.ran: dict[str, str] = {}
        self.not_run: dict[str, str] = {}
        self.peaks: dict[str, float] = {}
        self.failed: set[str] = set()

    def pytest_report_header(self) -> list[str]:
        """Return the header line; empty without --gpu."""
        if self.mode is None:
            return []
        return [f"gpu: {self.mode}" + (f", {self.sharing}" if self.sharing else "")]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        properties: dict[str, Any] = dict(report.user_properties)
        node = report.nodeid
        if "gpu_not_run" in properties:
            self.not_run[node] = properties["gpu_not_run"]
        elif "gpu" in properties and report.when == "call" and (not report.skipped or hasattr(report, "wasxfail")):
            self.ran[node] = properties["gpu"]
        if report.failed:
            self.failed.add(node)
        if "gpu_peak_mib" in properties:
            self.peaks[node] = properties["gpu_peak_mib"]

    @property
    def vacuous(self) -> bool:
        """True if GPU tests were required, and none ran."""
        return self.mode in ("require", "strict") and not self.ran and not self.collects_only

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.vacuous and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        lines = self.lines()
        if lines:
            terminalreporter.section("GPU tests", "-")
            for line in lines:
                terminalreporter.write_line(line)

    def lines(self) -> list[str]:
        lines = []
        if self.ran:
            lines.append(f"{counted(self.ran)} ran on {', '.join(sorted(set(self.ran.values())))}")
        peaks = {node: mib for node, mib in self.peaks.items() if mib}
        if peaks:
            top = max(peaks, key=lambda node: peaks[node])
            lines.append(f"highest peak: {peaks[top]:,.1f} MiB in {top}")
        lines += did_not_run(list(self.not_run.values()))
        lines += hints([reason for node, reason in self.not_run.items() if node in self.failed])
        idle = [node for node in self.ran if self.peaks.get(node) == 0 and node not in self.failed]
        if idle:
            more = f" and {len(idle) - SHOWN} more" if len(idle) > SHOWN else ""
            lines.append(f"{counted(idle)} passed without GPU memory of torch: {', '.join(idle[:SHOWN])}{more}")
        if self.vacuous:
            found = f"{counted(self.not_run)} did not run" if self.not_run else "none was selected"
            lines.append(f"FAILED: --gpu={self.mode}, and no GPU test ran: {found}")
            if not self.not_run:
                lines.append('  hint: check -m, -k and the paths; use -m "not gpu" without --gpu')
        return lines


def counted(tests: Any) -> str:
    return f"{len(tests)} GPU test{'s'[: len(tests) != 1]}"


def hints(failed: list[str]) -> list[str]:
    """Return the hints for tests that failed without running, each once."""
    here = [text for _, at, text in (reason.partition("; here: ") for reason in failed) if at]
    lines = []
    if any(text.startswith(NO_GPU) for text in here):
        lines.append("  hint: run gpu-smoke diagnose for the reason; --gpu=off skips GPU tests")
    if not all(text.startswith(NO_GPU) for text in here):
        lines.append("  hint: --gpu=require skips tests that this machine cannot run")
    return lines


def did_not_run(reasons: list[str]) -> list[str]:
    """Return a line for each reason. The description of the machine is printed once."""
    lines = []
    by_place: dict[str, list[str]] = {}
    for reason in reasons:
        text, _, here = reason.partition("; here: ")
        by_place.setdefault(here, []).append(text)
    for here, needed in by_place.items():
        counts = Counter(needed).most_common()
        if here and len(counts) > 1:
            lines.append(f"{len(needed)} did not run; here: {here}")
            lines += [f"  {count}: {text}" for text, count in counts]
        else:
            end = f"; here: {here}" if here else ""
            lines += [f"{count} did not run: {text}{end}" for text, count in counts]
    return lines
