"""`gpu-ci jobs collect`: prints a record of each job that no runner manager has seen, for the cost report.

Pools on clusters have no runner manager, and jobs share their nodes. GitHub has the jobs. So a record has the time of
the job, and its part of a node's price by GPUs. Cloud Build has the machines of builds (build_jobs.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

import click
from gpu_catalog import price

from gpu_ci.cli import build_jobs, google_api
from gpu_ci.cli.cost.window import since as day_since
from gpu_ci.cli.github_app.apps import ask
from gpu_ci.cli.mistakes import Mistakes
from gpu_ci.cli.output import InputError, note
from gpu_ci.cli.programs import NotAskedError
from gpu_ci.cli.stack_files import StackFile, one_file
from gpu_ci.machine_records import JobOfMachine, MachineRecord
from gpu_ci.stack.site import SITE
from gpu_ci.stack.warnings import GROUP

_PAGE = 100
_OK, _MISSING = 200, 404
_MOST_PAGES = 10
"""GitHub lists 1,000 runs at most for a query with `created` (docs.github.com/en/rest/actions/workflow-runs)."""


class ClusterPool(NamedTuple):
    """What the records of a pool's jobs have in common."""

    name: str
    label: str
    """The name of its runner scale set."""
    machine_type: str
    region: str
    market: str
    gpu: str
    usd_per_hour: float | None
    """The catalog price of the GPUs of one job."""


@click.group("jobs")
def command() -> None:
    """Read the jobs of pools on clusters from GitHub, and those of builds from Cloud Build.

    \b
    Examples:
      gpu-ci jobs collect Pulumi.prod.yaml >> records.jsonl
    """


@command.command("collect")
@click.argument("files", metavar="[FILE]", nargs=-1, type=click.Path())
@click.option("--since", default="7d", show_default=True, metavar="TIME", help="A date, or an age such as 7d or 4w.")
@click.option("--api-url", default="https://api.github.com", show_default=True, envvar="GITHUB_API_URL", metavar="URL",
              help="https://HOST/api/v3 for an Enterprise Server.")  # fmt: skip
def collect(files: tuple[str, ...], since: str, api_url: str) -> None:
    """Print a record of each ended job that ran on a pool of an EKS or GKE cluster, as one line of JSON, and of each
    machine of a pool of kind cloud-build-gpu.

    For clusters, GITHUB_TOKEN must be able to read Actions of the repositories in gpu-ci:github.runnerGroup. A job is
    found by its runner group and label. A record has the time of the job alone: boot and idle time of nodes is not in
    it. For builds, your account on Google Cloud needs cloudbuild.builds.list. A record that is collected twice counts
    once in `gpu-ci cost report`.

    \b
    Examples:
      gpu-ci jobs collect Pulumi.prod.yaml >> records.jsonl
      gpu-ci jobs collect Pulumi.prod.yaml --since 2026-11-01 > november.jsonl
    """
    mistakes = Mistakes()
    first_day = day_since(since, "gpu-ci jobs collect", mistakes)
    mistakes.refuse()
    file = one_file(files)
    file.refuse_mistakes()
    pools, of_builds = cluster_pools(file), build_jobs.build_pools(file)
    owner, names = file.at(f"{SITE}.github.owner"), file.at(f"{GROUP}.repositories")
    of_github = bool(pools and owner and isinstance(names, list))
    if not of_github and not of_builds:
        raise InputError(
            f"{file.name}: has no runners on a cluster, and no steps of Cloud Build",
            expected="a pool of machines for build steps, or pools on a cluster with gpu-ci:site.github.owner and "
            "gpu-ci:github.runnerGroup.repositories",
            hint="gpu-ci manager records prints the records of machines on Compute Engine",
        )
    token = os.environ.get("GITHUB_TOKEN", "")
    if of_github and not token:
        raise InputError("GITHUB_TOKEN: is not set", expected="a token that can read Actions",
                         hint="GITHUB_TOKEN=$(gh auth token) gpu-ci jobs collect")  # fmt: skip
    if of_builds:
        try:
            for made in build_jobs.records(of_builds, first_day, file.stack, google_api.connect()):
                click.echo(made.line())
        except NotAskedError as error:
            raise InputError(f"Cloud Build: {error}", hint="; ".join(error.fix)) from None
    group = file.at(f"{GROUP}.groupName") or f"gpu-{file.stack}"
    for name in names if of_github else ():
        repository = f"{owner}/{name}"
        runs = f"/repos/{quote(repository)}/actions/runs"
        records = [
            record
            for run in _list(api_url, f"{runs}?created={quote(f'>={first_day}')}", "workflow_runs", token)
            for job in _list(api_url, f"{runs}/{run['id']}/jobs?filter=all", "jobs", token)
            if (record := record_of(job, repository, group, pools, file.stack))
        ]
        for record in records:
            click.echo(record.line())
        note(f"{repository}: {len(records)} jobs since {first_day}")


def cluster_pools(file: StackFile) -> list[ClusterPool]:
    """Return the pools of a stack file whose runners are on a cluster."""
    found = []
    for name, args in file.pools:
        demand = args.demand(name)
        if args.REGISTERED_BY != "cluster" or demand is None:
            continue
        cost = price(demand.machine, demand.region, demand.market)
        part = args.runner.gpus / demand.machine.gpu_count  # type: ignore[attr-defined]
        [label] = args.runner_labels_of(name)
        found.append(
            ClusterPool(
                name, label, demand.machine.machine_type, demand.region, demand.market, demand.machine.gpu.key,
                cost.usd_per_hour * part if cost else None,
            )
        )  # fmt: skip
    return found


def record_of(
    job: dict[str, Any], repository: str, group: str, pools: Sequence[ClusterPool], stack: str
) -> MachineRecord | None:
    """Return the record of a job, or None if it did not run on one of the pools or has not ended."""
    try:
        labels = {str(each).lower() for each in job["labels"]}
        pool = next((each for each in pools if labels == {each.label}), None)
        if pool is None or job["runner_group_name"] != group or not job["runner_name"] or not job["completed_at"]:
            return None
        # GitHub rounds times, and ends a job that it cancelled before its start.
        started, completed = job["started_at"], job["completed_at"]
        created = min(job["created_at"], started)
        if completed <= started:
            return None
        return MachineRecord(
            manager=stack,
            supplier="kubernetes",
            pool=pool.name,
            machine=job["runner_name"],
            id=str(job["id"]),
            zone=pool.region,
            machine_type=pool.machine_type,
            market=pool.market,
            gpu=pool.gpu,
            usd_per_hour=pool.usd_per_hour,
            requested=created,
            on=[(started, completed)],
            gone=completed,
            job=JobOfMachine.of_github({**job, "created_at": created}, repository),
            incomplete=["node", *(["price"] if pool.usd_per_hour is None else [])],
        )
    except (KeyError, TypeError, ValueError):
        raise InputError(f"GitHub's answer about the job {job.get('id')} of {repository} cannot be used") from None


def _list(api_url: str, path: str, key: str, token: str) -> Iterator[dict[str, Any]]:
    """Yield the elements of all pages of a list. Raises InputError if GitHub refuses the request."""
    for page in range(1, _MOST_PAGES + 1):
        status, answer = ask(api_url, f"{path}&per_page={_PAGE}&page={page}", token)
        if status != _OK:
            hint = "the token must be able to read Actions of this repository" if status in (401, 403, _MISSING) else ""
            raise InputError(f"GET {path}: GitHub answered {status}", got=str(answer.get("message", "")), hint=hint)
        found = answer.get(key) or []
        yield from found
        if len(found) < _PAGE:
            return
    note(f"GET {path}: GitHub lists {_MOST_PAGES * _PAGE:,} {key} at most; collect a shorter time")
