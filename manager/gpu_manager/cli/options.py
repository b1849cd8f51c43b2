"""Options of the manager's commands: the configuration, and the place of the memory and the view."""

from __future__ import annotations

import os
import re
import secrets
import shlex
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
from gpu_ci.cli.output import InputError
from gpu_ci.machine_records import MachineRecord
from gpu_ci.mailbox.objects import Objects

from ..config import Config, ConfigError, parse, read
from ..job_address import JobAddress
from ..mailboxes.channel import converted_errors
from ..mailboxes.supplier import objects_at
from ..memory import Memory
from ..model import DEFAULT_SUPPLIER
from ..ports import Refused, Unavailable
from ..stores.bucket import BucketStore
from ..stores.sqlite import SqliteStore

_OBJECT = "gs://BUCKET/OBJECT or s3://BUCKET/OBJECT"
_IN_BUCKET = ("gs://", "s3://")
# cloud.google.com/storage/docs/buckets, "Bucket names". Those of S3 are a subset.
_ADDRESS = re.compile(r"(?P<bucket>(gs|s3)://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9])/(?P<object>[^\s#?]+)")


def config(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option --config."""
    return click.option(
        "--config", "config_file", default="manager.json", show_default=True, metavar="FILE|ADDRESS",
        envvar="GPU_CI_MANAGER_CONFIG", help="The configuration, as printed by `pulumi stack output manager --json`.",
    )(function)  # fmt: skip


def state(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option --state."""
    return click.option(
        "--state", "state", metavar="FILE|ADDRESS", envvar="GPU_CI_MANAGER_STATE",
        help="The manager's memory: a SQLite file, or an object in Cloud Storage or S3 that managers on several "
        f"computers share, as {_OBJECT}; by default the file gpu-ci/manager-NAME.sqlite in the folder for state.",
    )(function)  # fmt: skip


def configuration(place: str) -> Config:
    """Return the configuration. Raises InputError if it is invalid."""
    try:
        if not place.startswith(_IN_BUCKET):
            return read(Path(place))
        objects, key = in_bucket("--config", place)
        with converted_errors():
            found = objects.stored(key)
        if found is None:
            raise InputError(f"{place}: does not exist", hint="deploy the component RunnerManager, which writes it")
        return parse(found.content, place)
    except (ConfigError, Refused, Unavailable) as error:
        raise InputError(str(error)) from None


Store = BucketStore | SqliteStore


@dataclass(frozen=True)
class MemoryOf:
    """The memory of one supplier's loop in a store. Implements loop.Store."""

    store: Store
    supplier: str

    @property
    def key(self) -> str:
        """The key in the store. That of Compute Engine is the only one in stores of version 0.1.0."""
        return "memory" if self.supplier == DEFAULT_SUPPLIER else f"memory of {self.supplier}"

    def load(self) -> Memory:
        return self.store.load(self.key)

    def save(self, memory: Memory) -> None:
        self.store.save(memory, self.key)

    def add(self, records: Iterable[MachineRecord]) -> None:
        self.store.add(records)

    def may_act(self) -> bool:
        return self.store.may_act()


def store(chosen: str | None, name: str) -> Store:
    """Return the selected store, or the file in the folder for state (XDG Base Directory Specification).

    `name` is the name of the manager. Raises InputError if the store cannot be used.
    """
    try:
        if chosen and chosen.startswith(_IN_BUCKET):
            holder = f"{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(4)}"
            return BucketStore(*in_bucket("--state", chosen), holder)
        return SqliteStore(_file(chosen, name))
    except Unavailable as error:
        raise InputError(str(error), hint="select another place with --state") from None


def last_view(config_file: str, chosen: str | None) -> dict[str, Any]:
    """Return the last view that a manager of this configuration published (view.py).

    Raises InputError if no view was published, or if it cannot be read.
    """
    sandbox_options = _options_of_sandbox()
    if sandbox_options and not config_file.startswith(_IN_BUCKET) and not Path(config_file).exists():
        raise InputError(f"{config_file}: does not exist", hint=f"for the manager of `gpu-ci job`: {sandbox_options}")
    name = configuration(config_file).name
    is_object = bool(chosen and chosen.startswith(_IN_BUCKET))
    where = str(chosen) if is_object else str(_file(chosen, name))
    found = None
    if is_object or Path(where).exists():
        try:
            with closing(store(chosen, name)) as opened:
                found = opened.published()
        except (Refused, Unavailable) as error:
            raise InputError(str(error)) from None
    if found is None:
        hint = f"run gpu-ci manager run {'with the same --state' if is_object else 'on this computer'}"
        if sandbox_options and not is_object:
            hint += f"; for the manager of `gpu-ci job`: {sandbox_options}"
        raise InputError(f"{where}: no manager has written here yet", hint=hint)
    return found


def records(config_file: str, chosen: str | None, since: datetime) -> Iterator[str]:
    """Yield the records of a manager's machines that are gone since then. Raises InputError if they cannot be read."""
    last_view(config_file, chosen)  # refuses a place in which no manager has written
    try:
        with closing(store(chosen, configuration(config_file).name)) as opened:
            yield from opened.records(since)
    except (Refused, Unavailable) as error:
        raise InputError(str(error)) from None


def machines_of(
    address: JobAddress, view: dict[str, Any], config_file: str, chosen: str | None, days: int
) -> Iterator[MachineRecord]:
    """Yield the records of machines that ran the jobs of an address in the last days, the oldest first.

    `view` has those whose record is not stored yet. Raises InputError.
    """
    found = {each.key: each for each in map(MachineRecord.model_validate, view.get("ended", ()))}
    lines = records(config_file, chosen, datetime.now(UTC) - timedelta(days=days))
    found |= {each.key: each for each in map(MachineRecord.model_validate_json, lines)}
    for each in sorted(found.values(), key=lambda record: record.gone):
        if each.job and address.includes(each.job.repository, each.job.run, each.job.attempt, each.job.id):
            yield each


def _options_of_sandbox() -> str:
    """Return the options for the manager of `gpu-ci job`, whose files job_command.py writes, or "" if none has run."""
    folder = Path(os.environ.get("PULUMI_SANDBOX_DIR") or ".sandbox") / "manager"
    files = {"--config": folder / "manager.json", "--state": folder / "state.sqlite"}
    files_exist = all(file.exists() for file in files.values())
    return " ".join(f"{option} {shlex.quote(str(file))}" for option, file in files.items()) if files_exist else ""


def in_bucket(option: str, address: str) -> tuple[Objects, str]:
    """Return the bucket of this address, and the key of the object. Raises InputError if the address is invalid."""
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise InputError(f"{option}: is not the address of an object", got=address, expected=_OBJECT)
    return objects_at(found["bucket"]), found["object"]


def _file(chosen: str | None, name: str) -> Path:
    home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(chosen) if chosen else Path(home) / "gpu-ci" / f"manager-{name}.sqlite"
