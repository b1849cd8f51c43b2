"""`gpu-ci repro JOB_URL`: prints the machine of a job, and starts one like it for a person."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import Any, cast

import click
from gpu_ci.cli.output import InputError, ProblemsFound, note, print_json
from gpu_ci.machine_records import MachineRecord
from gpu_ci.naming import fit

from ..config import Config
from ..copies import Copy
from ..job_address import JobAddress
from ..model import Insert, Offer, Pool
from ..ports import InsertRefused, Refused, Supplier, Unavailable
from ..suppliers import supplier
from . import options

_DAYS = 70
_STARTED_WITHIN_SEC, _POLL_SEC = 120.0, 2.0


@click.command("repro")
@click.argument("job_url", metavar="JOB_URL")
@options.config
@options.state
@click.option("--start", is_flag=True, help="Start the machine, as the user of your Google credentials.")
@click.option("--hours", type=click.IntRange(1, 24), default=1, show_default=True, metavar="N",
              help="With --start: delete the machine after N hours, 1 to 24.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(job_url: str, config_file: str, state: str | None, start: bool, hours: int, as_json: bool) -> None:
    """Print the machine that ran a job of the last ten weeks, and start one like it, to debug the job.

    The machine has the same type, template, image, driver and torch, no runner and no external address. It checks its
    GPU first. Its price is that of the job's machine.

    \b
    Examples:
      gpu-ci repro https://github.com/acme/kernels/actions/runs/123/job/456
      gpu-ci repro https://github.com/acme/kernels/actions/runs/123/job/456 --start --hours 2
    """
    record = _record(job_url, config_file, state)
    config = options.configuration(config_file)
    pool, offer = _place(record, config)
    vendor = supplier(record.supplier).of(config.name, config.pools_by_supplier()[record.supplier])
    try:
        document = _document(record, vendor, pool, offer)
        price = "an unknown price" if record.usd_per_hour is None else f"{hours * record.usd_per_hour:.2f} USD"
        again = f"gpu-ci repro {job_url} --start --hours {hours}"
        copy = None
        if start:
            machine = fit(f"repro-{pool.name}-{record.job.id if record.job else 0}", 63)
            copy = _started(vendor, pool, Insert(pool.name, machine, offer, None, str(uuid.uuid4())), hours)
            document["started"] = {"name": machine, "connect": copy.connect, "end": copy.end}
    finally:
        vendor.close()
    if as_json:
        print_json(document)
        return
    for name, value in document["machine"].items():
        click.echo(f"{name + ':':14}{value}")
    if copy:
        click.echo(f"{machine} starts, and is deleted after {hours} h, for at most {price}.")
        click.echo(f"connect: {copy.connect}\nend:     {copy.end}")
    elif vendor.NO_COPY:
        click.echo(f"gpu-ci starts no such machine: {vendor.TITLE} {vendor.NO_COPY}")
    else:
        click.echo(f"Start such a machine for at most {price}: {again}")


def _record(job_url: str, config_file: str, state: str | None) -> MachineRecord:
    """Return the record of the last machine that ran the job. Raises InputError."""
    address = JobAddress.parse(job_url)
    view = options.last_view(config_file, state)
    found = [*options.machines_of(address, view, config_file, state, _DAYS)]
    jobs = {each.job.id for each in found if each.job}
    if len(jobs) > 1:
        raise InputError("JOB_URL: names several jobs", got=", ".join(map(str, sorted(jobs))),
                         expected="the address of one job: …/actions/runs/<run>/job/<job>")  # fmt: skip
    if not found:
        raise InputError("JOB_URL: no machine of this manager has ended with this job", got=job_url,
                         hint=f"gpu-ci explain {job_url}")  # fmt: skip
    if not found[-1].template:
        raise InputError(f"{found[-1].machine}: its record is of an earlier gpu-ci, and has no template")
    return found[-1]


def _place(record: MachineRecord, config: Config) -> tuple[Pool, Offer]:
    pools = [pool for pool in config.pools if pool.supplier == record.supplier]
    pool = next((each for each in pools if each.name == record.pool), None)
    if pool is None:
        raise InputError("the pool of the job's machine is not in the configuration", got=record.pool,
                         expected=f"one of {', '.join(each.name for each in config.pools)}")  # fmt: skip
    values = (record.zone, record.machine_type, record.market, record.gpu, record.usd_per_hour, record.template)
    return pool, Offer(*values)


def _document(record: MachineRecord, vendor: Supplier, pool: Pool, offer: Offer) -> dict[str, Any]:
    job, end = record.job, record.end
    try:
        software: Mapping[str, str] = vendor.software(pool, offer)
    except (InsertRefused, Refused, Unavailable) as error:
        software = {}
        note(f"image, driver and torch are unknown: {error}")
    attempt = f"{job.repository} {job.name} (job {job.id}, attempt {job.attempt})" if job else ""
    return {
        "machine": {
            "job": f"{attempt}: {job.conclusion}".rstrip(": ") if job else "",
            "machine": record.machine,
            "end": f"{end.reason}: {end.detail}".rstrip(": ") if end else "unknown",
            "pool": record.pool,
            "machine type": f"{record.machine_type} {record.market} in {record.zone}",
            "GPU": record.gpu,
            "template": record.template,
            **software,
            "USD per hour": "unknown" if record.usd_per_hour is None else record.usd_per_hour,
        }
    }


def _started(vendor: Supplier, pool: Pool, insert: Insert, hours: int) -> Copy:
    """Start the copy and return when the supplier has it. Raises InputError or ProblemsFound."""
    if vendor.NO_COPY:
        raise InputError(f"--start: {vendor.TITLE} {vendor.NO_COPY}", hint="start a machine with these facts by hand")
    try:
        copy = vendor.start_copy(pool, insert, hours)
        until = time.monotonic() + _STARTED_WITHIN_SEC
        while not (state := vendor.operation(pool, insert.rung, copy.operation)).done:
            if time.monotonic() > until:
                note(f"{insert.machine}: there is no answer after {_STARTED_WITHIN_SEC:.0f} s; it may start later")
                return copy
            time.sleep(_POLL_SEC)
    except InsertRefused as error:
        raise _failed(insert, error.error.message) from None
    except (Refused, Unavailable) as error:
        raise _failed(insert, str(error)) from None
    if state.error:
        raise _failed(insert, state.error.message)
    return copy


def _failed(insert: Insert, problem: str) -> ProblemsFound:
    text = f"{insert.machine} could not be started in {insert.rung.zone}: {problem}"
    return ProblemsFound(text, cast(Any, [{"text": text}]))
