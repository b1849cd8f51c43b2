"""`gpu-ci explain JOB_URL`: prints why a job waits, or which machine it has."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import click
from gpu_ci.cli.output import InputError, print_json
from gpu_ci.cli.programs import NotAskedError
from gpu_ci.machine_records import MachineRecord

from ..job_address import JobAddress
from ..kubernetes import reading
from ..kubernetes.reasons import Explanation, WaitingJob, explain
from ..model import printable
from . import options
from .command import age, sentence, stale, unknown_jobs

# Older jobs are in the records of `gpu-ci manager records`.
_DAYS = 7
_ADD_KUBERNETES = "for a job of a pool on Kubernetes add --kubernetes"


@click.command("explain")
@click.argument("job_url", metavar="JOB_URL")
@options.config
@options.state
@click.option("--kubernetes", "on_kubernetes", is_flag=True,
              help="The job is for a pool on Kubernetes: read scale set, listener and pods with kubectl.")  # fmt: skip
@click.option("--context", default="", metavar="NAME", help="The kubectl context; by default the current one.")
@click.option("--runs-on", "runs_on", metavar="NAME", help="runs-on of the job; by default read from GitHub with `gh`.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    job_url: str,
    config_file: str,
    state: str | None,
    on_kubernetes: bool,
    context: str,
    runs_on: str | None,
    as_json: bool,
) -> None:
    """Explain why a queued job has no machine, what was tried, and what to do.

    Of a job of the last week that has ended on a machine, the command says how the machine ended: if the job failed,
    the machine has checked its GPU again.

    JOB_URL is the address of the page of a job, a run or an attempt. For a pool on Compute Engine the command reads the
    last state of the manager with this --state. For a pool on Kubernetes it runs `gh` and `kubectl` with your
    credentials. The host must then be a GitHub host, a host in `gh auth status`, or the host in the configuration.

    \b
    Examples:
      gpu-ci explain https://github.com/acme/kernels/actions/runs/123/job/456
      gpu-ci explain https://github.com/acme/kernels/actions/runs/123/job/456 --kubernetes --context ci
    """
    address = JobAddress.parse(job_url)
    if not on_kubernetes and (context or runs_on):
        raise InputError("--context and --runs-on are for pools on Kubernetes", hint="add --kubernetes")
    if on_kubernetes:
        if runs_on is None:
            _refuse_unknown_host(address.host, config_file)
        rows = _on_kubernetes(address, runs_on, context)
        if as_json:
            print_json({"jobs": rows})
        elif not rows:
            click.echo("No job of this run waits or runs.")
        for row in () if as_json else rows:
            click.echo(_sentence(row))
        return
    try:
        view = options.last_view(config_file, state)
    except InputError as error:
        details = dict(error.problems[0])
        hint = "; ".join(filter(None, [_ADD_KUBERNETES, details.pop("hint", "")]))
        raise InputError(details.pop("text"), **details, hint=hint) from None
    if view["jobs"] is None:
        raise InputError(unknown_jobs(view), hint="gpu-ci manager status")
    jobs = [job for job in view["jobs"] if address.includes(job["repository"], job["run"], job["attempt"], job["id"])]
    # The state of an older manager has neither.
    cancelled = [
        run for run in view.get("cancelled", []) if address.includes(run["repository"], run["run"], run["attempt"])
    ]
    faults = [
        job
        for job in view.get("faults", [])
        if address.includes(job["repository"], job["run"], job["attempt"], job["id"])
    ]
    ended = [*options.machines_of(address, view, config_file, state, _DAYS)]
    if as_json:
        records = [record.model_dump(mode="json", by_alias=True) for record in ended]
        print_json({"at": view["at"], "jobs": jobs, "cancelled": cancelled, "faults": faults, "ended": records})
        return
    if warning := stale(view["at"]):
        click.echo(f"as of {age(view['at'])} ago{warning}")
    for run in cancelled:
        click.echo(f"The manager has cancelled attempt {run['attempt']} of this run: queue-timeout: {run['detail']}")
    for record in ended:
        click.echo(_ended_sentence(record))
    for fault in faults:
        click.echo(f"{fault['repository']} (job {fault['id']}): {fault['detail']}; {fault['nextStep']}")
    if not (jobs or cancelled or faults or ended):
        labels = "; ".join(f"{pool['name']}: {', '.join(pool['labels'])}" for pool in view["pools"])
        click.echo(f"As of {age(view['at'])} ago the manager has no such job that waits or runs.")
        click.echo(
            "The job has ended, or its repository may not use the pools' runner groups, or no pool matches its labels."
        )
        click.echo(f"Labels of the pools: {labels}")
        click.echo(f"F{_ADD_KUBERNETES[1:]}.")
    for job in jobs:
        click.echo(sentence(job))


def _ended_sentence(record: MachineRecord) -> str:
    """Return one line about a job that has ended on a machine."""
    job, end = record.job, record.end
    name = f"{job.repository} {job.workflow} / {job.name} (job {job.id}): {job.conclusion or 'ended'}" if job else ""
    how = f"ended as {end.reason}: {end.detail}".rstrip(": ") if end else "reported no end"
    return f"{name} on {record.machine}, which {how}"


def _refuse_unknown_host(given: str, config_file: str) -> None:
    """Raise InputError if the host is not GitHub's, not in the configuration, and not known to `gh`.

    `gh` would send the token in GH_ENTERPRISE_TOKEN to any host in the address.
    """
    host = given.lower()
    if host == "github.com" or host.endswith(".ghe.com"):
        return
    with suppress(InputError):  # a pool on Kubernetes needs no manager
        if host == urlsplit(options.configuration(config_file).github.api_url).netloc.lower():
            return
    try:
        if reading.gh_knows(host):
            return
    except NotAskedError as error:
        raise InputError(f"gpu-ci explain: {error}", hint=_hint(str(error))) from None
    raise InputError(
        "JOB_URL: `gh` is not logged in to this host, so no token is sent to it", got=given,
        expected="github.com, NAME.ghe.com, the host of github.apiUrl in --config, or a host in `gh auth status`",
        hint=f"gh auth login --hostname {host}, or --runs-on NAME, which needs no `gh`",
    )  # fmt: skip


def _on_kubernetes(place: JobAddress, runs_on: str | None, context: str) -> list[dict[str, Any]]:
    """Return the jobs and their explanations in the form of the manager's own rows."""
    try:
        if runs_on is None:
            jobs = reading.jobs_of(place)
        else:
            labels = tuple(label.strip() for label in runs_on.split(",") if label.strip())
            jobs = [WaitingJob(labels, place.run_id, place.job_id, place.repository)]
        # The jobs of a matrix have one scale set.
        by_labels = {job.runs_on: job for job in jobs}
        clusters = {labels: reading.cluster_of(job, context) for labels, job in by_labels.items()}
        return [_row(job, explain(job, clusters[job.runs_on])) for job in jobs]
    except NotAskedError as error:
        raise InputError(f"gpu-ci explain: {error}", hint=_hint(str(error))) from None


def _hint(problem: str) -> str:
    if problem.startswith("gh"):
        return "--runs-on NAME needs no `gh`"
    if "Forbidden" in problem:
        return (
            "allow the user of kubectl to list autoscalingrunnersets, autoscalinglisteners, ephemeralrunners, pods, "
            "events and resourcequotas"
        )
    return "select another cluster with --context"


def _row(job: WaitingJob, explanation: Explanation) -> dict[str, Any]:
    row = {
        "repository": job.repository,
        "run": job.run_id,
        "id": job.job_id,
        "name": job.name,
        "workflow": job.workflow,
        "labels": list(job.runs_on),
        "status": job.status,
        "machine": explanation.machine,
        "detail": printable(explanation.detail),
    }
    if explanation.code:
        row |= {"reason": explanation.code, "nextTry": None, "nextStep": printable(explanation.next_step)}
    return row


def _sentence(row: dict[str, Any]) -> str:
    """Return one line about a job of a pool on Kubernetes."""
    name = f" {row['workflow']} / {row['name']}" if row["name"] else ""
    job = f" (job {row['id']})" if row["id"] is not None else ""
    reason = f"{row['reason']}: {row['detail']}; {row['nextStep']}" if "reason" in row else row["detail"]
    return f"{row['repository']}{name}{job}: {reason}"
