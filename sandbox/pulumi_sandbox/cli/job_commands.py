"""The command `pulumi-sandbox job`: workflow runs and jobs of the emulated GitHub."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import click

from pulumi_sandbox.cli.world_commands import open_world, print_json, print_table
from pulumi_sandbox.providers import sandbox_file
from pulumi_sandbox.providers.github.actions import documents
from pulumi_sandbox.providers.github.actions.state import COMPLETED, EVENT, JOB, Actions, RunCompleted
from pulumi_sandbox.providers.github.repositories import Repositories
from pulumi_sandbox.workspace import Workspace

json_option = click.option("--json", "wants_json", is_flag=True, help="JSON instead of text.")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
def job() -> None:
    """Queue, list, show and cancel jobs of GitHub Actions in the sandbox.

    \b
    pulumi-sandbox job queue --repository kernels --labels self-hosted,gpu,l4 --run ls
    pulumi-sandbox job list                       queued, running and ended jobs
    pulumi-sandbox job show 50001                 steps and log of a job
    pulumi-sandbox job cancel 50001               cancel its workflow run

    These commands work with and without a process that serves this sandbox.
    """


@contextmanager
def open_actions() -> Iterator[Actions]:
    """Return the GitHub Actions state of this project's sandbox, updated to the current time."""
    file = Workspace.find().settings_file
    try:
        patterns = sandbox_file.existing_patterns(file, "github")
    except sandbox_file.SettingsError as error:
        raise click.ClickException(str(error)) from None
    with open_world() as world:
        actions = Actions(world, Repositories(world, patterns))
        actions.apply_time()
        yield actions


@job.command()
@click.option("--repository", required=True, metavar="NAME", help="NAME or OWNER/NAME of a repository.")
@click.option("--labels", default="", metavar="A,B", help="The labels of runs-on, separated by commas.")
@click.option("--group", default="", metavar="NAME", help="The runner group of runs-on.")
@click.option(
    "--run",
    "scripts",
    required=True,
    multiple=True,
    metavar="SCRIPT",
    help="The command of a step; repeat the option for more steps.",
)
@click.option("--name", default="test", show_default=True, help="The job's name.")
@click.option("--workflow", default="CI", show_default=True, help="The workflow's name.")
@click.option("--event", default=EVENT, show_default=True, help="The event that started the run.")
@json_option
def queue(
    repository: str, labels: str, group: str, scripts: tuple[str, ...], name: str, workflow: str, event: str,
    wants_json: bool,
) -> None:  # fmt: skip
    """Start a workflow run with one job."""
    runs_on = tuple(one.strip() for one in labels.split(",") if one.strip())
    if not runs_on and not group:
        raise click.ClickException(
            f"job: --labels: has no label, and --group no name\n  got: {labels!r}\n  expected: such as self-hosted,gpu"
        )
    if empty := [script for script in scripts if not script.strip()]:
        raise click.ClickException(f"job: --run: has no command\n  got: {empty[0]!r}\n  expected: such as ls")
    steps = [{"name": f"Run {script.strip().splitlines()[0]}", "run": script} for script in scripts]
    with open_actions() as actions:
        names = [repository] if "/" in repository else actions.repositories.named(repository)
        found = next((one for one in map(actions.repositories.get, names) if one), None)
        if found is None:
            raise click.ClickException(
                f"job: {repository}: no such repository\n  got: {', '.join(names) or repository}\n"
                f"  expected: a repository that a stack created, or that sandbox.yaml lists under exists: github"
            )
        run, (job_entry,) = actions.queue(
            found, [{"name": name, "labels": runs_on, "steps": steps, "group": group}], workflow=workflow, event=event
        )
        if wants_json:
            print_json(as_json(actions, job_entry))
            return
    click.echo(
        f"queued job {job_entry['id']} ({name}) of run {run['id']} in {found.full_name}, "
        f"for {', '.join(job_entry['labels']) or group}"
    )
    click.echo(f"  see it with: pulumi-sandbox job show {job_entry['id']}")


@job.command(name="list")
@json_option
def list_command(wants_json: bool) -> None:
    """List the jobs, oldest first."""
    with open_actions() as actions:
        rows = [entry.outputs for entry in actions.world.find(JOB)]
        if wants_json:
            print_json([as_json(actions, entry) for entry in rows])
            return
        now = actions.now()
    if not rows:
        click.echo("no jobs; queue one with: pulumi-sandbox job queue --repository NAME --labels A,B --run SCRIPT")
        return
    print_table(
        ["JOB", "RUN", "REPOSITORY", "NAME", "STATUS", "LABELS", "RUNNER", "WAITED", "TOOK"],
        [
            [
                str(entry["id"]), f"{entry['runId']}.{entry['attempt']}", entry["repository"], entry["name"],
                entry["conclusion"] or entry["status"], ", ".join(entry["labels"]),
                (entry["runner"] or {}).get("name") or "",
                span(entry["createdAt"], entry["startedAt"] or entry["completedAt"] or now),
                span(entry["startedAt"], entry["completedAt"] or now) if entry["startedAt"] else "",
            ]
            for entry in rows
        ],
    )  # fmt: skip


def span(start: float, end: float) -> str:
    return f"{max(0, int(end - start))} s"


@job.command()
@click.argument("number", type=int, metavar="JOB")
@json_option
def show(number: int, wants_json: bool) -> None:
    """Show the steps and the log of a JOB."""
    with open_actions() as actions:
        entry = find_job(actions, number)
        if wants_json:
            print_json(as_json(actions, entry))
            return
    times = [
        ("created", entry["createdAt"]), ("started", entry["startedAt"]), ("completed", entry["completedAt"]),
    ]  # fmt: skip
    print_table(
        ["", ""],
        [
            ["job", f"{entry['id']} ({entry['name']})"],
            ["run", f"{entry['runId']}, attempt {entry['attempt']}, in {entry['repository']}"],
            ["status", entry["conclusion"] or entry["status"]],
            ["labels", ", ".join(entry["labels"])],
            ["runner", (entry["runner"] or {}).get("name") or ""],
            *([name, clock(at)] for name, at in times if at),
        ],
    )
    for step in entry["steps"]:
        click.echo(f"step {step['number']}: {step['name']}: {step['conclusion']}")
    if entry["log"]:
        click.echo(entry["log"].rstrip("\n"))


def clock(unix: float) -> str:
    return datetime.fromtimestamp(unix).astimezone().strftime("%Y-%m-%d %H:%M:%S")


@job.command()
@click.argument("number", type=int, metavar="JOB")
def cancel(number: int) -> None:
    """Cancel the workflow run of a JOB. GitHub cancels whole runs only.

    A queued job ends at once. A running job ends when its runner has ended the steps.
    """
    with open_actions() as actions:
        entry = find_job(actions, number)
        try:
            actions.cancel(entry["runId"])
        except RunCompleted:
            raise click.ClickException(
                f"job: {number}: its run {entry['runId']} has ended already\n  got: {entry['conclusion']}\n"
                "  expected: a job that is queued or in progress"
            ) from None
        ended = find_job(actions, number)["status"] == COMPLETED
    click.echo(f"cancelled run {entry['runId']}" + ("" if ended else "; its runner ends the job's steps now"))


def find_job(actions: Actions, number: int) -> dict[str, Any]:
    entry = actions.job(number)
    if entry is None:
        raise click.ClickException(f"job: {number}: no such job\n  hint: pulumi-sandbox job list shows them")
    return entry


def as_json(actions: Actions, entry: dict[str, Any]) -> dict[str, Any]:
    """Return the job as in GitHub's API, and its log."""
    return documents.job(entry, actions.run(entry["runId"]) or {}) | {"log": entry["log"]}
