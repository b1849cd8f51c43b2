"""The command `pulumi-sandbox job`: workflow runs and jobs of the emulated GitHub."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import click

from pulumi_sandbox.cli.program_name import program
from pulumi_sandbox.cli.world_views import open_world, print_json, print_table
from pulumi_sandbox.providers import sandbox_file
from pulumi_sandbox.providers.github.actions import documents
from pulumi_sandbox.providers.github.actions.model import COMPLETED, JOB, STATUS, Definition, Step
from pulumi_sandbox.providers.github.actions.state import Actions, RunCompleted
from pulumi_sandbox.providers.github.repositories import Repositories
from pulumi_sandbox.providers.github.world import API
from pulumi_sandbox.workspace import Workspace

json_option = click.option("--json", "wants_json", is_flag=True, help="JSON instead of text.")
EXAMPLE = "example-org/*"


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
def job() -> None:
    """Queue, list, show, approve and cancel jobs of GitHub Actions in the sandbox.

    \b
    pulumi-sandbox job queue --repository kernels --labels self-hosted,gpu,l4 --run ls
    pulumi-sandbox job list                       what is queued, runs and has ended
    pulumi-sandbox job show 50001                 steps and log of one
    pulumi-sandbox job cancel 50001               cancel its workflow run

    These commands work with and without a process that serves this sandbox.
    """


@contextmanager
def opened() -> Iterator[Actions]:
    """Return the GitHub Actions state of this project's sandbox, brought up to the present time."""
    file = Workspace.find().settings_file
    try:
        patterns = sandbox_file.existing(file, "github", EXAMPLE)
    except sandbox_file.SettingsError as wrong:
        raise click.ClickException(str(wrong)) from None
    with open_world() as world:
        actions = Actions(world, Repositories(world, patterns))
        actions.settle()
        yield actions


@job.command()
@click.option("--repository", required=True, metavar="NAME", help="NAME or OWNER/NAME of a repository.")
@click.option("--labels", required=True, metavar="A,B", help="What runs-on asks for, with commas between.")
@click.option("--run", "scripts", required=True, multiple=True, metavar="SCRIPT", help="A step; may be given again.")
@click.option("--name", default="test", show_default=True, help="The job's name.")
@click.option("--workflow", default="CI", show_default=True, help="The workflow's name.")
@click.option("--waiting", is_flag=True, help="The job waits for an approval of its environment first.")
@json_option
def queue(
    repository: str, labels: str, scripts: tuple[str, ...], name: str, workflow: str, waiting: bool, wants_json: bool
) -> None:
    """Start a workflow run with one job."""
    wanted = tuple(one.strip() for one in labels.split(",") if one.strip())
    if not wanted:
        raise click.ClickException(
            f"job: --labels: has no label\n  got: {labels!r}\n  expected: such as self-hosted,gpu"
        )
    if empty := [script for script in scripts if not script.strip()]:
        raise click.ClickException(f"job: --run: has no command\n  got: {empty[0]!r}\n  expected: such as ls")
    steps = tuple(Step(f"Run {script.strip().splitlines()[0]}", script) for script in scripts)
    with opened() as actions:
        names = [repository] if "/" in repository else actions.repositories.named(repository)
        home = next((one for one in map(actions.repositories.get, names) if one), None)
        if home is None:
            raise click.ClickException(
                f"job: {repository}: no such repository\n  got: {', '.join(names) or repository}\n"
                f"  expected: one that a stack made, or that sandbox.yaml lists under exists: github"
            )
        run, (made,) = actions.queue(home, [Definition(name, wanted, steps, waiting)], workflow=workflow)
        if groups := actions.closed_groups(home):
            click.echo(
                f"warning: job {made['id']} may wait for ever: no runner group lets its repository in\n"
                f"  got: {home.full_name}\n  expected: one of {'; '.join(groups)}",
                err=True,
            )
        if wants_json:
            print_json(shown(actions, made))
            return
    click.echo(f"queued job {made['id']} ({name}) of run {run['id']} in {home.full_name}, for {', '.join(wanted)}")
    click.echo(f"  see it with: {program()} job show {made['id']}")


@job.command(name="list")
@click.option("--all", "every", is_flag=True, help="Those of earlier attempts too.")
@json_option
def list_command(every: bool, wants_json: bool) -> None:
    """List the jobs, oldest first."""
    with opened() as actions:
        rows = [one.outputs for one in actions.world.find(JOB)]
        newest = {(one["runId"], one["position"]): one["id"] for one in rows}
        rows = [one for one in rows if every or one["id"] in newest.values()]
        if wants_json:
            print_json([shown(actions, one) for one in rows])
            return
        now = actions.now()
    if not rows:
        click.echo(f"no jobs; queue one with: {program()} job queue --repository NAME --labels A,B --run SCRIPT")
        return
    print_table(
        ["JOB", "RUN", "REPOSITORY", "NAME", "STATUS", "LABELS", "RUNNER", "WAITED", "TOOK"],
        [
            [
                str(one["id"]), f"{one['runId']}.{one['attempt']}", one["repository"], one["name"],
                one["conclusion"] or one["status"], ", ".join(one["labels"]), (one["runner"] or {}).get("name") or "",
                span(one["createdAt"], one["startedAt"] or one["completedAt"] or now),
                span(one["startedAt"], one["completedAt"] or now) if one["startedAt"] else "",
            ]
            for one in rows
        ],
    )  # fmt: skip


def span(start: float, end: float) -> str:
    return f"{max(0, int(end - start))} s"


@job.command()
@click.argument("number", type=int, metavar="JOB")
@json_option
def show(number: int, wants_json: bool) -> None:
    """Show the steps and the log of a JOB."""
    with opened() as actions:
        one = found(actions, number)
        if wants_json:
            print_json(shown(actions, one))
            return
        statuses = [row.outputs for row in actions.world.find(STATUS, sha=(actions.run(one["runId"]) or {})["sha"])]
    times = [
        ("created", one["createdAt"]), ("started", one["startedAt"]), ("completed", one["completedAt"]),
    ]  # fmt: skip
    print_table(
        ["", ""],
        [
            ["job", f"{one['id']} ({one['name']})"],
            ["run", f"{one['runId']}, attempt {one['attempt']}, in {one['repository']}"],
            ["status", one["conclusion"] or one["status"]],
            ["labels", ", ".join(one["labels"])],
            ["runner", (one["runner"] or {}).get("name") or ""],
            *([name, clock(at)] for name, at in times if at),
            *([f"status {each['context']}", f"{each['state']}: {each['description'] or ''}"] for each in statuses),
        ],
    )
    for step in one["steps"]:
        click.echo(f"step {step['number']}: {step['name']}: {step['conclusion']}")
    if one["log"]:
        click.echo(one["log"].rstrip("\n"))


def clock(unix: float) -> str:
    return datetime.fromtimestamp(unix).astimezone().strftime("%Y-%m-%d %H:%M:%S")


@job.command()
@click.argument("number", type=int, metavar="JOB")
def approve(number: int) -> None:
    """Approve the environment of a waiting JOB. This queues the job."""
    with opened() as actions:
        one = found(actions, number)
        if not actions.approve(number):
            raise click.ClickException(
                f"job: {number}: the job does not wait for an approval\n  got: {one['conclusion'] or one['status']}\n"
                "  expected: waiting"
            )
    click.echo(f"approved job {number}; it is queued")


@job.command()
@click.argument("number", type=int, metavar="JOB")
def cancel(number: int) -> None:
    """Cancel the workflow run of a JOB. GitHub cancels whole runs only.

    A queued job ends at once. A running job ends when its runner has ended the steps.
    """
    with opened() as actions:
        one = found(actions, number)
        try:
            actions.cancel(one["runId"])
        except RunCompleted:
            raise click.ClickException(
                f"job: {number}: its run {one['runId']} has ended already\n  got: {one['conclusion']}\n"
                "  expected: a job that is queued, waiting or in progress"
            ) from None
        ended = found(actions, number)["status"] == COMPLETED
    click.echo(f"cancelled run {one['runId']}" + ("" if ended else "; its runner ends the job's steps now"))


def found(actions: Actions, number: int) -> dict[str, Any]:
    one = actions.job(number)
    if one is None:
        raise click.ClickException(f"job: {number}: no such job\n  hint: {program()} job list shows them")
    return one


def shown(actions: Actions, one: dict[str, Any]) -> dict[str, Any]:
    """Return the job as in GitHub's API, and its log."""
    return documents.job(API, one, actions.run(one["runId"]) or {}) | {"log": one["log"]}
