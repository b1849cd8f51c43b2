"""`gpu-ci manager run`: the control loop as a process."""

from __future__ import annotations

import json
import logging
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from gpu_ci.cli.output import InputError

from ..job_states import JobState, job_states
from ..loop import Event, Manager, Pass
from ..model import JobKey
from ..pauses import Pauses
from ..ports import Refused, Unavailable
from ..stores import InUse
from ..view import view
from . import options
from .webhook_option import listening

_STORE_PAUSE_SEC = 30.0
# A limit of GitHub's may last an hour. Google's preemptions are asked for meanwhile, as it lists each for an hour.
_LONGEST_PAUSE_SEC = 60.0


@click.command("run")
@options.config
@options.state
@click.option("--app-key", "key_file", required=True, metavar="FILE",
              type=click.Path(dir_okay=False, path_type=Path),
              envvar="GPU_CI_MANAGER_APP_KEY_FILE", help="The key of the manager's App, in PEM form.")  # fmt: skip
@click.option("--github-url", metavar="URL", envvar="GITHUB_API_URL",
              help="https://HOST/api/v3 of an Enterprise Server; by default apiUrl of the configuration.")  # fmt: skip
@click.option("--interval-sec", type=click.FloatRange(0.5, 300),
              help="Between two passes; by default 10 or, when idle, 30; more near a limit.")  # fmt: skip
@click.option("--once", is_flag=True, help="One pass, and no more.")
@click.option("--until-idle", is_flag=True, help="End as soon as no job waits and no machine is left.")
@click.option("--webhook", metavar="HOST:PORT", envvar="GPU_CI_MANAGER_WEBHOOK",
              help="Take GitHub's webhook at HOST:PORT/webhook; an event only starts the next pass early.")  # fmt: skip
@click.option("--webhook-secret", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path),
              envvar="GPU_CI_MANAGER_WEBHOOK_SECRET_FILE", help="The webhook's secret.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="The log as one JSON object a line.")
def command(
    config_file: str,
    state: str | None,
    key_file: Path,
    github_url: str | None,
    interval_sec: float | None,
    once: bool,
    until_idle: bool,
    webhook: str | None,
    webhook_secret: Path | None,
    as_json: bool,
) -> None:
    """Look for queued jobs, start a machine for each, and delete it when it has ended; until Ctrl-C.

    It may be stopped or killed at any time: what is running goes on, and the next manager finds it. Only one acts for a
    stack at a time. With an object of Cloud Storage as --state, another one waits until the lease is free.
    As whom it asks Google: the variables that Pulumi's provider reads, or gcloud's login.

    \b
    Examples:
      pulumi stack output manager --json > manager.json
      gpu-ci manager run --app-key manager-app.pem
      gpu-ci manager run --app-key manager-app.pem --once
    """
    from ..compute.adapter import ComputeAdapter
    from ..github.adapter import GithubAdapter
    from ..github.app_token import App

    # Google's library warns in each call that its transport takes no time-out; the client's own is set elsewhere.
    logging.getLogger("google_auth_httplib2").setLevel(logging.ERROR)
    config = options.configuration(config_file)
    app = App(config.github.app_id, config.github.installation_id, key_file)
    try:
        app.signed({})
    except Refused as error:
        raise InputError(str(error), hint="GitHub makes a key on the App's settings page, under Private keys") from None
    pools = [pool.plain() for pool in config.pools]
    log = Log(as_json)
    pauses = Pauses()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: pauses.stop())
    receiver = listening(webhook, webhook_secret, frozenset().union(*(pool.labels for pool in pools)), pauses.hint)
    try:
        store = options.store_of(state, config.name)
        if not store.hold(pauses.stopped, log.waiting):
            return
    except InUse as error:
        raise InputError(str(error), hint="stop that one, or give this one another --config and --state") from None
    except (Refused, Unavailable) as error:
        raise InputError(str(error), hint="--state names another place") from None
    try:
        github = GithubAdapter(
            github_url or config.github.api_url,
            app,
            config.github.owner,
            {pool.runner_group for pool in pools},
            config.github.repositories or (),
        )
    except Refused as error:
        store.close()
        raise InputError(str(error), hint="--github-url, or github.apiUrl of the configuration") from None
    compute = ComputeAdapter(config.name)
    manager = Manager(pools, github, compute, store, writes_statuses=config.github.commit_statuses)
    opened = ExitStack()
    log.line("start", config.name, f"{len(pools)} pools of {config.github.owner}: {', '.join(p.name for p in pools)}")
    try:
        opened.enter_context(receiver)
        while not pauses.stopped.is_set():
            try:
                done = manager.step()
                store.publish(view(pools, done))
            except Unavailable as error:
                # Without its memory the manager does nothing. A disk may have space again later.
                log.line("unavailable", "state file", str(error).replace("\n ", ";"))
                if once:
                    raise InputError(str(error)) from None
                pauses.stopped.wait(interval_sec or _STORE_PAUSE_SEC)
                continue
            log.report(done)
            if once or (until_idle and is_idle(done)):
                break
            active = pauses.hinted or not is_idle(done)
            pause = pause_sec(done, interval_sec or github.interval_sec(active))
            limited = done.seen.github_limited_until is not None
            pauses.wait(pause, pause if limited else github.hinted_interval_sec())
    except InUse as error:
        log.line("lease-lost", config.name, str(error))
        raise SystemExit(1) from None
    finally:
        opened.close()
        github.close()
        store.close()
    log.line("stop", config.name, "machines that run go on, and the next manager finds them")


def is_idle(done: Pass) -> bool:
    """Whether all is known, no job waits and no machine is left."""
    seen, memory = done.seen, done.decision.memory
    whole = seen.jobs is not None and seen.machines is not None and seen.runners is not None
    waiting = done.decision.covered or done.decision.reasons
    return whole and not (waiting or seen.machines or memory.pending or memory.lost)


def pause_sec(done: Pass, interval_sec: float) -> float:
    """Until the next pass. A limit of GitHub's is waited for, with a pass each minute that asks Google alone."""
    until = done.seen.github_limited_until
    return interval_sec if until is None else max(interval_sec, min(until - done.seen.now, _LONGEST_PAUSE_SEC))


class Log:
    """Standard output: each event once, and each change of a job's state."""

    def __init__(self, as_json: bool, write: Callable[[str], Any] = sys.stdout.write) -> None:
        self._as_json = as_json
        self._write = write
        self._jobs: dict[JobKey, tuple[str, str]] = {}
        self._last: set[Event] = set()
        self._waiting = ""

    def waiting(self, text: str) -> None:
        """Why the manager does not begin; each reason once."""
        if text != self._waiting:
            self._waiting = text
            self.line("wait", "the lease", text)

    def report(self, done: Pass) -> None:
        """What is new since the last pass."""
        for event in done.events:
            # What fails in each pass is written once.
            if event not in self._last or event.kind in ("insert", "delete", "rerun"):
                self.line(event.kind, event.subject, event.detail)
        self._last = set(done.events)
        if done.seen.jobs is None:
            return
        states: dict[JobKey, tuple[str, str]] = {}
        for state in job_states(done):
            job = state.job
            states[job.key] = _event_of(state)
            if self._jobs.get(job.key) != states[job.key]:
                kind, detail = states[job.key]
                self.line(kind, f"{job.key.repository}#{job.key.job_id} {job.name}".strip(), detail)
        for key in self._jobs.keys() - states.keys():
            self.line("job-ended", f"{key.repository}#{key.job_id}", "no longer queued or running")
        self._jobs = states

    def line(self, kind: str, subject: str, detail: str) -> None:
        """One line of the log."""
        now = datetime.now(UTC)
        if self._as_json:
            row = {"time": now.isoformat(timespec="milliseconds"), "event": kind, "subject": subject, "detail": detail}
            self._write(json.dumps(row) + "\n")
        else:
            self._write(f"{time.strftime('%H:%M:%S')} {kind:14} {subject}{': ' if detail else ''}{detail}\n")
        sys.stdout.flush()


def _event_of(state: JobState) -> tuple[str, str]:
    """Kind and detail of the log line on a job."""
    if state.reason:
        return "job-waits", f"{state.reason.code}: {state.reason.detail}"
    return ("job-runs", f"on {state.machine}") if state.runs else ("job-covered", f"machine {state.machine}")
