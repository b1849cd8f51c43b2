"""`gpu-ci deploy`: verdicts as exit codes, forms of the input, mistakes, and the table of a plan."""

from __future__ import annotations

import io
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from gpu_ci.cli import clock
from gpu_ci.delivery import power

from tests.gpu_ci.cli.conftest import Ask

BEGIN = 1_796_033_100  # 2026-11-30T10:05:00Z
NOW = ["--now", "2026-11-30T10:16:30Z"]


def line(at: int, canary: Any = (50, 1), stable: Any = (450, 9), **changes: Any) -> dict[str, Any]:
    counts = {
        name: dict(zip(("requests", "errors", "slow"), each, strict=False)) if isinstance(each, tuple) else each
        for name, each in (("canary", canary), ("stable", stable))
    }
    return {"minute": f"2026-11-30T10:{5 + at:02}:00Z"} | counts | changes


def lines(*values: Any) -> str:
    return "".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in values)


GOOD = [line(at) for at in range(10)]
BAD = [line(at, (50, 20)) for at in range(10)]


@pytest.mark.parametrize(
    ("minutes", "answer", "reason", "code", "text"),
    [
        (GOOD, "advance", "within-tolerance", 0, "no alarm in 10 minutes and 500 requests of the canary"),
        (BAD, "rollback", "errors", 2, "the canary has more errors than the tolerance of 1.5 allows"),
        (GOOD[:4], "hold", "step-not-over", 3, "4 of 10 minutes have requests of both models"),
        ([], "hold", "no-data", 3, "no minute of this step has requests of both models"),
    ],
)
def test_the_verdict_is_the_exit_code_and_the_document(
    ask: Ask, tmp_path: Path, minutes: list[Any], answer: str, reason: str, code: int, text: str
) -> None:
    (tmp_path / "m.jsonl").write_text(lines(*minutes))
    result = ask("deploy", "judge", "m.jsonl", *NOW)
    assert result.code == code
    assert (result.json["answer"], result.json["reason"], result.json["text"]) == (answer, reason, text)
    assert result.err.splitlines()[0] == f"{answer}: {text}"


def test_the_document_has_times_rates_and_rules(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_text(lines(*(line(at, (50, 20, 5), (450, 9, 45)) for at in range(10))))
    result = ask("deploy", "judge", "m.jsonl", "--alpha", "0.02", *NOW)
    assert result.json["minute"] == result.json["comparisons"]["errors"]["alarm"] == "2026-11-30T10:08:00Z"
    errors, slow = (result.json["comparisons"][name] for name in ("errors", "slow"))
    assert (errors["canaryRate"], errors["stableRate"], errors["limit"]) == (0.4, 0.02, pytest.approx(0.009))
    assert (slow["canaryRate"], slow["alarm"], slow["pValue"]) == (0.1, None, 1)
    assert errors["pValue"] < 0.01
    assert result.json["rules"]["alpha"] == 0.02
    assert "  errors: 40.00% canary and 2.00% stable, p " in result.err


def test_a_list_lines_and_seconds_are_the_same_input(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = [each | {"minute": BEGIN + 60 * at} for at, each in enumerate(GOOD)]
    text = [each | {"canary": {"requests": "50", "errors": "1.0"}} for each in GOOD]  # Prometheus and bq
    forms = (lines(*GOOD), json.dumps(GOOD, indent=1), lines(*seconds), lines(*text), f"\n{lines(*GOOD)} \n\n")
    answers = []
    for form in forms:
        (tmp_path / "m").write_text(form)
        answers.append(ask("deploy", "judge", "m", *NOW))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(forms[0].encode())))
    answers.append(ask("deploy", "judge", "-", *NOW))
    assert answers[0].code == 0
    assert all(each == answers[0] for each in answers)


def test_the_clock_decides_about_old_data_and_long_holds(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "m.jsonl").write_text(lines(*GOOD))
    (tmp_path / "none.jsonl").write_text("")
    monkeypatch.setattr(clock, "now", lambda: datetime(2026, 11, 30, 11, 20, tzinfo=UTC))
    assert ask("deploy", "judge", "m.jsonl", "--max-hold-minutes", "600").json["reason"] == "old-data"
    assert ask("deploy", "judge", "m.jsonl", *NOW).json["answer"] == "advance"
    held = ["deploy", "judge", "none.jsonl", "--since", "2026-11-30T10:05:00Z"]
    assert (ask(*held).code, ask(*held).json["reason"]) == (3, "max-hold")
    assert ask(*held, "--on-max-hold", "rollback").code == 2


def test_the_rules_are_options(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_text(lines(*BAD))
    judged = ["deploy", "judge", "m.jsonl", *NOW]
    assert ask(*judged, "--tolerance", "100").json["answer"] == "advance"
    assert ask(*judged, "--confirmations", "11").json["answer"] == "advance"
    assert ask(*judged, "--canary-alone").json["comparisons"].keys() == {"ceiling"}
    assert ask(*judged, "--canary-alone", "--ceiling", "0.3").json["reason"] == "ceiling"


SECONDS = {"minute": BEGIN + 5}
MISTAKES: dict[str, tuple[str | bytes | None, list[str], str]] = {
    "no file": (None, [], "m: no such file"),
    "a folder": ("", ["."], ".: cannot be read"),
    "binary": (b"\x1f\x8b\x08", [], "m:1: is not text"),
    "text": (lines(GOOD[0], "hello"), [], "m:2: is not JSON"),
    "a document on several lines": (json.dumps(GOOD[0], indent=1), [], "m:1: is not JSON"),
    "a broken list": ("[\n{},", [], "m:2: is not JSON"),
    "endless lists": ("[" * 100_000, [], "m:1: is not JSON"),
    "a number": ("7", [], "m:1: must be a map"),
    "an element that is none": (json.dumps([*GOOD, None]), [], "m: [10]: must be a map"),
    "a misspelt model": (
        lines(GOOD[0] | {"canery": {}}), [],
        "m:1: canery: unknown key\n  got: 'canery'\n  expected: one of minute, canary, stable\n  hint: did you mean",
    ),
    "a misspelt count": (lines(line(0, {"requests": 5, "error": 1})), [], "m:1: canary.errors: is missing"),
    "no minute": (lines({"canary": {"requests": 1, "errors": 0}}), [], "m:1: minute: is missing"),
    "a minute without a zone": (lines(line(0, minute="2026-11-30T10:05:00")), [], "m:1: minute: input should have"),
    "no time": (lines(line(0, minute="soon")), [], "m:1: minute: input should be a valid datetime"),
    "a minute of the year 10000": (lines(line(0, minute="9999-12-31T23:59:00-14:00")), [], "m:1: minute: must be less"),
    "a minute before 1970": (lines(line(0, minute="0001-01-01T00:00:00+14:00")), [], "m:1: minute: must be at least"),
    "a time of the year 0": ("", ["m", "--now", "0001-01-01T00:00:00+14:00"], "gpu-ci deploy judge: --now: must be at"),
    "too many requests": ("", ["m", "--min-requests", "9" * 400], "gpu-ci deploy judge: --min-requests: must be at"),
    "a minute of 5 s": (lines(line(0) | SECONDS), [], "m:1: minute: is not the beginning of a minute"),
    "a minute twice": (lines(line(0), line(0)), [], "m:2: minute: is in the file twice"),
    "a minute twice in a list": (json.dumps([line(0), line(0)]), [], "m: [1].minute: is in the file twice"),
    "a negative count": (lines(line(0, (50, -1))), [], "m:1: canary.errors: must be at least 0"),
    "no number": (lines(line(0, (50, float("nan")))), [], "m:1: canary.errors: input should be a finite number"),
    "text for a count": (lines(line(0, (50, "few"))), [], "m:1: canary.errors: must be a number"),
    "a huge count": (lines(line(0, (1e13, 1))), [], "m:1: canary.requests: must be at most 1000000000000.0"),
    "more errors than requests": (lines(line(0, (5, 6))), [], "m:1: canary.errors: is more than the requests"),
    "more slow than requests": (lines(line(0, (5, 5, 6))), [], "m:1: canary.slow: is more than the requests"),
    "slow of one model": (lines(line(0, (5, 5, 5))), [], "m:1: stable.slow: is missing, but other counts have it"),
    "slow of one minute": (
        json.dumps([line(0, (5, 0, 0), (5, 0, 0)), line(1)]), [], "m: [1].canary.slow: is missing, but other",
    ),
    "another time zone": (lines(*GOOD), ["m", "--now", "2026-11-30T10:16:30+02:00"], "m: has minutes of the future"),
    "a tolerance below 1": ("", ["m", "--tolerance", "0.5"], "gpu-ci deploy judge: --tolerance: must be at least 1"),
    "an alpha of 1 %": ("", ["m", "--alpha", "1%"], "gpu-ci deploy judge: --alpha: must be a number"),
    "an alpha of 1": ("", ["m", "--alpha", "1"], "gpu-ci deploy judge: --alpha: must be less than 0.5"),
    "half a minute": ("", ["m", "--step-minutes", "0.5"], "gpu-ci deploy judge: --step-minutes: input should be"),
    "another answer": ("", ["m", "--on-max-hold", "advance"], "gpu-ci deploy judge: --on-max-hold: must be one of"),
    "a step within a minute": (
        "", ["m", "--since", str(BEGIN + 1)], "gpu-ci deploy judge: --since: is not the beginning of a minute",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_has_a_place_and_what_is_expected_and_is_no_verdict(ask: Ask, tmp_path: Path, name: str) -> None:
    content, words, expected = MISTAKES[name]
    if content is not None:
        (tmp_path / "m").write_bytes(content if isinstance(content, bytes) else content.encode())
    answer = ask("deploy", "judge", *(words or ["m"]))
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith(expected)
    assert [label for label in ("got: ", "expected: ", "hint: ") if f"\n  {label}" not in answer.err] == []
    assert "Traceback" not in answer.err


def test_every_mistake_is_reported_at_once(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "m").write_text(lines("x", line(0, (5, 6, 7), (1, -1)), line(1, minute=None), line(2)))
    answer = ask("deploy", "judge", "m", "--alpha", "2", "--tolerance", "x", *NOW)
    found = [each for each in answer.err.splitlines() if not each.startswith("  ")]
    expected = [
        "gpu-ci deploy judge: --tolerance: ", "gpu-ci deploy judge: --alpha: ", "m:1: ", "m:2: canary.errors: ",
        "m:2: canary.slow: ", "m:2: stable.errors: ", "m:3: minute: ",
    ]  # fmt: skip
    assert len(found) == len(expected)
    assert all(line.startswith(start) for line, start in zip(found, expected, strict=True))


@pytest.mark.parametrize("words", [["judg"], ["judge"], ["judge", "a", "b"], ["plan", "m", "--percent", "100"]])
def test_a_wrong_command_line_is_no_verdict(ask: Ask, words: list[str]) -> None:
    assert ask("deploy", *words).code == 1


@pytest.fixture
def few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power, "RUNS", 100)


@pytest.mark.usefixtures("few_runs")
def test_a_plan_shows_what_is_found(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_text(lines(*(line(at, None, (300, 3, 6)) for at in range(10))))
    table = ask("deploy", "plan", "m.jsonl")
    assert table.code == 0
    assert table.err.startswith(
        "errors: 1.000% of 300.0 requests per minute; found within 60 minutes\nslow: 2.000% of "
    )
    rows = ask("deploy", "plan", "m.jsonl", "--json").json["rows"]
    assert [(row["metric"], row["ratio"]) for row in rows] == [
        *(("errors", ratio) for ratio in (2, 3, 5, 10, 50)),
        *(("slow", ratio) for ratio in (2, 3, 5, 10, 50)),
    ]
    worst = rows[4]
    assert (worst["canaryRate"], worst["found"], worst["medianMinutes"]) == (0.5, 1, 4)
    assert worst["minutesToMinRequests"] == 4  # 100 requests at 10 % of 300 per minute
    assert table.rows[4] == ["errors", "50", "50.00%", "10%", "100%", "4 min", "4"]


@pytest.mark.usefixtures("few_runs")
def test_a_plan_follows_the_options(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_text(lines(line(0, (30, 0), (270, 3))))
    words = ["deploy", "plan", "m.jsonl", "--json", "--minutes", "20"]

    def found(*options: str) -> float:
        [share] = {row["found"] for row in ask(*words, *options).json["rows"] if row["ratio"] == 5}
        return float(share)

    assert 0.2 < found() < found("--percent", "50")
    for option in (["--minutes", "8"], ["--tolerance", "2"], ["--alpha", "0.0001"], ["--confirmations", "12"]):
        assert found(*option) < found(), option
    (tmp_path / "m.jsonl").write_text(lines(line(0, None, (300, 9))))  # a rate above 100 % is no row
    assert [row["ratio"] for row in ask(*words).json["rows"]] == [2, 3, 5, 10]
    assert {row["canaryShare"] for row in ask(*words, "--percent", "5", "--percent", "90").json["rows"]} == {0.05, 0.9}


@pytest.mark.usefixtures("few_runs")
def test_a_plan_without_errors_assumes_one_and_without_requests_fails(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_text(lines(line(0, None, (500, 0))))
    assert ask("deploy", "plan", "m.jsonl", "--json").json["rows"][0]["canaryRate"] == 2 / 500
    for nothing in ("", lines(line(0, (50, 1), None)), lines(line(0, None, (0, 0)))):
        (tmp_path / "m.jsonl").write_text(nothing)
        answer = ask("deploy", "plan", "m.jsonl", "--json")
        [problem] = answer.json["error"]["problems"]
        assert (answer.code, problem["text"]) == (1, "m.jsonl: has no requests")
        assert problem.keys() == {"text", "got", "expected", "hint"}
