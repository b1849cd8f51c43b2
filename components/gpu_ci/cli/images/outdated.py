"""`gpu-ci images outdated`: finds pinned software of pools that its vendor no longer supports."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import click
from gpu_catalog import data_files, queries, staleness
from gpu_catalog.driver_rules import PREFERRED_BRANCH
from gpu_catalog.errors import UnknownName

from gpu_ci import versions
from gpu_ci.cli import clock, edit, options
from gpu_ci.cli.output import print_table, print_text
from gpu_ci.cli.stack_files import StackFile, for_each_file
from gpu_ci.stack.pools import POOLS

OUTDATED, SOON, UNKNOWN, SUPPORTED = "outdated", "soon", "unknown", "supported"
_ACCELERATOR_IMAGE = re.compile(
    r"projects/ubuntu-os-accelerator-images/global/images/(family/)?[a-z0-9-]+-amd64-[a-z0-9-]+"
)


@dataclass(frozen=True)
class Pin:
    """One pinned version of a pool, with its state."""

    pool: str
    what: str
    in_use: str
    state: str
    text: str = ""
    hint: str = ""
    source: str = ""
    is_default: bool = False
    """True if the stack file does not name the version, so that this package chooses it."""
    new: str = ""
    """The value that replaces it; empty if there is none."""

    @property
    def keys(self) -> edit.Keys:
        return (POOLS, self.pool, *self.what.split("."))


@click.command("outdated")
@click.argument("files", metavar="[FILE...]", nargs=-1, type=click.Path())
@click.option("--write", is_flag=True, help="Replace the outdated values in the files.")
@options.as_json
def command(files: tuple[str, ...], write: bool, as_json: bool) -> None:
    """List the boot image, driver branch and AMI type of each pool, with their state.

    Without an argument, the command reads every Pulumi.<stack>.yaml in this folder. The facts are those of the catalog,
    each with its source and date. No request is sent. Renovate updates runners, container images and torch
    (docs/operate/images-outdated.md).

    States: outdated (no longer supported), soon (within 90 days), unknown, supported.

    The exit code is 1 if a pin is outdated and was not replaced, and 2 for a file that is not a stack file.

    \b
    Examples:
      gpu-ci images outdated
      gpu-ci images outdated Pulumi.prod.yaml --json
      gpu-ci images outdated --write
    """

    def compute(file: StackFile) -> tuple[StackFile, list[Pin], list[Pin]]:
        found = pins(file)
        written = edit.write(file.path, {pin.keys: pin.new for pin in found if pin.new}) if write else ()
        return file, found, [pin for pin in found if pin.keys in written]

    def is_left(answer: Any) -> bool:
        _, found, written = answer
        return any(pin.state == OUTDATED and pin not in written for pin in found)

    for_each_file(files, compute, show, document, as_json, is_left)


def show(file: StackFile, found: list[Pin], written: list[Pin]) -> None:
    """Print a table of the pins, then a line for each pin that is not supported."""
    click.echo(f"{file.name}\n")
    if not found:
        click.echo("no pinned software")
        return
    rows = [(pin.pool, pin.what, pin.in_use + (" (default)" if pin.is_default else ""), pin.state) for pin in found]
    print_table(["pool", "pin", "in use", "state"], rows)
    click.echo("")
    for pin in found:
        if pin.state != SUPPORTED:
            source = f"; source: {pin.source}" if pin.source else ""
            print_text(f"{pin.pool}: {pin.what} {pin.text}; hint: {pin.hint}{source}", 2)
    for pin in written:
        click.echo(f"{file.name}: {pin.pool}.{pin.what} is now {pin.new}")


def document(file: StackFile, found: list[Pin], written: list[Pin]) -> dict[str, Any]:
    return {"file": file.name, "pins": [{**asdict(pin), "written": pin in written} for pin in found]}


def pins(file: StackFile) -> list[Pin]:
    """Return the pins of all pools in the order of the file. A pool with a mistake has pins too."""
    pools = file.value(POOLS)
    found: list[Pin] = []
    for name, pool in pools.items() if isinstance(pools, Mapping) else ():
        kind = pool.get("kind") if isinstance(pool, Mapping) else None
        if kind == "gce-runners":
            found += _machine(str(name), pool)
        elif kind == "eks-runners" and (ami_type := _text(pool, "amiType")):
            found.append(_ami_type(str(name), ami_type))
    return found


def _machine(name: str, pool: Mapping[str, Any]) -> Iterator[Pin]:
    """Yield the pins of a pool on Compute Engine."""
    source = _text(pool, "driver", "source") or "image"
    if (image := _text(pool, "image")) or source == "image":
        yield _boot_image(name, image)
    if source == "installer":
        yield _driver(name, pool)


def _boot_image(name: str, image: str) -> Pin:
    """Return the pin of a boot image. Only Google's images name their software."""
    used, today = image or versions.GCE_IMAGE, clock.today()
    is_better = _ACCELERATOR_IMAGE.fullmatch(image) and not staleness.image(versions.GCE_IMAGE, today)
    new = versions.GCE_IMAGE if is_better else ""
    pin = _pin(name, "image", used, staleness.image(used, today), new, is_default=not image)
    known = used.startswith(("projects/ubuntu-os-", "projects/deeplearning-platform-release/"))
    if pin.state == SUPPORTED and not known:
        return Pin(name, "image", used, UNKNOWN, "has a name that does not list its software", "check how it was built")
    return pin


def _driver(name: str, pool: Mapping[str, Any]) -> Pin:
    given = pool["driver"].get("branch")  # a map, because it has a source
    branch = str(PREFERRED_BRANCH if given is None else given)
    if not branch.isdigit():
        return Pin(name, "driver.branch", branch, UNKNOWN, "is not a driver branch", "see gpu-ci check")
    is_better = int(branch) != PREFERRED_BRANCH and not staleness.driver_branch(PREFERRED_BRANCH, clock.today())
    new = str(PREFERRED_BRANCH) if is_better else ""
    stale = staleness.driver_branch(int(branch), clock.today())
    return _pin(name, "driver.branch", branch, stale, new, is_default=given is None)


def _ami_type(name: str, ami_type: str) -> Pin:
    try:
        stale = staleness.ami_type(ami_type, clock.today())
    except UnknownName:
        return Pin(name, "amiType", ami_type, UNKNOWN, "is not an AMI type of the catalog", "see gpu-ci check")
    types = {each.ami_type: each for each in queries.ami_types()}
    own = types[ami_type]
    better = [
        key
        for key, each in types.items()
        if each.os == "al2023" and (each.architecture, each.nvidia) == (own.architecture, own.nvidia)
    ]
    return _pin(name, "amiType", ami_type, stale, better[0] if len(better) == 1 else "")


def _pin(
    pool: str, what: str, in_use: str, stale: tuple[staleness.Stale, ...], new: str, *, is_default: bool = False
) -> Pin:
    """Return a pin with the worst state of its warnings, and with a new value only if there is a warning."""
    if not stale:
        return Pin(pool, what, in_use, SUPPORTED, is_default=is_default)
    state = min((each.state for each in stale), key=(OUTDATED, SOON, UNKNOWN).index)
    hint = "install a newer gpu-ci, or pin a newer version in the pool" if is_default else stale[0].hint
    text, sources = "; ".join(each.text for each in stale), "; ".join(dict.fromkeys(filter(None, map(_source, stale))))
    new = "" if is_default or state == UNKNOWN else new
    return Pin(pool, what, in_use, state, text, hint, sources, is_default, new)


def _source(stale: staleness.Stale) -> str:
    if not stale.source:
        return ""
    source = data_files.sources()[stale.source]
    return f"{source.what} ({source.date})"


def _text(pool: Mapping[str, Any], *path: str) -> str:
    """Return the text at a path of a pool. Return an empty text if it is missing or has another type."""
    value: Any = pool
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, str) else ""
