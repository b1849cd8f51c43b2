"""`gpu-ci train submit`, `wait` and `cancel`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from gpu_ci.cli.deploy.rollout_inputs import real_clock
from gpu_ci.cli.deploy.rollout_report import append_to_summary, cell
from gpu_ci.cli.durations import Duration
from gpu_ci.cli.mistakes import Mistakes
from gpu_ci.cli.output import InputError, ProblemsFound, note, print_json
from gpu_ci.cli.train import inputs
from gpu_ci.delivery.training.jobs import LATE_SEC, RUN, Job, Jobs, OtherSettingsError, state_of
from gpu_ci.delivery.training.settings import job_spec, worst_case
from gpu_ci.gcp.gate.google_service import ApiError

_CODES = {"SUCCEEDED": 0, "FAILED": 2, "EXPIRED": 2, "PARTIALLY_SUCCEEDED": 2, "CANCELLED": 3}
_TIME_OVER = 4
_COLUMNS = ("job", "state", "created", "started", "ended", "error")

_job = click.argument("job", metavar="JOB")
_key = click.option(
    "--key",
    default="",
    metavar="TEXT",
    help="Distinguishes the submits of one job or matrix. Outside GitHub Actions, the name of this run.",
)


@click.command("submit")
@click.argument("location", metavar="LOCATION")
@click.argument("file", metavar="FILE")
@click.option("--image", metavar="IMAGE", help="The image with its digest, instead of that of FILE.")
@click.option("--env", "variables", multiple=True, metavar="NAME=VALUE",
              help="An environment variable, in addition to those of FILE; repeatable.")  # fmt: skip
@_key
def submit(location: str, file: str, image: str | None, variables: Sequence[str], key: str) -> None:
    """Submit the training job that FILE describes, in projects/PROJECT/locations/LOCATION.

    A label of the job has a hash of repository, run, job and attempt. The same submit again prints the same job. The
    worst-case cost is printed before the job is created.

    \b
    Examples:
      gpu-ci train submit projects/acme/locations/europe-west4 train.yaml
      gpu-ci train submit projects/acme/locations/europe-west4 train.yaml --key large --env SIZE=large
    """
    mistakes = Mistakes()
    parent, region = inputs.read_location(location, mistakes, can_be_job=False)
    run, name = inputs.read_run(key, mistakes)
    settings = inputs.read_settings(file, region, image, variables, mistakes)
    mistakes.refuse()
    assert settings  # noqa: S101 - there is no mistake
    cost = worst_case(settings, region)
    note(f"worst-case cost: {cost.text}")
    with _errors(parent):
        try:
            job = _jobs(parent, region).submit(run, name, job_spec(settings))
        except OtherSettingsError as error:
            raise InputError(
                f"{file}: this run has a job with other settings", got=str(error), expected="the same settings",
                hint="give each submit of a run its own --key, such as a value of the matrix",
            ) from None  # fmt: skip
    _report("Training job", job, {"worstCaseUsd": cost.usd, "worstCase": cost.text})


@click.command("wait")
@_job
@_key
@click.option("--for", "seconds", type=Duration(), default="350m", show_default=True, metavar="TIME",
              help="Stop after this time, such as 50m. The job continues.")  # fmt: skip
@click.pass_context
def wait(context: click.Context, /, job: str, key: str, seconds: float) -> None:
    """Wait until a training job ends.

    JOB is the name that `submit` prints, or projects/PROJECT/locations/LOCATION for the job of this run.

    \b
    Exit codes:
      0  succeeded
      1  an error
      2  failed or expired
      3  cancelled
      4  the time of --for is over, and the job continues

    \b
    Examples:
      gpu-ci train wait projects/acme/locations/europe-west4 --for 50m
      gpu-ci train wait projects/acme/locations/europe-west4/customJobs/4711
    """
    with _errors(job):
        jobs, found = _find(job, key)
        if not found:
            raise ApiError("no-job", "this run has no job; gpu-ci train submit creates it")
        end = jobs.wait(found[0]["name"], real_clock().now() + seconds)
    name = end.job["name"]
    _report("Training job", end.job)
    if end.is_time_over:
        note(f"the time is over, and the job continues: gpu-ci train wait {name}, or gpu-ci train cancel {name}")
        context.exit(_TIME_OVER)
    code = _CODES[state_of(end.job)]
    if code == _CODES["FAILED"]:
        note(f"logs: gcloud ai custom-jobs stream-logs {name}")
    context.exit(code)


@click.command("cancel")
@_job
@_key
def cancel(job: str, key: str) -> None:
    """Cancel a training job. It is safe to repeat this, also after the job has ended.

    JOB is the name that `submit` prints, or projects/PROJECT/locations/LOCATION for the job of this run.

    \b
    Examples:
      gpu-ci train cancel projects/acme/locations/europe-west4
      gpu-ci train cancel projects/acme/locations/europe-west4/customJobs/4711
    """
    with _errors(job):
        jobs, found = _find(job, key)
        found = jobs.cancel(found)
        if open_jobs := [each["name"] for each in found if state_of(each) not in (*_CODES, "CANCELLING")]:
            raise ApiError("not-cancelled", f"not cancelled after a minute: {', '.join(open_jobs)}")
    if found:
        _report("Cancelled training job", found[0])
    else:
        note("this run has no job")
        print_json({"job": None})


def _find(target: str, key: str) -> tuple[Jobs, list[Job]]:
    """Return the jobs of a name, or of this run. The list may be late."""
    mistakes = Mistakes()
    parent, region = inputs.read_location(target, mistakes)
    is_job = target != parent
    run = "" if is_job else inputs.read_run(key, mistakes)[0]
    mistakes.refuse()
    jobs = _jobs(parent, region)
    return jobs, jobs.of_name(target) if is_job else jobs.look(run, LATE_SEC)


def _jobs(parent: str, region: str) -> Jobs:
    return Jobs(inputs.connect(region), parent, real_clock(), note)


@contextmanager
def _errors(subject: str) -> Iterator[None]:
    """Raise ProblemsFound for an error of Google."""
    try:
        yield
    except ApiError as error:
        hint = ""
        if error.status == 429:
            hint = "request more quota, or wait until other jobs end"
        elif error.not_yet:
            hint = "run the same command again; gpu-ci train submit does not create a second job"
        text = f"{subject}: {error}"
        raise ProblemsFound(f"{text}\n  hint: {hint}" if hint else text, [{"text": text, "hint": hint}]) from None


def _report(title: str, job: Job, more: dict[str, Any] | None = None) -> None:
    """Print a job as JSON, and append it to the summary of a GitHub step as a table."""
    found: dict[str, Any] = {
        "job": job["name"],
        "state": state_of(job),
        "run": job.get("labels", {}).get(RUN),
        "created": job.get("createTime"),
        "started": job.get("startTime"),
        "ended": job.get("endTime"),
        "error": job.get("error", {}).get("message"),
    }
    print_json(found | (more or {}))
    rows = [(name, found[name]) for name in _COLUMNS if found[name]]
    rows += [("worst-case cost", more["worstCase"])] if more else []
    lines = [f"### {title}", "", "| | |", "|---|---|", *(f"| {name} | {cell(str(text))} |" for name, text in rows)]
    append_to_summary("\n".join([*lines, "", ""]))
