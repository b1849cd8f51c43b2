"""The machines of Cloud Build steps as records, for `gpu-ci jobs collect`.

Each step of a pool of kind cloud-build-gpu leaves a report about its machines, which Cloud Build keeps with the build
(gpu_ci.gcp.gpu_bridge). Builds of one pool trust each other: a build can write a wrong report, but not about a machine
of another pool. Cloud Build sets the repository of builds of triggers. For other builds, a user may claim any.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from typing import Any, NamedTuple
from uuid import UUID

import gpu_catalog as catalog

from gpu_ci.cli.google_api import Call, ask
from gpu_ci.cli.output import note
from gpu_ci.cli.stack_files import StackFile
from gpu_ci.gcp.gpu_bridge.protocol import ROLE
from gpu_ci.gcp.pool import ladder
from gpu_ci.machine_records import JobOfMachine, MachineRecord
from gpu_ci.naming import label_of, machine_prefix

# The states of a build that has ended (discovery document cloudbuild v1, Build.status), as GitHub's conclusions.
_CONCLUSIONS = {
    "SUCCESS": "success", "FAILURE": "failure", "INTERNAL_ERROR": "failure", "TIMEOUT": "timed_out",
    "CANCELLED": "cancelled", "EXPIRED": "cancelled",
}  # fmt: skip
# A build can write anything, such as a number for a name, or a list in lists in lists.
_NO_REPORT = (LookupError, TypeError, ValueError, OverflowError, AttributeError, RecursionError)


class BuildPool(NamedTuple):
    """A pool whose machines run steps of builds."""

    name: str
    args: Any


def build_pools(file: StackFile) -> dict[str, BuildPool]:
    """Return the pools of a stack file whose machines run steps of builds, by the name of the bridge."""
    return {label_of(name, file.stack): BuildPool(name, args) for name, args in file.pools if args.STEP_PROGRAM}


def records(pools: Mapping[str, BuildPool], since: date, stack: str, call: Call) -> Iterator[MachineRecord]:
    """Yield the records of the machines of builds that were created since a day. Raises NotAskedError."""
    commands = [[each.args.STEP_PROGRAM, "run"] for each in pools.values()]
    regions = {(each.args.project, each.args.build_region or each.args.region) for each in pools.values()}
    for project, region in sorted(regions | {(project, "global") for project, _ in regions}):
        found = unreported = 0
        for build in _builds(call, f"projects/{project}/locations/{region}", since):
            outputs = (build.get("results") or {}).get("buildStepOutputs") or []
            for number, step in enumerate(build["steps"]):
                if build["status"] not in _CONCLUSIONS or (step.get("args") or [])[1:3] not in commands:
                    continue
                try:
                    machines = json.loads(base64.b64decode(outputs[number])) if outputs[number:] else []
                    made = [
                        record_of(each, pools[each["bridge"]], build, step, stack)
                        for each in machines
                        if each["bridge"] in pools and each["machine"].startswith(machine_prefix(each["bridge"], ROLE))
                    ]
                except _NO_REPORT:
                    machines, made = [], []
                unreported += bool(step.get("timing")) and not machines
                found += len(made)
                yield from made
        note(f"{project} {region}: {found} machines of builds since {since}")
        if unreported:
            note(f"{project} {region}: {unreported} GPU steps reported no machine: none passed its check, the step was "
                 "killed, or its program is of an earlier version of gpu-ci")  # fmt: skip


def record_of(
    used: Mapping[str, Any], pool: BuildPool, build: Mapping[str, Any], step: Mapping[str, Any], stack: str
) -> MachineRecord:
    """Return the record of a machine. `used` is the step's report.

    The job is created as long before the step as the build was in the queue, so its wait is that of build and machine.

    Raises one of _NO_REPORT for a field that is missing or has another form.
    """
    market, region = used["market"], catalog.region_of(used["zone"])
    rung = next((each for each in ladder.rungs(pool.args) if each.machine_type == used["machineType"]), None)
    price = catalog.price(rung.machine, region, catalog.market(market)) if rung and rung.machine else None
    requested, gone = _time(used["requested"]), _time(used["gone"])
    started, completed = _time(used["started"]), _time(used["completed"])
    # A build's id is a UUID. Programs that read JSON keep 53 bits of a number.
    named, number = build.get("substitutions") or {}, UUID(build["id"]).int >> 75
    queue = _moment(build["startTime"]) - _moment(build["createTime"])
    job = JobOfMachine(
        repository=(build.get("buildTriggerId") and named.get("REPO_FULL_NAME")) or f"cloud-build/{build['projectId']}",
        run=number, attempt=1, id=number,
        workflow=named.get("TRIGGER_NAME", ""), name=step.get("id", ""),
        created=min(_moment(step["timing"]["startTime"]) - queue, started), started=started, completed=completed,
        conclusion=_CONCLUSIONS[build["status"]],
    )  # fmt: skip
    return MachineRecord(
        manager=stack, supplier="google-cloud-build", pool=pool.name, machine=used["machine"], id=used["id"],
        zone=used["zone"], machine_type=used["machineType"], market=market,
        gpu=rung.machine.accelerator if rung and rung.machine else "",
        usd_per_hour=price.usd_per_hour if price else None, requested=requested, on=[(requested, gone)], gone=gone,
        taken_back=used.get("takenBack", False), job=job, incomplete=[] if price else ["price"],
    )  # fmt: skip


def _builds(call: Call, parent: str, since: date) -> Iterator[dict[str, Any]]:
    """Yield the builds of a region, from all pages."""
    page = ""
    while True:
        answer = ask(
            call, "cloudbuild", "v1",
            lambda api: api.projects().locations().builds().list(
                parent=parent, filter=f'create_time>="{since}T00:00:00Z"', pageSize=1000, pageToken=page  # noqa: B023
            ),
        )  # fmt: skip
        yield from answer.get("builds") or []
        page = answer.get("nextPageToken", "")
        if not page:
            return


def _time(unix: float) -> datetime:
    return datetime.fromtimestamp(unix, UTC)


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
