"""`gpu-ci manager run`: the control loop as a process."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click
from gpu_ci.cli.output import InputError

from ..pauses import Pauses
from ..ports import Refused, Unavailable
from ..stores import InUse
from . import options
from .log import Log
from .webhook_option import listening

if TYPE_CHECKING:
    from ..metrics.prometheus import Prometheus
    from ..stores.shares import Share
    from .share_loop import ShareLoop

# The pause after a pass that could not use its store.
_STORE_PAUSE_SEC = 30.0
# How often a manager checks for shares without a manager, and for managers without a share.
_BALANCE_EVERY_SEC = 10.0


@click.command("run")
@options.config
@options.state
@click.option("--app-key", "key_file", required=True, metavar="FILE",
              type=click.Path(path_type=Path),
              envvar="GPU_CI_MANAGER_APP_KEY_FILE", help="The private key of the manager's App (PEM).")  # fmt: skip
@click.option("--github-url", metavar="URL", envvar="GITHUB_API_URL",
              help="https://HOST/api/v3 for an Enterprise Server; by default apiUrl of the configuration.")  # fmt: skip
@click.option("--interval-sec", type=click.FloatRange(0.5, 300),
              help="Seconds between two passes; by default 10, when idle 30, near a rate limit more.")  # fmt: skip
@click.option("--once", is_flag=True, help="Run one pass and exit.")
@click.option("--until-idle", is_flag=True,
              help="Exit when no machine is left and no job waits; jobs with the reasons no-pool, never-picked-up and "
                   "expired do not count.")  # fmt: skip
@click.option("--webhook", metavar="HOST:PORT", envvar="GPU_CI_MANAGER_WEBHOOK",
              help="Receive GitHub's webhook at HOST:PORT/webhook; an event starts the next pass early.")  # fmt: skip
@click.option("--webhook-secret", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path),
              envvar="GPU_CI_MANAGER_WEBHOOK_SECRET_FILE", help="The file with the webhook's secret.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Write the log as one JSON object a line, with the measurements.")
@click.option("--metrics-port", type=click.IntRange(0, 65535),
              help="Serve the measurements to Prometheus on this port of 127.0.0.1; 0 selects a free one.")  # fmt: skip
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
    """Find queued jobs, start a machine for each, and delete the machine after the job; runs until Ctrl-C.

    You may stop or kill the command at any time: machines and jobs continue, and the next manager finds them. Only one
    manager of a stack acts at a time. With a Cloud Storage object as --state, a second one waits until the lease is
    free. The Google credentials come from the variables of Pulumi's provider, or from gcloud's login.

    \b
    Examples:
      pulumi stack output manager --json > manager.json
      gpu-ci manager run --app-key manager-app.pem
      gpu-ci manager run --app-key manager-app.pem --once
    """
    from ..github.app_token import App
    from .share_loop import ShareLoop

    config = options.configuration(config_file)
    app = App(config.github.app_id, config.github.installation_id, key_file)
    try:
        app.signed({})
    except Refused as error:
        raise InputError(str(error), hint="create a key on the App's settings page, under Private keys") from None
    log = Log(as_json, manager=config.name)
    prometheus = None if metrics_port is None else _prometheus(metrics_port, log)
    pauses = Pauses()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: pauses.stop())
    labels = frozenset(label.lower() for pool in config.pools for label in pool.labels)
    receiver = listening(webhook, webhook_secret, labels, pauses.hint)
    shares = options.shares_of(state, config)
    loops: dict[int, ShareLoop] = {}

    def add(share: Share) -> None:
        try:
            loop = ShareLoop(
                share,
                config,
                app,
                github_url or config.github.api_url,
                log,
                prometheus=prometheus,
                measured=as_json,
            )
        except Refused as error:
            share.store.close()
            raise InputError(str(error), hint="correct --github-url, or github.apiUrl of the configuration") from None
        loops[share.index] = loop
        names = ", ".join(pool.name for pool in loop.own)
        log.line("start", config.name, f"{len(loop.own)} pools of {config.github.owner}: {names}")

    try:
        first = shares.hold(pauses.stopped, log.waiting)
        if first is None:
            return
    except InUse as error:
        raise InputError(
            str(error), hint="stop that manager, or start this one with another --config and --state"
        ) from None
    except (Refused, Unavailable) as error:
        raise InputError(str(error), hint="select another place with --state") from None
    add(first)
    checked_at = time.monotonic()
    opened = ExitStack()
    try:
        opened.enter_context(receiver)
        while not pauses.stopped.is_set():
            for loop in [each for each in loops.values() if each.due <= time.monotonic()]:
                try:
                    result = loop.step()
                    if not once:
                        loop.schedule_next(result, interval_sec, pauses.hinted)
                except Unavailable as error:
                    # Without its memory the manager does nothing. A full disk may have space again later.
                    log.line("unavailable", "state file", str(error).replace("\n ", ";"))
                    if once:
                        raise InputError(str(error)) from None
                    loop.delay(interval_sec or _STORE_PAUSE_SEC)
            if once or (until_idle and all(loop.idle for loop in loops.values())):
                break
            if time.monotonic() - checked_at > _BALANCE_EVERY_SEC:
                checked_at = time.monotonic()
                balance(shares, loops, add, log)
            pause_sec = min(each.due for each in loops.values()) - time.monotonic()
            shortest_sec = min(each.hinted_sec for each in loops.values())
            if pauses.wait(max(min(pause_sec, _BALANCE_EVERY_SEC), 0.0), shortest_sec):
                for loop in loops.values():
                    loop.hint()
    except InUse as error:
        log.line("lease-lost", config.name, str(error))
        raise SystemExit(1) from None
    finally:
        opened.close()
        for loop in loops.values():
            loop.close()
    log.line("stop", config.name, "running machines continue, and the next manager finds them")


def balance(shares: options.ShareSource, loops: dict[int, ShareLoop], add: Callable[[Share], None], log: Log) -> None:
    """Take a free share, or give up one of several shares for a manager that has none."""
    try:
        if len(loops) > 1 and shares.another_waits():
            given_up = loops.pop(max(loops))
            log.line("share-given", ", ".join(pool.name for pool in given_up.own), "another manager waits for a share")
            given_up.close()
        elif share := shares.spare(loops):
            share.store.renew_in_background()
            add(share)
    except (Unavailable, Refused) as error:
        log.line("unavailable", "the shares", str(error))


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
