"""`gpu-ci deploy plan`: prints which bad canaries the judge would find with the given traffic, and how soon."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import click
from pydantic.alias_generators import to_camel

from gpu_ci.cli import options
from gpu_ci.cli.deploy.inputs import read_minutes, read_options, rules_options
from gpu_ci.cli.mistakes import Mistakes
from gpu_ci.cli.output import InputError, note, print_json, print_table
from gpu_ci.delivery.judge import Minute, Rules, alpha_of
from gpu_ci.delivery.power import Traffic, found_in

RATIOS = (2, 3, 5, 10, 50)
_HEADINGS = ("ratio", "rate", "canary", "found in the time", "half of them within", "minutes to --min-requests")
_RULES = ("tolerance", "slow_tolerance", "alpha", "confirmations", "min_requests")


@click.command("plan")
@click.argument("file", metavar="FILE")
@click.option("--percent", "percents", multiple=True, type=click.IntRange(1, 99), default=(10,), show_default=True,
              metavar="N", help="The share of requests that the canary will get; repeatable.")  # fmt: skip
@click.option("--minutes", default=60, show_default=True, type=click.IntRange(1, 6 * 60), metavar="N",
              help="The time in which a bad canary must be found.")  # fmt: skip
@rules_options(*_RULES)
@options.as_json
@click.pass_context
def command(
    context: click.Context, /, file: str, percents: Sequence[int], minutes: int, as_json: bool, **given: Any
) -> None:
    """Show which bad canaries the traffic can reveal, and how soon, before the rollout.

    FILE has the counts of requests of the last hour or day, in the form of `gpu-ci deploy judge`; - is standard input.
    Each row is a canary with so many times the errors, or slow requests, of the stable model. 400 rollouts are
    simulated, with constant rates.

    \b
    Examples:
      gpu-ci deploy plan last-hour.jsonl
      gpu-ci deploy plan last-hour.jsonl --percent 10 --percent 50 --minutes 30
    """
    mistakes = Mistakes()
    rules = read_options(given, context.command_path, mistakes)
    found = read_minutes(file, mistakes)
    mistakes.refuse()
    traffic = measured(found)
    if not traffic:
        raise InputError(
            f"{file}: has no requests", got=f"{len(found)} minutes", expected="counts of the stable model",
            hint="take the counts of the last hour or day",
        )  # fmt: skip
    rows = [row for percent in percents for row in plan(traffic, percent / 100, rules, minutes)]
    if as_json:
        print_json({"minutes": minutes, "rows": rows})
        return
    for metric, (per_minute, rate) in traffic.items():
        note(f"{metric}: {rate:.3%} of {per_minute:,.1f} requests per minute; found within {minutes} minutes")
    print_table(["metric", *_HEADINGS], [[row["metric"], *cells(row)] for row in rows], right="|".join(_HEADINGS))


def measured(minutes: Sequence[Minute]) -> dict[str, tuple[float, float]]:
    """Return the requests per minute of both models, and the rate of errors and of slow requests.

    The rates are those of the stable model. Without an error, a rate of one error is assumed.
    """
    stable = [each.stable for each in minutes if each.stable]
    requests = math.fsum(each.requests for each in stable)
    if not requests:
        return {}
    both = [each for minute in minutes for each in (minute.canary, minute.stable) if each]
    per_minute = math.fsum(each.requests for each in both) / len(minutes)
    bad = {"errors": [each.errors for each in stable], "slow": [each.slow for each in stable if each.slow is not None]}
    return {
        name: (per_minute, min(1.0, max(1.0, math.fsum(counts)) / requests)) for name, counts in bad.items() if counts
    }


def plan(traffic: dict[str, tuple[float, float]], share: float, rules: Rules, minutes: int) -> Iterator[dict[str, Any]]:
    """Yield a row for each metric and ratio. Ratios that would make a rate above 100 % are left out.

    Args:
        traffic: The requests per minute and the rate of each metric.
        share: The share of requests that the canary gets.
        rules: The rules of the judge.
        minutes: The time in which a bad canary must be found.
    """
    tolerances = {"errors": rules.tolerance, "slow": rules.slow_tolerance}
    for metric, (per_minute, rate) in traffic.items():
        for ratio in RATIOS:
            if ratio * rate > 1:
                continue
            found = found_in(
                Traffic(per_minute, rate, share), ratio, minutes,
                tolerances[metric], alpha_of(rules, len(traffic)), rules.confirmations,
            )  # fmt: skip
            median = sorted(each or math.inf for each in found)[len(found) // 2]
            row = {
                "metric": metric,
                "ratio": ratio,
                "canary_rate": ratio * rate,
                "canary_share": share,
                "found": sum(each is not None for each in found) / len(found),
                "median_minutes": median if median < math.inf else None,
                "minutes_to_min_requests": math.ceil(rules.min_requests / (per_minute * share)),
            }
            yield {to_camel(name): value for name, value in row.items()}


def cells(row: dict[str, Any]) -> list[str]:
    """Return the cells of a row after the metric."""
    median = row["medianMinutes"]
    return [
        str(row["ratio"]),
        f"{row['canaryRate']:.2%}",
        f"{row['canaryShare']:.0%}",
        f"{row['found']:.0%}",
        f"{median} min" if median else "",
        f"{row['minutesToMinRequests']:,}",
    ]
