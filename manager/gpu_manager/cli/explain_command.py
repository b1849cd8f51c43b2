"""`gpu-ci explain JOB_URL`: why a job waits, or which machine it has."""

from __future__ import annotations

import re

import click
from gpu_ci.cli.output import InputError, print_json

from . import options
from .status_command import age, sentence

# https://github.com/<owner>/<repository>/actions/runs/<run>/job/<job>, as the address of a job's page has it.
_URL = re.compile(
    r"https?://[^/]+/(?P<repository>[^/]+/[^/]+)/actions/runs/(?P<run>\d+)(?:/jobs?/(?P<job>\d+))?/?(?:[?#].*)?"
)


@click.command("explain")
@click.argument("job_url", metavar="JOB_URL")
@options.config
@options.state
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def command(job_url: str, config_file: str, state: str | None, as_json: bool) -> None:
    """Why a queued job has no machine, what was tried, and what to do.

    JOB_URL is the address of the job's page or of its run's. It reads what the manager with this --state last
    saw.

    \b
    Examples:
      gpu-ci explain https://github.com/acme/kernels/actions/runs/123/job/456
    """
    found = _URL.fullmatch(job_url)
    if found is None:
        raise InputError("JOB_URL: is no address of a job", got=job_url,
                         expected="https://github.com/<owner>/<repository>/actions/runs/<run>/job/<job>")  # fmt: skip
    config = options.configuration(config_file)
    seen = options.published(state, config.name)
    if seen["jobs"] is None:
        raise InputError("the manager's last pass got no whole answer from GitHub", hint="gpu-ci manager status")
    jobs = [
        job
        for job in seen["jobs"]
        if job["repository"].lower() == found["repository"].lower()
        and job["run"] == int(found["run"])
        and (found["job"] is None or job["id"] == int(found["job"]))
    ]
    if as_json:
        print_json({"at": seen["at"], "jobs": jobs})
        return
    if not jobs:
        labels = "; ".join(f"{pool['name']}: {', '.join(pool['labels'])}" for pool in seen["pools"])
        click.echo(f"As of {age(seen['at'])} ago the manager knows of no such job that waits or runs.")
        click.echo("It has ended, or its repository may not use the pools' runner groups, or no pool has its labels.")
        click.echo(f"Labels of the pools: {labels}")
    for job in jobs:
        click.echo(sentence(job))
