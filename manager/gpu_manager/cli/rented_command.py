"""`gpu-ci rented`: starts, stops and lists VMs at Jarvis Labs by name, for a workflow without a runner manager."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import click
from gpu_ci.cli.durations import Duration
from gpu_ci.cli.output import InputError, ProblemsFound, note, print_json, print_table

from ..suppliers.jarvislabs.api import TOKEN, TOKEN_FILE, Api, ApiError, Row

_POLL_SEC = 5.0
# A request may be carried out late, so it is repeated only after this time.
_REPEAT_AFTER_SEC = 60.0
_ON = ("creating", "resuming", "running")
_SHOWN = ("name", "GPU", "region", "status", "USD per hour")


def _token_file(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--token-file", default="", envvar=TOKEN_FILE, metavar="FILE", type=click.Path(dir_okay=False),
        help=f"The file with the API key of Jarvis Labs; by default the key is in {TOKEN}.",
    )(function)  # fmt: skip


def _timeout(default: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option("--timeout", "timeout_sec", type=Duration(), default=default, show_default=True,
                        metavar="TIME", help="How long to wait.")  # fmt: skip


_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group("rented")
def command() -> None:
    """Start, stop or list rented VMs with GPUs, without a runner manager.

    The VMs are at Jarvis Labs. A paused VM costs only its disk.

    \b
    Examples:
      gpu-ci rented list
      gpu-ci rented start gpu-tests
      gpu-ci rented stop gpu-tests
    """


@command.command("start")
@click.argument("name")
@_token_file
@_timeout("15m")
@_as_json
def start(name: str, token_file: str, timeout_sec: float, as_json: bool) -> None:
    """Start the paused VM of this name, wait until it runs, and print it.

    A VM that runs already is only printed. Stop the VM also if this command fails, because it may start later.

    \b
    Exit codes:
      0  the VM runs
      1  it does not run yet, or cannot start
      2  wrong input, such as an unknown name

    \b
    Examples:
      gpu-ci rented start gpu-tests
      gpu-ci rented start gpu-tests --timeout 20m --json
    """
    with _api(token_file) as api:
        asked, shown = float("-inf"), ""
        for rows in _readings(api, name, timeout_sec):
            running = [row for row in rows if row.status == "running"]
            if running:
                _print([running[0]], api, as_json)
                return
            if len(rows) > 1:
                raise InputError(f"{name}: {len(rows)} VMs have this name", hint="delete all but one of them")
            [row] = rows
            if row.status != shown:
                note(f"{name} is {row.status}")
            shown = row.status
            if row.status == "failed":
                _fail(f"{name}: Jarvis Labs could not start the VM", "start another one")
            if row.status == "paused" and time.monotonic() - asked > _REPEAT_AFTER_SEC:
                asked = time.monotonic()
                _send(lambda: api.resume(row), f"the start of {name}")  # noqa: B023
    _fail(f"{name} does not run after {timeout_sec:.0f} s", f"gpu-ci rented stop {name}")


@command.command("stop")
@click.argument("name")
@_token_file
@_timeout("10m")
@_as_json
def stop(name: str, token_file: str, timeout_sec: float, as_json: bool) -> None:
    """Pause every VM of this name, and read them again until none is on.

    \b
    Exit codes:
      0  no VM of this name is on
      1  a VM may still be on, and cost money
      2  wrong input, such as an unknown name

    \b
    Examples:
      gpu-ci rented stop gpu-tests
      gpu-ci rented stop gpu-tests --json
    """
    asked: dict[int, float] = {}
    left, was_off = f"the VMs of {name} could not be read", False
    with _api(token_file) as api:
        for rows in _readings(api, name, timeout_sec):
            on = [row for row in rows if row.has_power]
            # The list may be late, so it has to say it twice.
            if not on and was_off:
                _print(rows, api, as_json)
                return
            was_off = not on
            left = ", ".join(f"VM {row.number} is {row.status}" for row in on) or "a VM may start late"
            for row in on:
                if row.status in _ON and time.monotonic() - asked.get(row.number, float("-inf")) > _REPEAT_AFTER_SEC:
                    asked[row.number] = time.monotonic()
                    note(f"{name}: VM {row.number} is {row.status}, and is paused")
                    _send(lambda row=row: api.pause(row), f"the stop of {name}", is_final=False)  # type: ignore[misc]
    _fail(f"{name} is not paused after {timeout_sec:.0f} s: {left}", "pause it at jarvislabs.ai; it costs money")


@command.command("list")
@_token_file
@_as_json
def list_(token_file: str, as_json: bool) -> None:
    """Print the VMs with GPUs of the account.

    \b
    Examples:
      gpu-ci rented list
      gpu-ci rented list --json
    """
    with _api(token_file) as api:
        try:
            rows = [row for row in api.rows() if row.is_vm]
        except (ApiError, KeyError, TypeError, ValueError, AttributeError) as error:
            _fail(_text(error), _hint(error))
        _print(rows, api, as_json)


@contextmanager
def _api(token_file: str) -> Iterator[Api]:
    if token_file and not Path(token_file).is_file():
        raise InputError(f"--token-file: {token_file} does not exist")
    api = Api(token_file)
    try:
        yield api
    finally:
        api.close()


def _readings(api: Api, name: str, timeout_sec: float) -> Iterator[Sequence[Row]]:
    """Yield the VMs of a name again and again, until the time is over. A request without an answer is repeated."""
    end = time.monotonic() + timeout_sec
    while True:
        try:
            found = api.rows()
        except ApiError as error:
            if not error.is_temporary or error.status == 401:
                _fail(_text(error), _hint(error))
            note(_text(error))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            note(_text(error))
        else:
            named = [row for row in found if row.name == name]
            if not all(row.is_vm for row in named):
                raise InputError(f"{name}: is a container or has no GPU", hint="use a VM with a GPU")
            if not named:
                names = ", ".join(sorted({row.name for row in found if row.is_vm})) or "none"
                raise InputError(f"{name}: the account has no such VM", expected=f"one of {names}")
            yield named
        if time.monotonic() > end:
            return
        time.sleep(_POLL_SEC)


def _send(request: Callable[[], None], subject: str, *, is_final: bool = True) -> None:
    """Send a request. One without an answer is repeated later, and so is a refused one that is not final."""
    try:
        request()
    except (ApiError, TypeError, AttributeError) as error:
        if is_final and isinstance(error, ApiError) and not error.is_temporary:
            _fail(f"{subject}: {_text(error)}")
        note(f"{subject}: {_text(error)}")


def _text(error: Exception) -> str:
    return str(error) if isinstance(error, ApiError) else "the answer of Jarvis Labs cannot be used"


def _hint(error: Exception) -> str:
    is_of_key = isinstance(error, ApiError) and error.status in (401, 403)
    return f"give --token-file a file with a key of the account, or set {TOKEN}" if is_of_key else ""


def _fail(text: str, hint: str = "") -> NoReturn:
    raise ProblemsFound(f"{text}\n  hint: {hint}" if hint else text, [{"text": text, "hint": hint}])


def _print(rows: Sequence[Row], api: Api, as_json: bool) -> None:
    try:
        prices = api.usd_per_hour()
    except (ApiError, KeyError, TypeError, ValueError, AttributeError):
        prices = {}
    found: list[dict[str, Any]] = []
    for row in rows:
        count, _, gpu = row.machine_type.partition("x")
        price = prices.get((row.zone, gpu))
        found.append(
            {
                "name": row.name, "id": row.number, "gpu": row.machine_type, "region": row.zone, "status": row.status,
                "usdPerHour": None if price is None else price * int(count), "ssh": row.ssh_command,
            }
        )  # fmt: skip
    if as_json:
        print_json({"machines": found})
        return
    cells = [[str(each[key] or "") for key in ("name", "gpu", "region", "status", "usdPerHour")] for each in found]
    print_table(_SHOWN, cells, right="USD per hour")
