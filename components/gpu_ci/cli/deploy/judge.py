"""`gpu-ci deploy judge`: prints the verdict on a canary as JSON, and exits with its code."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click
from pydantic.alias_generators import to_camel

from gpu_ci.cli import clock
from gpu_ci.cli.deploy.inputs import minute_of, read_minutes, read_options, rules_options
from gpu_ci.cli.mistakes import Mistakes
from gpu_ci.cli.output import note, print_json
from gpu_ci.delivery.judge import Rules, Verdict, judge

MODELS = ("canary", "stable")
CODES = {"advance": 0, "rollback": 2, "hold": 3}
_REASONS = {
    "within-tolerance": "no alarm in {minutes} minutes and {requests:,.0f} requests of the canary",
    "errors": "the canary has more errors than the tolerance of {rules.tolerance:g} allows",
    "slow": "the canary has more slow requests than the tolerance of {rules.slow_tolerance:g} allows",
    "ceiling": "the error rate of the canary is above {rules.ceiling:.0%}",
    "max-hold": "the step lasts longer than {rules.step_minutes} + {rules.max_hold_minutes} minutes",
    "no-data": "no minute of this step has requests of {models}",
    "old-data": "the newest minute with requests of {models} is more than {rules.max_age_minutes} minutes old",
    "step-not-over": "{minutes} of {rules.step_minutes} minutes have requests of {models}",
    "few-requests": "the canary has {requests:,.0f} of {rules.min_requests:,} requests",
}


@click.command("judge")
@click.argument("file", metavar="FILE")
@rules_options(*Rules.model_fields, "since", "now")
@click.pass_context
def command(context: click.Context, /, file: str, **given: Any) -> None:
    """Decide whether a canary advances, holds or is rolled back.

    FILE has the counts of requests by minute since the canary got traffic; - is standard input. The verdict goes to
    stdout as JSON, and its reason to stderr. Without data, the answer is hold.

    Leave the newest minutes out until the metrics of both models are complete.

    \b
    Each line of FILE, or each element of a list:
      {"minute": "2026-11-30T10:05:00Z", "canary": {"requests": 50, "errors": 1, "slow": 2},
       "stable": {"requests": 450, "errors": 2, "slow": 9}}

    \b
    Exit codes:
      0  advance
      1  an error, such as a mistake in FILE
      2  rollback
      3  hold

    \b
    Examples:
      gpu-ci deploy judge minutes.jsonl
      gpu-ci deploy judge - --step-minutes 15 --min-requests 500 < minutes.jsonl
    """
    mistakes = Mistakes()
    rules = read_options(given, context.command_path, mistakes)
    minutes = read_minutes(file, mistakes)
    mistakes.refuse()
    now = minute_of(rules.now or clock.now())
    if future := [each.minute for each in minutes if each.minute > now]:
        hint = "check the time zone of the minutes, and the clock; or set --now"
        mistakes.add(file, "", "has minutes of the future", str(_time(max(future))), f"none after {_time(now)}", hint)
    mistakes.refuse()
    verdict = judge(minutes, rules, None if rules.since is None else minute_of(rules.since), now)
    document = _document(verdict, rules)
    print_json(document)
    note(f"{verdict.answer}: {document['text']}")
    for name, each in document["comparisons"].items():
        rates = [f"{each[f'{model}Rate']:.2%} {model}" for model in MODELS if each[f"{model}Rate"] is not None]
        note(
            f"  {name}: {' and '.join(rates) or 'no requests'}, p {each['pValue']:.2g} (rollback at {each['limit']:g})"
        )
    context.exit(CODES[verdict.answer])


def _document(verdict: Verdict, rules: Rules) -> dict[str, Any]:
    models = "the canary" if rules.canary_alone else "both models"
    text = _REASONS[verdict.reason].format(
        rules=rules, minutes=verdict.step_minutes, requests=verdict.step_requests, models=models,
    )  # fmt: skip
    return {
        "answer": verdict.answer,
        "reason": verdict.reason,
        "text": text,
        "minute": _time(verdict.minute),
        "stepMinutes": verdict.step_minutes,
        "stepRequests": verdict.step_requests,
        "comparisons": {
            name: {to_camel(field): value for field, value in each._asdict().items()} | {"alarm": _time(each.alarm)}
            for name, each in verdict.comparisons.items()
        },
        "rules": {to_camel(name): getattr(rules, name) for name in Rules.model_fields},
    }


def _time(minute: int | None) -> str | None:
    return None if minute is None else f"{datetime.fromtimestamp(minute * 60, UTC):%Y-%m-%dT%H:%M:%SZ}"
