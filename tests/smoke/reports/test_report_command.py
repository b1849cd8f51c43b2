"""`gpu-smoke report`: the forms of an existing receipt, and every error of a file that is not a receipt."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ..conftest import ONE_GPU, Smoke, environment


def report(*args: str | Path, stdin: str = "", **extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpu_smoke", "report", *args],
        env={**environment(), **extra},
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_a_receipt_gives_the_reports_that_its_run_gave(smoke: Smoke, tmp_path: Path) -> None:
    (xml, metrics), (xml2, metrics2) = ([tmp_path / f"{run}.{form}" for form in ("xml", "prom")] for run in "ab")
    run = smoke("--junit", str(xml), "--prometheus", str(metrics), "--expect-gpus", "2")
    message = tmp_path / "again"
    done = report(
        tmp_path / "receipt.json", "--junit", xml2, "--prometheus", metrics2, "--termination-log", message
    )  # fmt: skip
    assert done.returncode == 0
    assert xml2.read_text() == xml.read_text()
    assert metrics2.read_text() == metrics.read_text()
    assert message.read_text() == run.message
    table = run.stderr[run.stderr.index("CHECK") :]
    assert done.stderr == table
    assert done.stdout == ""


def test_a_receipt_may_come_through_a_pipe_and_goes_to_github_too(smoke: Smoke, tmp_path: Path) -> None:
    run = smoke("--expect-gpus", "2")
    output = tmp_path / "output"
    done = report("-", stdin=json.dumps(run.receipt), GITHUB_ACTIONS="true", GITHUB_OUTPUT=str(output))
    assert done.returncode == 0
    assert done.stderr.startswith("::error title=gpu-smoke gpu.count::1 GPU found, 2 expected; hint: ")
    assert output.read_text() == "verdict=fail\n"


def test_fields_of_a_later_version_are_passed_over(smoke: Smoke) -> None:
    later = {**smoke().receipt, "more": [1], "gpus": [{"more": {}}]}
    later["checks"][0] |= {"more": None}
    assert report("-", stdin=json.dumps(later)).returncode == 0


PASSED = {
    "schema": "smoke/1",
    "verdict": "pass",
    "ok": True,
    "exit_code": 0,
    "summary": "",
    "checks": [{"id": "a", "status": "pass", "message": ""}],
}
BAD_CHECKS = [2, {"id": "a", "status": "fail"}]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "gpu-smoke: -: is not JSON (Expecting value: line 1 column 1 (char 0))\n"),
        ("[" * 100_000, None),
        ("\udcff", None),
        ("1" * 5000, None),
        ("[]", "gpu-smoke: -: is not a receipt\n  got: []\n  expected: an object\n"),
        (
            '{"schema": "smoke/2", "verdict": "ok", "checks": {}, "pool": null}',
            ("gpu-smoke: -: schema: is unknown\n  got: 'smoke/2'\n  expected: smoke/1\n"
            "gpu-smoke: -: verdict: is unknown\n  got: 'ok'\n  expected: pass or fail or incomplete\n"
            "gpu-smoke: -: summary: is missing\n  got: None\n  expected: a text\n"
            "gpu-smoke: -: checks: has the wrong type\n  got: {}\n  expected: a list\n"
            "gpu-smoke: -: pool: has the wrong type\n  got: None\n  expected: an object\n"),
        ),
        (
            json.dumps({"schema": "smoke/1", "verdict": "pass", "summary": "", "gpus": [1], "checks": BAD_CHECKS}),
            ("gpu-smoke: -: gpus[0]: has the wrong type\n  got: 1\n  expected: an object\n"
            "gpu-smoke: -: checks[0]: has the wrong type\n  got: 2\n  expected: an object\n"
            "gpu-smoke: -: checks[1].message: is missing\n  got: None\n  expected: a text\n"
            "gpu-smoke: -: checks[1].status: is a failure in a receipt with the verdict pass\n  got: 'fail'\n"
            "  expected: no pass\n"),
        ),
        (
            json.dumps(PASSED | {"verdict": "fail"}),
            ("gpu-smoke: -: ok: contradicts the verdict fail\n  got: True\n"
             "  expected: a value that matches the verdict\n"
            "gpu-smoke: -: exit_code: contradicts the verdict fail\n  got: 0\n"
            "  expected: a value that matches the verdict\n"),
        ),
        (
            json.dumps(PASSED | {"checks": []}),
            "gpu-smoke: -: checks: are empty in a receipt with the verdict pass\n  got: []\n  expected: at least one\n",
        ),
        (
            json.dumps(PASSED | {"exit_code": None}),
            ("gpu-smoke: -: exit_code: contradicts the verdict pass\n  got: None\n"
             "  expected: a value that matches the verdict\n"),
        ),
    ],
    ids=lambda value: str(value)[:20],
)  # fmt: skip
def test_a_file_that_is_not_a_receipt_is_refused_with_every_problem(text: str, error: str | None) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpu_smoke", "report", "-"],
        env=environment(),
        input=text.encode("utf-8", "surrogateescape"),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 64
    said = done.stderr.decode()
    assert "Traceback" not in said
    if error is None:
        assert said.startswith("gpu-smoke: -: is not JSON (")
    else:
        assert said.startswith(error)
    assert said.splitlines()[-1].startswith("  hint: a receipt is what ")


def test_of_many_problems_twenty_are_listed_and_the_rest_counted() -> None:
    done = report("-", stdin=json.dumps({"schema": "smoke/1", "verdict": "fail", "summary": "", "checks": [1] * 25}))
    assert done.stderr.count("  expected: an object") == 20
    assert "gpu-smoke: -: and 5 more" in done.stderr


def test_a_missing_receipt_is_an_error(tmp_path: Path) -> None:
    done = report(tmp_path / "none.json")
    assert done.returncode == 64
    assert done.stderr == f"gpu-smoke: {tmp_path}/none.json: cannot be read (No such file or directory)\n"


def test_a_report_never_takes_the_receipts_place(smoke: Smoke, tmp_path: Path) -> None:
    receipt = smoke().receipt
    done = report(tmp_path / "receipt.json", "--junit", tmp_path / "receipt.json")
    assert done.returncode == 64
    assert done.stderr.startswith("gpu-smoke: --junit: the same file as RECEIPT\n")
    assert json.loads((tmp_path / "receipt.json").read_text()) == receipt


def test_a_report_that_cannot_be_written_is_named_and_the_others_are_written(smoke: Smoke, tmp_path: Path) -> None:
    smoke()
    done = report(tmp_path / "receipt.json", "--junit", "/nowhere/x", "--prometheus", tmp_path / "smoke.prom")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "gpu-smoke: cannot be written: --junit /nowhere/x: No such file or directory"
    assert "gpu_smoke_ok 1\n" in (tmp_path / "smoke.prom").read_text()


def test_help_names_every_report() -> None:
    done = report("--help")
    assert done.returncode == 0
    for option in ("--termination-log", "--junit", "--prometheus", "--guest-attribute"):
        assert f"  {option} " in done.stdout


def on_a_terminal(fake: dict[str, Any], **extra: str) -> str:
    """Return the output of the command if its standard error is a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    env = {**environment(gpus=ONE_GPU, **fake), "TERM": "xterm-256color", "COLUMNS": "80", **extra}
    with subprocess.Popen([sys.executable, "-m", "gpu_smoke"], env=env, stderr=theirs, stdin=theirs) as run:
        os.close(theirs)
        said = b""
        while True:
            try:
                said += os.read(ours, 65_536)
            except OSError:  # the other end is closed
                break
        run.wait()
    os.close(ours)
    return said.decode().replace("\r\n", "\n")


WRONG = {"faults": [{"kind": "element", "by": 3, "dtype": "float16"}]}
STYLE = re.compile(r"\x1b\[[0-9;]*m")


def test_on_a_terminal_rich_draws_the_table_and_the_summary_is_last() -> None:
    said = on_a_terminal(WRONG)
    assert "\x1b[1;31mfail" in said
    assert "\x1b[32mpass" in said
    lines = STYLE.sub("", said).splitlines()
    assert lines[-1].startswith("gpu-smoke: GPU 0 gave a wrong float16 product")
    [header] = [line for line in lines if line.split()[:1] == ["CHECK"]]
    assert header.split() == ["CHECK", "DEVICE", "STATUS", "LIMIT", "FOUND"]
    table = lines[lines.index(header) : -2]
    assert max(map(len, table)) <= 80


@pytest.mark.parametrize("extra", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_no_color_turns_colours_off(extra: dict[str, str]) -> None:
    said = on_a_terminal(WRONG, **extra)
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", said)
    assert "CHECK" in said


def test_without_rich_or_with_a_broken_one_the_table_is_plain(tmp_path: Path) -> None:
    (tmp_path / "rich.py").write_text("raise RuntimeError('broken')\n")
    path = os.pathsep.join([str(tmp_path), environment()["PYTHONPATH"]])
    said = on_a_terminal({}, PYTHONPATH=path)
    assert "\x1b" not in said
    assert re.search(r"\ntorch\.build +-       pass    ", said)


def test_no_message_reaches_a_terminal_as_a_sequence_or_as_markup() -> None:
    said = on_a_terminal({"faults": [{"kind": "raise", "text": "\x1b]0;title\x07 [bold]loud[/] \x1b[2J"}]})
    assert "\x1b]" not in said
    assert "\x1b[2J" not in said
    assert "[bold]loud[/]" in "".join(STYLE.sub("", said).split())
