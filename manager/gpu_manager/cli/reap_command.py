"""`gpu-ci manager reap`: deletes machines that no manager ends (reaper.py)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import click
from gpu_ci.cli.durations import Duration
from gpu_ci.cli.output import InputError, note, print_json

from ..config import Config
from ..model import Pool
from ..ports import Refused, Supplier, Unavailable
from ..reaper import Report, Runners, reap
from ..suppliers import supplier
from . import options
from .run_command import Answering

_NOT_DELETED = 3


@click.command("reap")
@options.config
@click.option("--app-key", "key_file", metavar="FILE|ARN",
              envvar="GPU_CI_MANAGER_APP_KEY_FILE",
              help="The private key of the manager's App, as for `gpu-ci manager run`. Without it, only machines "
                   "beyond their time limit, and those that are off, are found.")  # fmt: skip
@click.option("--older-than", "older_than_sec", type=Duration(), metavar="TIME",
              help="Find machines without a busy runner that are on for longer than this, such as 3h; by default "
                   "for longer than bootSec and idleSec of their pool.")  # fmt: skip
@click.option("--yes", is_flag=True, help="Delete the machines. Without this option, they are only listed.")
def command(config_file: str, key_file: str | None, older_than_sec: float | None, yes: bool) -> None:
    """Delete machines that are still there although no job needs them, also if no manager runs.

    A machine is found if it is on for longer than maxRunDurationSec of its pool, if GitHub has no busy runner of it
    after the time that its boot and its job may take to begin, or if it is off and not on standby. A machine with a job
    within its limit always stays. The command needs no state, so it may run next to a manager. It finds machines of all
    suppliers of the configuration's pools, with your credentials.

    \b
    Exit codes:
      0  done: the machines are deleted; without --yes: listed
      1  a supplier or GitHub did not answer; the others were read
      2  wrong input
      3  a machine could not be deleted

    \b
    Examples:
      gpu-ci manager reap
      gpu-ci manager reap --app-key manager-app.pem --yes
    """
    config = options.configuration(config_file)
    suppliers = {
        name: (partial(_connect, name, config, pools), pools) for name, pools in config.pools_by_supplier().items()
    }
    github, close = _github(config, key_file)
    try:
        report = reap(suppliers, github, time.time, deletes=yes, older_than_sec=older_than_sec)
    finally:
        close()
    for name, each, result in report.found:
        machine = each.machine
        shown = "would be deleted: add --yes" if result == "listed" else result
        note(f"{name} {machine.zone} {machine.name}: {each.reason}: {shown}")
    for problem in report.problems:
        note(f"not read: {problem}")
    print_json(_document(report))
    if report.left:
        raise SystemExit(_NOT_DELETED)
    if report.problems:
        raise SystemExit(1)


def _connect(name: str, config: Config, pools: Sequence[Pool]) -> Supplier:
    """Return a supplier whose unexpected errors are requests without an answer."""
    connected: Supplier = Answering(Answering(supplier(name)).of(config.name, pools))  # type: ignore[assignment]
    return connected


def _github(config: Config, key_file: str | None) -> tuple[Runners | None, Callable[[], None]]:
    if key_file is None:
        return None, lambda: None
    from ..github.adapter import GithubAdapter
    from ..github.app_token import App

    app = App(config.github.app_id, config.github.installation_id, key_file)
    try:
        with suppress(Unavailable):  # the request for the runners reports it
            app.signed({})
        github = GithubAdapter(config.github.api_url, app, config.github.owner, ())
    except Refused as error:
        raise InputError(str(error)) from None
    return github, github.close


def _document(report: Report) -> dict[str, object]:
    return {
        "machines": [
            {
                "supplier": name, "machine": each.machine.name, "id": each.machine.id, "pool": each.machine.pool,
                "zone": each.machine.zone, "status": each.machine.status, "reason": each.reason, "result": result,
            }
            for name, each, result in report.found
        ],
        "notRead": report.problems,
    }  # fmt: skip
