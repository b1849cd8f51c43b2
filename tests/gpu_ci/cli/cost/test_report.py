"""`gpu-ci cost report`: amounts worked out by hand, and every form of the report."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from gpu_ci.cli.cost.estimates import Forecast, baselines, forecast
from gpu_ci.cli.cost.window import Window
from gpu_ci.machine_records import MachineRecord
from jsonschema import Draft202012Validator, FormatChecker

from tests.gpu_ci.cli.conftest import TODAY, Ask
from tests.gpu_ci.cli.cost.simulated import DAYS, machines, records

Json = dict[str, Any]
ROOT = Path(__file__).resolve().parents[4]


def line(number: int, day: str = "2026-11-10", **changes: Any) -> Json:
    """A machine that was on for an hour from 10:00 at 1 USD an hour, with a job from 10:10 to 10:40."""
    at = f"{day}T10"
    job = {
        "repository": "acme/kernels", "run": number, "attempt": 1, "id": number, "workflow": "CI",
        "created": f"{at}:05:00Z", "started": f"{at}:10:00Z", "completed": f"{at}:40:00Z",
    }  # fmt: skip
    record = {
        "manager": "prod", "pool": "l4", "machine": f"l4-{number}", "id": str(number), "zone": "us-central1-a",
        "machineType": "g2-standard-8", "market": "spot", "usdPerHour": 1, "requested": f"{at}:00:00Z",
        "on": [[f"{at}:00:00Z", f"{day}T11:00:00Z"]], "gone": f"{day}T11:00:00Z", "job": job,
    }  # fmt: skip
    if isinstance(changes.get("job"), dict):
        changes["job"] = job | changes["job"]
    return record | changes


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    def call(*lines: Json, name: str = "records.jsonl") -> str:
        (tmp_path / name).write_text("".join(f"{json.dumps(each)}\n" for each in lines))
        return name

    return call


LINES = (
    line(1, gpuUse={"utilAvg": 0.5}),
    line(2, job={"repository": "acme/Asr", "created": "2026-11-10T10:09:00Z"}),
    line(3, job=None, pool="t4"),
    line(4, takenBack=True, job={"completed": None}),
    line(5, usdPerHour=None, incomplete=["price"]),
    line(6, day="2026-11-03"),
    line(7, day="2026-11-16"),
)
TEAMS = """\
config:
  gpu-ci:teams:
    vision: {repositories: [Kernels], usdPerMonth: 2, onBudget: stop}
    speech: {repositories: [asr]}
"""


def test_the_last_whole_week_is_compared_with_the_week_before(ask: Ask, write: Callable[..., str]) -> None:
    found = ask("cost", "report", write(*LINES, LINES[0]), "--json").json
    assert (found["from"], found["until"], found["before"]) == (
        "2026-11-09", "2026-11-16", {"from": "2026-11-02", "until": "2026-11-09"},
    )  # fmt: skip
    kernels, asr, no_job = sorted(found["rows"], key=lambda row: -row["jobs"])
    assert kernels == {
        "repository": "acme/kernels", "jobs": 3, "waitSec": {"median": 300, "p95": 300},
        "gpuUse": 0.5, "gpuUseKnown": 1800 / (1800 + 3000 + 1800),
        "jobUsd": 0.5, "overheadUsd": pytest.approx(0.5 + 1 / 6), "lostUsd": pytest.approx(5 / 6), "idleUsd": 0,
        "usd": pytest.approx(2), "usdBefore": 1,
    }  # fmt: skip
    assert (asr["repository"], asr["usd"], asr["gpuUse"], asr["waitSec"]["median"]) == ("acme/Asr", 1, None, 60)
    assert (no_job["repository"], no_job["idleUsd"], no_job["usd"]) == ("(no job)", 1, 1)
    assert (found["usd"], found["total"]["jobs"], found["sharedUsd"]) == (4, 4, None)
    assert found["usdByWeek"] == {"2026-11-02": 1, "2026-11-09": 4, "2026-11-16": 1}
    assert found["warnings"] == [
        "1 of 5 records incomplete: price 1",
        "1 machine without a published price: counted as 0 USD",
    ]


@pytest.mark.parametrize(
    ("options", "window", "usd", "before"),
    [
        (["--period", "month"], ("2026-10-01", "2026-11-01"), 0, 0),
        (["--since", "1w"], ("2026-11-14", "2026-11-21"), 1, 4),
        (["--since", "12d"], ("2026-11-09", "2026-11-21"), 5, 1),
        (["--since", "2026-11-03"], ("2026-11-03", "2026-11-21"), 6, 0),
    ],
)
def test_the_days_are_chosen(
    ask: Ask, write: Callable[..., str], options: list[str], window: tuple[str, str], usd: float, before: float
) -> None:
    found = ask("cost", "report", write(*LINES), *options, "--json").json
    assert (found["from"], found["until"]) == window
    assert (found["usd"], found["total"]["usdBefore"]) == pytest.approx((usd, before))


@pytest.mark.parametrize(
    ("gone", "usd"),
    [
        ("2026-11-08T23:59:59.999999Z", 0.0),
        ("2026-11-09T00:00:00Z", 1.0),
        ("2026-11-09T01:30:00+02:00", 0.0),
        ("2026-11-15T23:59:59.999999Z", 1.0),
        ("2026-11-16T00:00:00Z", 0.0),
    ],
)
def test_a_machine_counts_for_the_week_of_the_day_in_utc_on_which_it_was_gone(
    ask: Ask, write: Callable[..., str], gone: str, usd: float
) -> None:
    on = [["2026-11-08T20:00:00Z", "2026-11-08T21:00:00Z"]]
    records = write(line(1, requested=on[0][0], on=on, gone=gone, job=None), line(2, day="2026-11-12"))
    assert ask("cost", "report", records, "--json").json["usd"] == 1.0 + usd


@pytest.mark.parametrize(("days", "code"), [(0, 2), (1, 0), (3660, 0), (3661, 2)])
def test_a_report_begins_yesterday_at_the_latest_and_ten_years_ago_at_the_earliest(
    ask: Ask, write: Callable[..., str], days: int, code: int
) -> None:
    answer = ask("cost", "report", write(line(1)), "--since", str(TODAY - timedelta(days=days)))
    assert (answer.code, "--since: is not a time in the past" in answer.err) == (code, code == 2)


def test_idle_money_is_the_pools_and_jobs_are_their_teams(ask: Ask, write: Callable[..., str], stack: Any) -> None:
    standby = [["2026-11-10T08:00:00Z", "2026-11-10T08:30:00Z"], ["2026-11-10T10:00:00Z", "2026-11-10T11:00:00Z"]]
    waited = line(9, on=standby, requested=standby[0][0], job={"repository": "acme/tools", "workflow": ""})
    words = ("cost", "report", write(*LINES, waited), "--stack", stack(text=TEAMS), "--json")

    def usd(*by: str) -> Json:
        rows = ask(*words, *(("--by", ",".join(by)) if by else ())).json["rows"]
        return {" ".join(row[name] for name in by or ("team", "repository")): round(row["usd"], 6) for row in rows}

    assert usd() == {
        "vision acme/kernels": 2, "speech acme/Asr": 1, "(no team) acme/tools": 1, "(no job) (no job)": 1.5,
    }  # fmt: skip
    assert usd("pool") == {"l4": 4.5, "t4": 1}
    assert usd("team", "pool") == {
        "vision l4": 2, "speech l4": 1, "(no team) l4": 1, "(no job) l4": 0.5, "(no job) t4": 1,
    }  # fmt: skip
    assert usd("workflow") == {"CI": 3, "(unknown)": 1, "(no job)": 1.5}
    found = ask(*words).json
    assert found["budgets"] == {
        "vision": {"spentUsd": pytest.approx(4), "usdPerMonth": 2, "onBudget": "stop"},
        "speech": {"spentUsd": 1, "usdPerMonth": None, "onBudget": "warn"},
    }
    assert found["warnings"][0] == "vision has spent 4.00 USD of 2.00 USD in this month"


def test_records_come_from_several_files_and_from_standard_input(
    ask: Ask, write: Callable[..., str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write(LINES[0], name="a.jsonl")
    write(LINES[0], LINES[1], name="b.jsonl")
    with (tmp_path / "b.jsonl").open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert ask("cost", "report", "a.jsonl", "-", "--json").json["total"]["jobs"] == 2


def test_a_terminal_shows_the_table_the_baselines_and_a_chart(ask: Ask, write: Callable[..., str]) -> None:
    answer = ask("cost", "report", write(*LINES))
    lines = [" ".join(line.split()) for line in answer.out.splitlines()]
    for expected in (
        "Cost of 2026-11-09 to 2026-11-15, compared with 2026-11-02 to 2026-11-08",
        "acme/kernels 3 300 s 300 s 50% (27% known) 0.50 0.67 0.83 0.00 2.00 1.00 +100%",
        "(no job) 0 0.00 0.00 0.00 1.00 1.00 0.00 new",
        "all machines 4 300 s 300 s 50% (21% known) 1.00 1.17 0.83 1.00 4.00 1.00 +300%",
        "GitHub's runner linux_4_core_gpu (1 x T4), 0.052 USD a minute, each job rounded up 4.68 15%",
        "2026-11: 6.00 USD until yesterday, about 9.57 USD at its end (at most 9% off in simulated months).",
        "2026-11-09 4.00 " + "█" * 40,
        "2026-11-16 so far 1.00 " + "█" * 10,
        "warning: 1 of 5 records incomplete: price 1",
    ):
        assert expected in lines


def test_markdown_has_the_chart_and_no_markup_of_a_workflow(ask: Ask, write: Callable[..., str]) -> None:
    evil = line(8, job={"workflow": "`| @acme/all <b>\n# x\u202e" + "y" * 100})
    text = ask("cost", "report", write(*LINES, evil), "--by", "workflow", "--markdown").out
    row = next(each for each in text.splitlines() if "acme/all" in each)
    assert row.startswith("| `'/ @acme/all <b>\\n# x\\u202eyyy")
    assert (row.count("`"), row.count("|")) == (2, 13)
    assert "\u202e" not in text
    assert '```mermaid\nxychart-beta\n    x-axis ["2026-11-02", "2026-11-09", "2026-11-16 so far"]\n' in text
    assert "    bar [1.00, 5.00, 1.00]\n```" in text
    assert "> [!WARNING]\n> `1 of 6 records incomplete: price 1`" in text


def test_no_saving_is_without_the_name_of_its_baseline(ask: Ask, write: Callable[..., str]) -> None:
    found = ask("cost", "report", write(*LINES), "--json").json["baselines"]
    assert {each["name"].partition(" (")[0]: round(each["usd"], 2) for each in found} == {
        "always-on standard VMs for 95% of the time": 143.4,
        "always-on standard VMs for the most jobs at once": 573.62,
        "always-on spot VMs for 95% of the time": 86.03,
        "GitHub's runner linux_4_core_gpu": 4.68,
    }
    assert [each["saving"] for each in found] == [pytest.approx(1 - 4 / each["usd"]) for each in found]


def test_a_baseline_without_a_price_has_no_saving() -> None:
    records = [MachineRecord.model_validate(line(1, machineType="x9-mega"))]
    found = baselines(records, Window(date(2026, 11, 9), date(2026, 11, 16)))
    assert [(each.usd, each.saving(3)) for each in found[:3]] == [(None, None)] * 3
    assert found[0].name == "always-on standard VMs for 95% of the time (1 x x9-mega in us-central1)"


def test_each_job_at_github_is_rounded_up_to_a_minute() -> None:
    job = {"started": "2026-11-10T10:10:00Z", "completed": "2026-11-10T10:11:01Z"}
    found = baselines([MachineRecord.model_validate(line(1, job=job))], Window(date(2026, 11, 9), date(2026, 11, 16)))
    assert found[3].usd == 2 * 0.052


def test_a_baseline_is_of_the_most_used_machine_type_and_lasts_as_long_as_the_report() -> None:
    long = {"on": [["2026-11-10T10:00:00Z", "2026-11-10T15:00:00Z"]], "gone": "2026-11-10T15:00:00Z"}
    lines = [line(1), line(2), line(3, machineType="g2-standard-4", **long)]
    records = [MachineRecord.model_validate(each) for each in lines]
    week, day = (Window(date(2026, 11, 10), date(2026, 11, at)) for at in (17, 11))
    assert "3 x g2-standard-4 in us-central1" in baselines(records, week)[1].name
    costs = [baselines(records, each)[1].usd or 0.0 for each in (week, day)]
    assert costs[0] == pytest.approx(7 * costs[1])
    assert costs[1] > 0.0


def test_a_job_that_began_before_the_report_is_there_from_its_beginning() -> None:
    night = {"requested": "2026-11-08T20:00:00Z", "gone": "2026-11-09T01:00:00Z", "day": "2026-11-08"}
    times = {"created": "2026-11-08T20:00:00Z", "started": "2026-11-08T20:00:00Z", "completed": "2026-11-09T01:00:00Z"}
    lines = [line(at, on=[[night["requested"], night["gone"]]], job=times, **night) for at in (1, 2)]
    records = [MachineRecord.model_validate(each) for each in lines]
    found = baselines(records, Window(date(2026, 11, 9), date(2026, 11, 10)))
    assert [each.name.partition("(")[2][:3] for each in found[:2]] == ["1 x", "2 x"], "two jobs for an hour of 24"


@pytest.mark.parametrize(("count", "median", "p95"), [(1, 1, 1), (2, 1, 2), (3, 2, 3), (20, 10, 19), (21, 11, 20)])
def test_a_share_of_the_jobs_waited_no_longer(
    ask: Ask, write: Callable[..., str], count: int, median: int, p95: int
) -> None:
    waits = [line(at, job={"created": f"2026-11-10T10:09:{60 - at}Z"}) for at in range(1, count + 1)]
    found = ask("cost", "report", write(*waits), "--json").json
    assert found["total"]["waitSec"] == {"median": median, "p95": p95}


def test_an_n1_machine_of_a_baseline_has_a_gpu() -> None:
    records = [MachineRecord.model_validate(line(1, machineType="n1-standard-4", gpu="nvidia-tesla-t4"))]
    found = baselines(records, Window(date(2026, 11, 9), date(2026, 11, 16)))[0]
    assert found.usd is not None
    assert "t4" in found.name


@pytest.mark.parametrize(
    ("today", "expected"),
    [
        (date(2026, 11, 30), Forecast("2026-11", 290, 300, 0.04)),
        (date(2026, 11, 16), Forecast("2026-11", 150, 300, 0.09)),
        (date(2026, 11, 9), Forecast("2026-11", 80, 300, 0.17)),
        (date(2026, 11, 4), Forecast("2026-11", 30, 300, None)),
        (date(2026, 11, 1), Forecast("2026-11", 0, 300, None)),
    ],
)
def test_a_steady_cost_is_forecast_exactly(today: date, expected: Forecast) -> None:
    by_day = {today - timedelta(days=at): 10.0 for at in range(1, 60)}
    assert forecast(by_day, today) == expected
    assert forecast({}, today) is None


def test_the_first_week_follows_the_weekdays_before() -> None:
    by_day = {date(2026, 10, 1) + timedelta(days=at): 7.0 for at in range(31) if (at + 3) % 7 < 5}
    found = forecast(by_day, date(2026, 11, 1))
    assert found is not None
    assert found.usd == 7 * 21, "November has 21 days from Monday to Friday"


def test_the_first_week_follows_four_weeks() -> None:
    by_day = {
        date(2026, 11, 1) - timedelta(days=at): 1.0 if at <= 21 else 5.0 if at <= 28 else 50.0 for at in range(1, 60)
    }
    found = forecast(by_day, date(2026, 11, 1))
    assert found is not None
    assert found.usd == 30 * (3 * 1.0 + 5.0) / 4


def test_a_record_is_as_the_published_schema_says() -> None:
    schema = json.loads((ROOT / "docs/machine-record.schema.json").read_text())
    validator = Draft202012Validator(schema, format_checker=FormatChecker())
    for each in records(machines(40)):
        validator.validate(json.loads(each.line()))
    errors = validator.iter_errors(line(1, usdPerHour=-1, schema=2, on=[["2026-11-10T10:00:00Z"]]))
    assert sorted(error.json_path for error in errors) == ["$.on[0]", "$.schema", "$.usdPerHour"]


def test_a_thousand_records_have_the_sum_of_their_machines(ask: Ask, tmp_path: Path) -> None:
    made = machines(998)
    (tmp_path / "many.jsonl").write_text("".join(f"{each.line()}\n" for each in records(made)))
    found = ask("cost", "report", "many.jsonl", "--since", "2026-10-05", "--json").json
    expected = sum((end - begin) / 3600 * each.usd_per_hour for each in made for begin, end in each.on)
    assert found["usd"] == pytest.approx(expected, rel=1e-9)
    assert found["total"]["jobs"] == sum(bool(each.repository) for each in made)
    assert (len(made), DAYS, str(TODAY)) == (1000, 28, "2026-11-21")


def test_a_job_on_a_cluster_has_no_baseline_and_counts_for_no_budget(
    ask: Ask, write: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "Pulumi.dev.yaml").write_text(TEAMS)
    lines = (line(1), line(2, supplier="kubernetes", incomplete=["node"]))
    found = ask("cost", "report", write(*lines), "--stack", "Pulumi.dev.yaml", "--json").json
    assert (found["baselines"], found["total"]["usd"]) == ([], 2.0)
    assert found["budgets"]["vision"]["spentUsd"] == 1.0
    assert "1 job on clusters, without boot and idle time of nodes: no baseline is compared" in found["warnings"]


def test_a_machine_of_a_build_counts_for_no_budget(ask: Ask, write: Callable[..., str], stack: Any) -> None:
    records = write(line(1), line(2, supplier="google-cloud-build"))
    found = ask("cost", "report", records, "--by", "team", "--stack", stack(text=TEAMS), "--json").json
    assert (found["total"]["usd"], found["budgets"]["vision"]["spentUsd"]) == (2.0, 1.0)


def test_records_that_begin_after_the_time_before_are_a_warning(ask: Ask, write: Callable[..., str]) -> None:
    found = ask("cost", "report", write(line(1)), "--json").json
    text = "the first record is of 2026-11-10: nothing is compared, and earlier machines may be missing"
    assert text in found["warnings"]


@pytest.mark.parametrize(("first", "warned"), [(4, False), (5, True)])
def test_records_that_begin_within_the_time_before_are_a_warning(
    ask: Ask, write: Callable[..., str], first: int, warned: bool
) -> None:
    """The week before begins on Monday 2026-11-02, and a weekend may have no machine."""
    records = write(line(1), line(2, day=f"2026-11-0{first}"))
    found = ask("cost", "report", records, "--json").json
    text = f"the first record is of 2026-11-0{first}: 2026-11-02 to 2026-11-09, as far as there are records"
    assert any(each.startswith(text) for each in found["warnings"]) == warned


def test_a_budget_counts_as_the_manager_does_and_is_spent_when_it_is_reached(
    ask: Ask, write: Callable[..., str], stack: Any
) -> None:
    """The whole time of a machine counts, also the half hour on standby."""
    standby = [["2026-11-10T08:00:00Z", "2026-11-10T08:30:00Z"], ["2026-11-10T10:00:00Z", "2026-11-10T11:00:00Z"]]
    records = write(line(1, on=standby, requested=standby[0][0]), line(2, on=standby[:1], requested=standby[0][0]))
    for usd, is_spent in ((1.99, True), (2.0, True), (2.01, False)):
        text = TEAMS.replace("usdPerMonth: 2", f"usdPerMonth: {usd}")
        found = ask("cost", "report", records, "--stack", stack(text=text), "--json").json
        assert found["budgets"]["vision"]["spentUsd"] == pytest.approx(2.0)
        assert (f"vision has spent 2.00 USD of {usd:.2f} USD in this month" in found["warnings"]) == is_spent


def test_of_two_records_of_a_machine_the_one_that_knows_more_counts(ask: Ask, write: Callable[..., str]) -> None:
    less = line(1, job=None, incomplete=["job"])
    for lines in ((line(1), less), (less, line(1))):
        assert ask("cost", "report", write(*lines), "--json").json["total"]["jobs"] == 1


def test_a_machine_that_is_gone_after_today_is_not_counted_and_is_a_warning(
    ask: Ask, write: Callable[..., str]
) -> None:
    found = ask("cost", "report", write(line(1), line(2, day="2026-11-21"), line(3, day="2026-11-22")), "--json").json
    assert found["usdByWeek"] == {"2026-11-09": 1, "2026-11-16": 1}
    assert "1 record of days to come: not counted; compare the manager's clock" in found["warnings"]


def test_days_without_a_machine_name_the_days_of_the_records(ask: Ask, write: Callable[..., str]) -> None:
    found = ask("cost", "report", write(line(1, day="2026-11-20"), line(2, day="2026-11-21")), "--json").json
    text = "no machine was deleted in these days; the records are of 2026-11-20 to 2026-11-21"
    assert text in found["warnings"]
    assert ask("cost", "report", write(), "--json").json["warnings"] == ["no machine was deleted in these days"]


def test_nothing_of_a_record_breaks_a_line(ask: Ask, write: Callable[..., str]) -> None:
    evil = line(1, zone="a\n# b", machineType="c\n# d\x1b[31m", incomplete=["e\n# f"])
    for options in ([], ["--markdown"]):
        out = ask("cost", "report", write(evil), *options).out
        assert {"b", "d", "f"}.isdisjoint(each[2:3] for each in out.splitlines() if each.startswith("# "))
        assert "e\\n# f" in out
        assert "\x1b" not in out
