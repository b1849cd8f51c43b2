"""The command group `gpu-ci manager`, and `gpu-ci manager status`."""

from __future__ import annotations

import time
from typing import Any

import click
from gpu_ci.cli.cost.window import midnight
from gpu_ci.cli.cost.window import since as day_since
from gpu_ci.cli.mistakes import Mistakes
from gpu_ci.cli.output import note, print_json, print_table

from ..view import NEXT_STEPS
from . import options
from .reap_command import command as reap
from .run_command import command as run

# A manager makes at least one pass each minute, and a pass may take a minute or two.
_STALE_SEC = 240.0


@click.group("manager")
def command() -> None:
    """Start a machine for each queued job, and delete the machine when the job has ended.

    The manager reads queued jobs from GitHub and starts machines on Compute Engine from templates whose check passed.
    It deletes each machine that has ended. It needs no address that other computers can reach.

    \b
    Examples:
      gpu-ci manager run --app-key manager-app.pem
      gpu-ci manager status
      gpu-ci manager records > records.jsonl
      gpu-ci manager reap
    """


command.add_command(reap)
command.add_command(run)


@command.command("status")
@options.config
@options.state
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(config_file: str, state: str | None, as_json: bool) -> None:
    """Print each pool, each machine, and each queued job with its machine or the reason why it has none.

    The command reads the last state of the manager with this --state. It sends no request to GitHub or Compute Engine.

    \b
    Examples:
      gpu-ci manager status
      gpu-ci manager status --config manager.json --json
    """
    view = options.last_view(config_file, state)
    if as_json:
        print_json(view)
        return
    click.echo(f"as of {age(view['at'])} ago{stale(view['at'])}\n")
    print_table(
        ["pool", "machines", "max", "standby", "labels", "pool stopped"],
        [
            [
                pool["name"],
                unknown(pool["machines"]),
                str(pool["max"]),
                f"{pool['onStandby']} of {pool['standby']}" if pool.get("standby") else "-",
                ", ".join(pool["labels"]),
                pool["stopped"] or "no",
            ]
            for pool in view["pools"]
        ],
        right="machines|max",
    )
    click.echo("")
    if view["machines"]:
        print_table(
            ["machine", "status", "zone", "market", "job"],
            [[row["name"], row["status"], row["zone"], row["market"], row["job"] or "-"] for row in view["machines"]],
        )
        click.echo("")
    for job in view["jobs"] or ():
        click.echo(sentence(job))
    if view["jobs"] is None:
        click.echo(f"jobs: unknown: {unknown_jobs(view)}")
    elif not view["jobs"]:
        click.echo("no job waits or runs")


@command.command("records")
@options.config
@options.state
@click.option("--since", metavar="TIME", default="10w", show_default=True,
              help="A date such as 2026-11-01, or an age such as 30d or 4w.")  # fmt: skip
def records(config_file: str, state: str | None, since: str) -> None:
    """Print the record of each machine that is gone, as one line of JSON, for `gpu-ci cost report`.

    docs/machine-record.schema.json describes a record.

    \b
    Examples:
      gpu-ci manager records > records.jsonl
      gpu-ci manager records --since 2026-11-01 | gpu-ci cost report -
    """
    mistakes = Mistakes()
    begin = midnight(day_since(since, "gpu-ci manager records", mistakes))
    mistakes.refuse()
    count = 0
    for count, line in enumerate(options.records(config_file, state, begin), 1):  # noqa: B007
        click.echo(line)
    note(f"records since {begin:%F}: {count}; a machine gets its record when GitHub shows the end of its job, "
         "a minute to an hour after the machine is gone")  # fmt: skip


def sentence(job: dict[str, Any]) -> str:
    """Return one line about a job."""
    name = f"{job['repository']} {job['workflow']} / {job['name']} (job {job['id']})"
    if job["status"] == "in_progress":
        return f"{name}: runs on {job['machine']}"
    if job["machine"] and not job.get("reason"):
        return f"{name}: queued, machine {job['machine']} starts for it"
    later = f"; next try {until(job['nextTry'])}" if job.get("nextTry") else ""
    return f"{name}: {job['reason']}: {job['detail']}{later}; {job['nextStep']}"


def unknown_jobs(view: dict[str, Any]) -> str:
    """Return why the last pass has no jobs."""
    if limited := view.get("githubLimitedUntil"):
        return f"github-limited: GitHub's rate limit ends {until(limited)}; {NEXT_STEPS['github-limited']}"
    return "the manager's last pass got no complete answer from GitHub"


def until(unix: float) -> str:
    return f"in {max(unix - time.time(), 0):.0f} s"


def age(unix: float) -> str:
    """Return the time since then in seconds, minutes or hours."""
    seconds = max(time.time() - unix, 0)
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length:.0f} {unit}"
    return f"{seconds:.0f} s"


def stale(unix: float) -> str:
    """Return a warning if the last pass is too long ago, or ""."""
    if time.time() - unix < _STALE_SEC:
        return ""
    return ": no manager runs with this --state, so this state may be out of date"


def unknown(count: int | None) -> str:
    return "unknown" if count is None else str(count)
