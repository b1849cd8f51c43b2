"""`gpu-ci images outdated`: compares the pinned software of pools with what its vendors support."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import click

from gpu_ci.cli import clock, options, stack_files
from gpu_ci.cli.each_file import for_each_file
from gpu_ci.cli.github_app import github_api
from gpu_ci.cli.images import dockerfile
from gpu_ci.cli.images.dockerfile import Dockerfile
from gpu_ci.cli.images.edit import write as write_edits
from gpu_ci.cli.images.pins import OUTDATED, PACKAGED, SUPPORTED, Pin, Release, base_images, pins
from gpu_ci.cli.output import InputError, print_table, print_text
from gpu_ci.cli.stack_files import StackFile
from gpu_ci.cli.verify.checklist import NotAskedError

_API = "https://api.github.com"


@click.command("outdated")
@click.argument("files", metavar="[FILE...]", nargs=-1, type=click.Path())
@click.option("--online", is_flag=True, help="Ask GitHub for the latest runner. GITHUB_TOKEN raises the rate limit.")
@click.option("--write", is_flag=True, help="Replace the outdated values in the files.")
@options.as_json
def command(files: tuple[str, ...], online: bool, write: bool, as_json: bool) -> None:
    """List the runner, boot image, driver branch, torch, AMI type and container images of each pool, with their state.

    FILE is a stack file, or a Dockerfile, whose base images are listed. Without an argument, the command reads every
    Pulumi.<stack>.yaml in this folder. The facts are those of the catalog,
    each with its source and date. Without --online, no request is sent.

    States: outdated (no longer supported), soon (within 90 days; runners: 10 days), behind (gpu-ci pins a newer
    version), unknown, supported.

    The exit code is 1 if a pin is outdated and was not replaced, and 2 for a file that is not a stack file.

    \b
    Examples:
      gpu-ci images outdated
      gpu-ci images outdated Pulumi.prod.yaml --json
      gpu-ci images outdated images/runner/Dockerfile
      gpu-ci images outdated --online --write
    """
    newest = latest_runner() if online else PACKAGED

    def compute(file: StackFile | Dockerfile) -> tuple[StackFile | Dockerfile, list[Pin], list[Pin]]:
        if isinstance(file, Dockerfile):
            return file, base_images(file, clock.today(), newest), []
        found = pins(file, clock.today(), newest)
        return file, found, write_edits(file.path, found) if write else []

    for_each_file(
        files, compute, show, document, as_json, lambda answer: any(_is_left(answer[1], answer[2])), read_file=_read
    )


def _read(path: Path) -> StackFile | Dockerfile:
    return dockerfile.read(path) if dockerfile.is_dockerfile(path) else stack_files.read(path)


def _is_left(found: list[Pin], written: list[Pin]) -> list[bool]:
    return [pin.state == OUTDATED and pin not in written for pin in found]


def latest_runner() -> Release:
    """Return the latest release of GitHub's runner with the checksums of its archives, from GitHub's API."""
    try:
        status, answer = github_api.get(_API, github_api.LATEST_RUNNER, os.environ.get("GITHUB_TOKEN", ""))
    except NotAskedError as error:
        raise InputError(f"gpu-ci images outdated: {error}", hint="leave out --online") from None
    if status != github_api.OK:
        hint = "set GITHUB_TOKEN, or leave out --online"
        raise InputError("gpu-ci images outdated: GitHub refused the request", got=f"status {status}", hint=hint)
    try:
        version, released = github_api.runner_release(answer)
    except ValueError:
        raise InputError(
            "gpu-ci images outdated: GitHub's answer has no version with a date", hint="leave out --online"
        ) from None
    assets = answer.get("assets")
    digests = {
        str(each.get("name")): str(each.get("digest"))
        for each in (assets if isinstance(assets, list) else [])
        if isinstance(each, dict)
    }
    sha256 = {}
    for name in ("x64", "arm64"):
        digest = digests.get(f"actions-runner-linux-{name}-{version}.tar.gz", "")
        if re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
            sha256[name] = digest.removeprefix("sha256:")
    return Release(version, sha256, released, f"{_API}{github_api.LATEST_RUNNER} ({clock.today()})")


def show(file: StackFile | Dockerfile, found: list[Pin], written: list[Pin]) -> None:
    """Print a table of the pins, then a line for each pin that is not supported."""
    click.echo(f"{file.name}\n")
    if not found:
        click.echo("no pinned software")
        return
    rows = [(pin.pool, pin.what, pin.in_use + (" (default)" if pin.is_default else ""), pin.state) for pin in found]
    print_table(["stage" if isinstance(file, Dockerfile) else "pool", "pin", "in use", "state"], rows)
    click.echo("")
    for pin in found:
        if pin.state != SUPPORTED:
            source = f"; source: {pin.source}" if pin.source else ""
            print_text(f"{pin.pool}: {pin.what} {pin.text}; hint: {pin.hint}{source}", 2)
    for pin in written:
        for path, value in pin.edits.items():
            click.echo(f"{file.name}: {pin.pool}.{'.'.join(path)} is now {value}")


def document(file: StackFile | Dockerfile, found: list[Pin], written: list[Pin]) -> dict[str, Any]:
    return {"file": file.name, "pins": [_row(pin, pin in written) for pin in found]}


def _row(pin: Pin, is_written: bool) -> dict[str, Any]:
    row = {name: getattr(pin, name) for name in ("pool", "what", "in_use", "state", "text", "hint", "source")}
    edits = {".".join(path): value for path, value in pin.edits.items()}
    return {**row, "is_default": pin.is_default, "edits": edits, "written": is_written}
