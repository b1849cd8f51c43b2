"""`gpu-ci manager run`: the control loop as a process."""

from __future__ import annotations

import logging
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click
from gpu_ci.cli.output import InputError

from ..loop import Manager, Pass
from ..metrics.log_lines import LogLines
from ..metrics.measure import Meter
from ..pauses import Pauses
from ..ports import Refused, Unavailable
from ..stores import InUse
from ..view import view
from . import options
from .log import Log
from .webhook_option import listening

if TYPE_CHECKING:
    from ..metrics.prometheus import Prometheus

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
@click.option("--json", "as_json", is_flag=True, help="The log as one JSON object a line, with the measurements.")
@click.option("--metrics-port", type=click.IntRange(0, 65535),
              help="Serve the measurements to Prometheus on this port of 127.0.0.1; 0 takes a free one.")  # fmt: skip
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
    metrics_port: int | None,
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
    log = Log(as_json, manager=config.name)
    meter = Meter(pools)
    lines = LogLines(meter)
    prometheus = None if metrics_port is None else _prometheus(meter, metrics_port, log)
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
            samples = meter.take(done)
            if prometheus:
                prometheus.take(done, samples)
            for event, subject, fields in lines.of(done, samples) if as_json else ():
                log.line(event, subject, "", **fields)
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


def _prometheus(meter: Meter, port: int, log: Log) -> Prometheus:
    """Serve the metrics. InputError where the port is taken."""
    from ..metrics.prometheus import Prometheus

    made = Prometheus(meter)
    try:
        served = made.serve(port)
    except OSError as error:
        raise InputError("--metrics-port: cannot be served", got=f"{port}: {error.strerror}",
                         hint="another port, or 0 for a free one") from None  # fmt: skip
    log.line("metrics", f"http://127.0.0.1:{served}/metrics", "")
    return made


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
