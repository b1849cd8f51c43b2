"""`gpu-ci manager run`: the control loop as a process."""

from __future__ import annotations

import json
import math
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

import click
from gpu_ci.cli.output import InputError
from gpu_ci.gcp.gate.waiting import cancellation

from ..budgets import Budgets
from ..decision import faults, jobs, standby
from ..loop import Event, Manager, PassResult
from ..metrics.measure import LogLines, Meter
from ..model import JobKey
from ..ports import InsertRefused, InUse, Refused, Supplier, Unavailable
from ..suppliers import supplier
from ..view import JobState, job_states, merged, view
from . import options

if TYPE_CHECKING:
    from gpu_ci.machine_records import MachineRecord

    from ..config import Config
    from ..github.app_token import App
    from ..github.scale_sets import ScaleSets
    from ..metrics.prometheus import Prometheus
    from ..model import Pool

# The pause after a pass that could not use its store.
_STORE_PAUSE_SEC = 30.0
# A GitHub rate limit may last an hour. Preemptions must be read meanwhile, because Google lists each for an hour.
_LONGEST_PAUSE_SEC = 60.0
# The seconds until the next look if GitHub has named a new job.
_LOOK_SEC = 0.5


@click.command("run")
@options.config
@options.state
@click.option("--app-key", "key_file", required=True, metavar="FILE|ARN", envvar="GPU_CI_MANAGER_APP_KEY_FILE",
              help="The private key of the manager's App (PEM), or the ARN of its secret in AWS Secrets "
                   "Manager.")  # fmt: skip
@click.option("--github-url", metavar="URL", envvar="GITHUB_API_URL",
              help="https://HOST/api/v3 for an Enterprise Server; by default apiUrl of the configuration.")  # fmt: skip
@click.option("--interval-sec", type=click.FloatRange(0.5, 300),
              help="Seconds between two passes; by default 10, when idle 30, near a rate limit more.")  # fmt: skip
@click.option("--once", is_flag=True, help="Run one pass and exit.")
@click.option("--until-idle", is_flag=True,
              help="Exit when no machine is left and no job waits; jobs with the reasons no-pool, never-picked-up and "
                   "expired do not count.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Write the log as one JSON object a line, with the measurements.")
@click.option("--metrics-port", type=click.IntRange(0, 65535),
              help="Serve the measurements to Prometheus on this port of 127.0.0.1; 0 selects a free one.")  # fmt: skip
def command(
    config_file: str,
    state: str | None,
    key_file: str,
    github_url: str | None,
    interval_sec: float | None,
    once: bool,
    until_idle: bool,
    as_json: bool,
    metrics_port: int | None,
) -> None:
    """Find queued jobs, start a machine for each, and delete the machine after the job; runs until Ctrl-C.

    You may stop or kill the command at any time: machines and jobs continue, and the next manager finds them. Only one
    manager of a stack acts at a time. With an object in a bucket as --state, a second one waits until the lease is
    free. The Google credentials come from the variables of Pulumi's provider, or from gcloud's login; those of AWS
    from the sources of its SDK, such as AWS_PROFILE.

    \b
    Examples:
      pulumi stack output manager --json > manager.json
      gpu-ci manager run --app-key manager-app.pem
      gpu-ci manager run --app-key manager-app.pem --once
    """
    from ..github.app_token import App

    config = options.configuration(config_file)
    app = App(config.github.app_id, config.github.installation_id, key_file)
    try:
        app.signed({})
    except Refused as error:
        raise InputError(str(error), hint="create a key on the App's settings page, under Private keys") from None
    except Unavailable as error:
        raise InputError(str(error), hint="correct the credentials of AWS, such as AWS_PROFILE, or try again") from None
    log = Log(as_json, manager=config.name)
    prometheus = None if metrics_port is None else _prometheus(metrics_port, log)
    stopped = cancellation()
    store = options.store(state, config.name)
    try:
        if not store.hold(stopped, log.waiting):
            return
        loops = Loops(config, app, github_url or config.github.api_url, store, log, prometheus, measured=as_json)
    except InUse as error:
        hint = "stop that manager, or start this one with another --config and --state"
        raise InputError(str(error), hint=hint) from None
    except (Refused, Unavailable) as error:
        raise InputError(str(error), hint="select another place with --state") from None
    names = ", ".join(pool.name for pool in config.pools)
    log.line("start", config.name, f"{len(config.pools)} pools of {config.github.owner}: {names}")
    try:
        while not stopped.is_set():
            results: list[PassResult] = []
            try:
                results = loops.step()
            except Unavailable as error:
                # Without its memory the manager does nothing. A full disk may have space again later.
                log.line("unavailable", "state file", str(error).replace("\n ", ";"))
                if once:
                    raise InputError(str(error)) from None
            if once or (until_idle and results and all(map(is_idle, results))):
                break
            loops.wait(stopped, results, interval_sec)
    except InUse as error:
        log.line("lease-lost", config.name, str(error))
        raise SystemExit(1) from None
    finally:
        loops.close()
    log.line("stop", config.name, "running machines continue, and the next manager finds them")


class Loops:
    """The control loops of this process, one for each supplier of its pools, with one store and one lease.

    The loops take their passes in turn. If a supplier does not answer, only the pass of its own loop does nothing.
    """

    def __init__(
        self,
        config: Config,
        app: App,
        url: str,
        store: options.Store,
        log: Log,
        prometheus: Prometheus | None,
        *,
        measured: bool,
    ) -> None:
        """Create the loops. Raises InputError if a token may not be sent to `url`."""
        from ..github.scale_sets import ScaleSets

        pools = config.pools_by_supplier()
        self._scale_sets: ScaleSets | None = None
        budgets = Budgets(config.teams, store.records, config.pools)
        try:
            if config.demand == "scaleSets":
                self._scale_sets = ScaleSets(url, app, config.github.owner, config.name, config.pools)
            sets = self._scale_sets
            self._loops = [
                Loop(name, config, pools, app, url, store, budgets, log.copy(), prometheus, sets, measured=measured)
                for name in pools
            ]
        except Refused as error:
            store.close()
            raise InputError(str(error), hint="correct --github-url, or github.apiUrl of the configuration") from None
        self._store = store
        if self._scale_sets:
            self._scale_sets.start()

    def step(self) -> list[PassResult]:
        """Run one pass of each loop and write its log. Raises Unavailable or InUse."""
        results = [loop.step() for loop in self._loops]
        self._store.publish(merged([loop.view for loop in self._loops]))
        return results

    def pause_sec(self, results: Sequence[PassResult], interval_sec: float | None) -> float:
        """Return the seconds until the next passes. `results` is empty if the last pass could not use its store."""
        active = not all(map(is_idle, results))
        pauses = [
            loop.pause_sec(result, interval_sec, active) for loop, result in zip(self._loops, results, strict=False)
        ]
        # The longest one keeps each loop within its part of the requests that GitHub allows.
        return max(pauses, default=interval_sec or _STORE_PAUSE_SEC)

    def wait(self, stopped: threading.Event, results: Sequence[PassResult], interval_sec: float | None) -> None:
        """Return before the next passes: after the pause, when GitHub names a new job, or when `stopped` is set."""
        until = time.monotonic() + self.pause_sec(results, interval_sec)
        look_sec = _LOOK_SEC if self._scale_sets and results else math.inf
        while (left_sec := until - time.monotonic()) > 0 and not stopped.wait(min(left_sec, look_sec)):
            if look_sec < left_sec and any(loop.is_called for loop in self._loops):
                break

    def close(self) -> None:
        """End the sessions of scale sets, and give the lease back."""
        if self._scale_sets:
            self._scale_sets.close()
        for loop in self._loops:
            loop.close()
        self._store.close()


class Loop:
    """The control loop of one supplier, with its client of GitHub and its measurements."""

    def __init__(
        self,
        name: str,
        config: Config,
        pools: Mapping[str, Sequence[Pool]],
        app: App,
        url: str,
        store: options.Store,
        budgets: Budgets,
        log: Log,
        prometheus: Prometheus | None,
        scale_sets: ScaleSets | None = None,
        *,
        measured: bool,
    ) -> None:
        """Create the loop of the supplier `name`. Raises Refused if a token may not be sent to `url`."""
        from ..github.adapter import GithubAdapter

        self._pools, self._log, self._prometheus = pools[name], log, prometheus
        # Of all loops: whose machine a job gets depends on all pools that fit (jobs.owner_of).
        groups = {pool.runner_group for each in pools.values() for pool in each}
        # Each loop reads GitHub itself, and sends its part of the requests that GitHub allows.
        sweeps = config.managers * len(pools)
        self._github = GithubAdapter(
            url,
            app,
            config.github.owner,
            groups,
            managers=sweeps,
            public=config.is_public,
            scale_sets=scale_sets,
        )
        self._supplier = cast(Supplier, Answering(supplier(name).of(config.name, self._pools)))
        is_of_another = config.is_of_another()
        self._manager = Manager(
            self._pools,
            self._github,
            self._supplier,
            options.MemoryOf(store, name),
            name=config.name,
            budgets=budgets,
            is_of_another=lambda job: is_of_another(job) or jobs.owner_of(job, pools) != name,
        )
        self._budgets = budgets
        self._meter = Meter(self._pools)
        if prometheus:
            prometheus.add(self._pools)
        share = list(pools).index(name) + 1
        self._lines = LogLines(self._meter, share=share, budgets=budgets) if measured else None
        self.view: dict[str, Any] = {}
        """The view of the last pass."""

    @property
    def is_called(self) -> bool:
        """True if GitHub has named a new job."""
        return self._github.is_called

    def step(self) -> PassResult:
        """Run one pass and write its log. Raises Unavailable or InUse."""
        result = self._manager.step()
        self.view = view(self._pools, result)
        self._log.report(result)
        samples = self._meter.take(result)
        if self._prometheus:
            self._prometheus.take(self._meter, result, samples)
            self._prometheus.set_budgets(self._budgets)
        for record in (new.record for new in result.records):
            self._log.line(
                "machine-ended", record.machine, _summary(record), record=record.model_dump(mode="json", by_alias=True)
            )
        for event, subject, fields in self._lines.of(result, samples) if self._lines else ():
            self._log.line(event, subject, "", **fields)
        return result

    def pause_sec(self, result: PassResult, interval_sec: float | None, active: bool) -> float:
        """Return the seconds until the next pass. `active` is False if no loop of the process has anything to do."""
        pause_sec = interval_sec or self._github.interval_sec(active)
        if result.observation.github_limited_until is not None:
            # During a rate limit of GitHub a pass each minute reads only from the supplier.
            return limited_pause_sec(result, pause_sec)
        return pause_sec

    def close(self) -> None:
        self._github.close()
        self._supplier.close()


def _summary(record: MachineRecord) -> str:
    """Return what a machine did, and the catalog price of its time."""
    job = f"job {record.job.repository}#{record.job.id} {record.job.conclusion}".strip() if record.job else "no job"
    price = "price unknown" if record.usd is None else f"{record.usd:.4f} USD"
    return f"on for {record.on_sec:.0f} s, {price}, {job}"


class Answering:
    """A supplier or its channel, of which an unexpected error is a request without an answer.

    So the fault of one supplier's code stops neither the process nor the loops of the others.
    """

    def __init__(self, asked: Any) -> None:
        self._asked = asked

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._asked, name)
        if name == "channel":
            return Answering(found)
        return self._answered(name, found) if callable(found) else found

    def _answered(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*values: Any, **named: Any) -> Any:
            try:
                return method(*values, **named)
            except (InsertRefused, Refused, Unavailable):
                raise
            except Exception as error:  # its text may contain a secret
                raise Unavailable(f"{name}: the supplier's code failed: {type(error).__name__}") from error

        return ask


def is_idle(result: PassResult) -> bool:
    """Return True if jobs, machines and runners are known, and none of them needs the manager.

    Machines on standby, and jobs that can get no machine, do not count.
    """
    observation, memory = result.observation, result.decision.memory
    waiting = result.decision.assigned or any(reason.waiting_helps for reason in result.decision.reasons.values())
    at_work = any(not standby.is_on_standby(machine, memory) for machine in observation.machines or ())
    return result.complete and not (waiting or at_work or memory.pending or memory.lost or faults.is_open(memory))


def limited_pause_sec(result: PassResult, interval_sec: float) -> float:
    """Return the seconds until the next pass during a rate limit of GitHub."""
    until = result.observation.github_limited_until or 0.0
    return max(interval_sec, min(until - result.observation.now, _LONGEST_PAUSE_SEC))


def _prometheus(port: int, log: Log) -> Prometheus:
    """Serve the metrics. Raises InputError if the port is taken."""
    from ..metrics.prometheus import Prometheus

    made = Prometheus()
    try:
        served = made.serve(port)
    except OSError as error:
        raise InputError("--metrics-port: cannot be served", got=f"{port}: {error.strerror}",
                         hint="use another port, or 0 for a free one") from None  # fmt: skip
    log.line("metrics", f"http://127.0.0.1:{served}/metrics", "")
    return made


# Cloud Logging's names (cloud.google.com/logging/docs/reference/v2/rest/v2/LogEntry, LogSeverity).
_SEVERITY = {
    "lease-lost": "ERROR",
    "refused": "ERROR",
    "insert-failed": "WARNING",
    "start-failed": "WARNING",
    "preempted": "WARNING",
    "gpu-fault": "WARNING",
    "budget": "WARNING",
    "unavailable": "WARNING",
    "unknown-machine": "WARNING",
}


class Log:
    """Writes events and changes of a job's state to standard output, each once."""

    def __init__(self, as_json: bool, write: Callable[[str], Any] = sys.stdout.write, manager: str = "") -> None:
        self._as_json = as_json
        self._manager = manager
        self._write = write
        self._jobs: dict[JobKey, tuple[str, str, float | None]] = {}
        """The last reported state of each job."""
        self._last: set[Event] = set()
        self._waiting = ""

    def copy(self) -> Log:
        """Return a log of the same output for another loop. Each loop writes its own changes."""
        return Log(self._as_json, self._write, self._manager)

    def waiting(self, text: str) -> None:
        """Write why the manager does not start yet; each reason once."""
        if text != self._waiting:
            self._waiting = text
            self.line("wait", "the lease", text)

    def report(self, result: PassResult) -> None:
        """Write the changes since the last pass."""
        for event in result.events:
            # An event that repeats in each pass is written once.
            if event not in self._last or event.kind in ("insert", "start-machine", "delete", "rerun"):
                fields = {"pool": event.pool, "code": event.code}
                self.line(
                    event.kind, event.subject, event.detail, **{key: text for key, text in fields.items() if text}
                )
        self._last = set(result.events)
        if result.observation.jobs is None:
            return
        states: dict[JobKey, tuple[str, str, float | None]] = {}
        for state in job_states(result):
            job = state.job
            states[job.key] = _event_of(state)
            if self._jobs.get(job.key) != states[job.key]:
                kind, detail, next_try = states[job.key]
                wait_sec = 0 if next_try is None else next_try - result.observation.now
                detail += f"; next try in {wait_sec:.0f} s" if wait_sec > 0 else ""
                self.line(kind, f"{job.key.repository}#{job.key.job_id} {job.name}".strip(), detail)
        for key in self._jobs.keys() - states.keys():
            self.line("job-ended", f"{key.repository}#{key.job_id}", "no longer queued or running")
        self._jobs = states

    def line(self, kind: str, subject: str, detail: str, **fields: Any) -> None:
        """Write one line of the log. `fields` appear only in the JSON form.

        Cloud Logging extracts the fields severity, message, time and the labels from a line
        (cloud.google.com/logging/docs/structured-logging).
        """
        now = datetime.now(UTC)
        if self._as_json:
            row = {
                "severity": _SEVERITY.get(kind, "INFO"),
                "time": now.isoformat(timespec="milliseconds"),
                "message": f"{kind} {subject}{': ' if detail else ''}{detail}".strip(),
                "event": kind,
                "subject": subject,
                "detail": detail,
                **fields,
                "logging.googleapis.com/labels": {"gpu-ci-manager": self._manager},
            }
            self._write(json.dumps(row) + "\n")
        else:
            self._write(f"{time.strftime('%H:%M:%S')} {kind:14} {subject}{': ' if detail else ''}{detail}\n")
        sys.stdout.flush()


def _event_of(state: JobState) -> tuple[str, str, float | None]:
    """Return the kind and the detail of the log line about a job, and the time of the next try."""
    if state.reason:
        return "job-waits", f"{state.reason.code}: {state.reason.detail}", state.reason.next_try
    if state.job.runner_name:
        return "job-runs", f"on {state.machine}", None
    return "job-covered", f"machine {state.machine}", None
