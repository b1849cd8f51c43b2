"""Reports through the command: their targets, and a report that is lost, which neither hides the verdict nor passes."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from ..conftest import ONE_GPU, Smoke, environment
from ..runner import command_of

WRONG = [{"kind": "element", "by": 3}]


class Metadata(HTTPServer):
    """A metadata server that keeps the values written to it, and answers with given codes."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = 200
        self.written: list[tuple[str, str, str, dict[str, Any]]] = []


class _Handler(BaseHTTPRequestHandler):
    server: Metadata

    def do_PUT(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.written.append((self.command, self.path, self.headers["Metadata-Flavor"], body))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def metadata() -> Iterator[Metadata]:
    with Metadata() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def on_compute_engine(metadata: Metadata) -> dict[str, str]:
    # A proxy has no business with a machine's own metadata.
    return {"GCE_METADATA_HOST": f"127.0.0.1:{metadata.server_port}", "http_proxy": "http://127.0.0.1:1"}


def on_github(folder: Path) -> dict[str, str]:
    files = {name: str(folder / name.lower()) for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
    return {"GITHUB_ACTIONS": "true", **files}


@pytest.mark.parametrize(("faults", "code", "verdict"), [([], 0, "pass"), (WRONG, 1, "fail")])
def test_all_requested_reports_have_the_same_verdict(
    smoke: Smoke, metadata: Metadata, tmp_path: Path, faults: list[dict[str, Any]], code: int, verdict: str
) -> None:
    xml, metrics = tmp_path / "smoke.xml", tmp_path / "smoke.prom"
    asked = ["--junit", str(xml), "--prometheus", str(metrics), "--guest-attribute", "gpu-smoke/verdict"]
    run = smoke(*asked, env={**on_compute_engine(metadata), **on_github(tmp_path)}, faults=faults)
    assert run.code == code
    suite = ElementTree.fromstring(xml.read_text())[0]  # noqa: S314 - we wrote it
    assert [each.attrib["value"] for each in suite[0] if each.attrib["name"] == "verdict"] == [verdict]
    assert len(suite.findall("testcase")) == len(run.receipt["checks"])
    assert len(suite.findall("testcase/failure")) == len(run.bad())
    assert f"gpu_smoke_ok {int(code == 0)}\n" in metrics.read_text()
    path = "/computeMetadata/v1/instance/guest-attributes/gpu-smoke/verdict"
    value = {"verdict": verdict, "exit_code": code, "summary": run.summary}
    assert metadata.written == [("PUT", path, "Google", value)]
    assert (tmp_path / "github_output").read_text() == f"verdict={verdict}\n"
    assert (tmp_path / "github_step_summary").read_text().startswith(f"### gpu-smoke: {verdict}\n")
    found = [command for line in run.stderr.splitlines() if (command := command_of(line))]
    assert [command.name for command in found] == ["error"] * len(run.bad())
    assert run.stderr.splitlines()[-1] == f"gpu-smoke: {run.summary}"
    assert {file.name for file in tmp_path.iterdir()} == {
        "smoke.xml", "smoke.prom", "receipt.json", "message", "github_output", "github_step_summary",
    }  # fmt: skip


def test_a_guest_attribute_that_is_refused_makes_a_pass_a_failure_everywhere_else(
    smoke: Smoke, metadata: Metadata, tmp_path: Path
) -> None:
    metadata.status = 503
    xml = tmp_path / "smoke.xml"
    asked = ["--guest-attribute", "gpu-smoke/verdict", "--junit", str(xml)]
    run = smoke(*asked, env={**on_compute_engine(metadata), **on_github(tmp_path)})
    assert run.code == 2
    assert run.bad() == [("report", None)]
    assert run.summary == (
        "cannot be written: --guest-attribute gpu-smoke/verdict: HTTPError: HTTP Error 503: Service Unavailable"
    )
    assert run.message.startswith("cannot be written: --guest-attribute")
    assert 'failures="1"' in xml.read_text()
    assert (tmp_path / "github_output").read_text() == "verdict=fail\n"
    assert len(metadata.written) == 1


# Something takes a report's place away, or breaks the form, once the check has begun.
LOSSES = {
    "--junit": "shutil.rmtree(folder)",
    "--prometheus": "shutil.rmtree(folder)",
    "--termination-log": "shutil.rmtree(folder)",
    "--junit ": "delivery.FORMS.update({'--junit': lambda record: 1 / 0})",
}


@pytest.mark.parametrize("lost", LOSSES)
def test_a_report_that_cannot_be_written_at_the_end_makes_the_receipt_a_failure(tmp_path: Path, lost: str) -> None:
    folder, receipt = tmp_path / "reports", tmp_path / "receipt.json"
    folder.mkdir()
    program = (
        "import shutil, sys; from gpu_smoke import __main__; from gpu_smoke.workers import parent; "
        "from gpu_smoke.reports import delivery; "
        f"real, folder = parent.run, {str(folder)!r}; "
        f"parent.run = lambda *args: ({LOSSES[lost]}, real(*args))[1]; sys.exit(__main__.main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "--json", receipt, lost.strip(), folder / "report"],
        env=environment(gpus=ONE_GPU),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    record = json.loads(receipt.read_text())
    assert (record["verdict"], record["exit_code"]) == ("fail", 2)
    assert record["summary"].startswith(f"cannot be written: {lost.strip()} {folder}/report: ")
    assert [check["status"] for check in record["checks"] if check["id"] == "gemm.element"] == ["pass"] * 3


def test_an_error_of_the_github_reports_changes_no_verdict_and_is_printed(smoke: Smoke, tmp_path: Path) -> None:
    summary = tmp_path / "summary"
    run = smoke(env={"GITHUB_OUTPUT": str(tmp_path / "no" / "file"), "GITHUB_STEP_SUMMARY": str(summary)})
    assert run.code == 0
    assert "gpu-smoke: GitHub Actions did not get the report: No such file or directory" in run.stderr.splitlines()
    assert summary.read_text().startswith("### gpu-smoke: pass\n")


def test_a_steps_summary_and_outputs_are_added_to_what_others_wrote(smoke: Smoke, tmp_path: Path) -> None:
    for name in ("github_step_summary", "github_output"):
        (tmp_path / name).write_text("before=1\n")
    smoke(env=on_github(tmp_path))
    assert (tmp_path / "github_output").read_text() == "before=1\nverdict=pass\n"
    assert (tmp_path / "github_step_summary").read_text().startswith("before=1\n### gpu-smoke: pass\n")


def test_a_steps_summary_never_grows_beyond_what_github_takes(smoke: Smoke, tmp_path: Path) -> None:
    summary = tmp_path / "github_step_summary"
    summary.write_text("x" * (1024 * 1024 - 100))
    assert smoke(env=on_github(tmp_path)).code == 0
    assert summary.stat().st_size == 1024 * 1024 - 100


@pytest.mark.parametrize("text", ["##[add-mask]L4", "::error::forged"])
def test_a_text_of_torch_is_no_workflow_command(tmp_path: Path, text: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpu_smoke", "--json", "-", "--pool", text],
        env={**environment(gpus=ONE_GPU, faults=[{"kind": "raise", "text": text}]), **on_github(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    found = [command for line in (done.stderr + done.stdout).splitlines() if (command := command_of(line))]
    assert [command.name for command in found] == ["error"]
    assert text in found[0].data
    assert json.loads(done.stdout)["pool"]["name"] == text


def test_metrics_of_the_last_run_stay_until_there_are_new_ones(tmp_path: Path) -> None:
    metrics = tmp_path / "smoke.prom"
    metrics.write_text("gpu_smoke_ok 1\n")
    run = subprocess.Popen(
        [sys.executable, "-m", "gpu_smoke", "--prometheus", metrics],
        env=environment(gpus=ONE_GPU, faults=[{"kind": "hang"}]),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert run.stderr is not None
    with run:
        next(line for line in run.stderr if "multiplying" in line)
        run.kill()
    assert metrics.read_text() == "gpu_smoke_ok 1\n"


def test_the_verdict_is_written_before_what_hangs_is_killed(smoke: Smoke, metadata: Metadata, tmp_path: Path) -> None:
    xml = tmp_path / "smoke.xml"
    asked = ["--junit", str(xml), "--guest-attribute", "a/b", "--deadline-sec", "2"]
    run = smoke(*asked, env=on_compute_engine(metadata), faults=[{"kind": "hang"}])
    assert run.code == 4
    assert 'type="hang"' in xml.read_text()
    assert metadata.written[0][3]["exit_code"] == 4
