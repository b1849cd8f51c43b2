"""What the manager's commands ask: its configuration, and the file in which it keeps its memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from gpu_ci.cli.output import InputError

from ..config import Config, ConfigError, read

_FILE = click.Path(dir_okay=False, path_type=Path)


def config(function: Callable[..., Any]) -> Callable[..., Any]:
    """--config."""
    return click.option(
        "--config", "config_file", type=_FILE, default=Path("manager.json"), show_default=True, metavar="FILE",
        envvar="GPU_CI_MANAGER_CONFIG", help="What `pulumi stack output manager --json` prints.",
    )(function)  # fmt: skip


def state(function: Callable[..., Any]) -> Callable[..., Any]:
    """--state."""
    return click.option(
        "--state", "state_file", type=_FILE, metavar="FILE", envvar="GPU_CI_MANAGER_STATE",
        help="The SQLite file with its memory; by default gpu-ci/manager-NAME.sqlite in the folder for state.",
    )(function)  # fmt: skip


def configuration(file: Path) -> Config:
    """Read it. InputError where it cannot be used."""
    try:
        return read(file)
    except ConfigError as error:
        raise InputError(str(error)) from None


def state_of(chosen: Path | None, name: str) -> Path:
    """The file that was chosen, or the default one (XDG Base Directory Specification)."""
    home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return chosen or Path(home) / "gpu-ci" / f"manager-{name}.sqlite"
