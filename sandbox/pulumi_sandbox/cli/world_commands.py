"""The command `pulumi-sandbox world`: list, show and change the emulated resources, and plant faults.

The *world* is the emulated cloud state of a sandbox.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any

import click
from gpu_common.suggest import closest

from pulumi_sandbox.providers import paths
from pulumi_sandbox.providers.secret_digests import digest_paths, is_digest, redact
from pulumi_sandbox.providers.values import at
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.faults import KINDS, Fault
from pulumi_sandbox.world.store import Record, World, WorldError

Path = tuple[str | int, ...]
SLOW_SECONDS = 30.0
KINDS_HELP = "\n".join(f"    {kind:<17}{meaning}" for kind, meaning in KINDS.items())
json_option = click.option("--json", "wants_json", is_flag=True, help="JSON instead of a table.")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
def world() -> None:
    """List, show and change the emulated cloud resources without the engine, and plant faults.

    Name a resource by its id or the end of the id, by TYPE/ID, by its URN, or by its logical name. Use TYPE/ID@CLUSTER
    if several Kubernetes clusters have it. The name must match exactly one resource.

    \b
    pulumi-sandbox world list                              all resources
    pulumi-sandbox world show l4-group                     one resource with all its properties
    pulumi-sandbox world edit l4-account displayName=mine  creates drift, which `pulumi-sandbox refresh` finds
    pulumi-sandbox world break stockout --times 3          the next three VMs find no capacity
    """


@world.command(name="list")
@click.option("--type", "kind", default="*", metavar="GLOB", help="Only these types, such as '*InstanceTemplate'.")
@json_option
def list_command(kind: str, wants_json: bool) -> None:
    """List the resources, oldest first."""
    with open_world() as store:
        rows = [row for row in store.find() if fnmatchcase(row.type, kind)]
    if wants_json:
        print_json([as_json(row) for row in rows])
    elif rows:
        print_table(
            ["TYPE", "NAME", "ID", "STACK", "CREATED", "CLUSTER"],
            ([row.type, row.name, row.id, row.stack or f"({row.origin})", row.created, row.cluster] for row in rows),
        )
    else:
        click.echo("the world is empty" if kind == "*" else "no resource has such a type")


@world.command()
@click.argument("resource")
@json_option
def show(resource: str, wants_json: bool) -> None:
    """Show all properties of a RESOURCE. Secrets are shown as [secret]."""
    with open_world() as store:
        row = find_one(store, resource)
    if wants_json:
        print_json(as_json(row))
        return
    print_table(
        ["", ""],
        [["type", row.type], ["name", row.name], ["id", row.id], ["urn", row.urn or "(created through the API)"],
         ["created", row.created], *([["cluster", row.cluster]] if row.cluster else [])],
    )  # fmt: skip
    for title, values in (("inputs", row.inputs), ("outputs", row.outputs)):
        click.echo(f"{title}: {json.dumps(redact(values), indent=2, ensure_ascii=False)}")


@world.command()
@click.argument("resource")
@click.argument("changes", nargs=-1, required=True, metavar="PATH=VALUE...")
def edit(resource: str, changes: tuple[str, ...]) -> None:
    """Change a RESOURCE without the engine, as another user would.

    `pulumi-sandbox refresh` then finds the drift, and `pulumi-sandbox up --refresh` reverts it. No schema checks the
    change. A value is JSON if it parses as JSON, else a text. `null` removes the property.

    \b
    pulumi-sandbox world edit l4-group 'updatePolicy.type=PROACTIVE'
    pulumi-sandbox world edit main 'tags["a.b"]=x' 'versions[0].name=canary'
    """
    with open_world() as store, store.transaction():
        row = find_one(store, resource)
        inputs, outputs = row.inputs, row.outputs
        for change in changes:
            path, value = parse_change(change)
            try:
                for properties in (inputs, outputs):
                    refuse_secret(properties, path)
                if path[0] in inputs or path[0] not in outputs:
                    inputs = with_value(inputs, path, value)
                outputs = with_value(outputs, path, value)
            except LookupError as problem:
                raise click.ClickException(f"world: {row.id}: {paths.text(path)}: {problem.args[0]}") from None
        store.update(row.type, row.id, inputs=inputs, outputs=outputs, note="edited by hand", cluster=row.cluster)
    click.echo(f"changed {row.path}")


@world.command()
@click.argument("resources", nargs=-1, required=True, metavar="RESOURCE...")
def remove(resources: tuple[str, ...]) -> None:
    """Delete a RESOURCE without the engine."""
    with open_world() as store, store.transaction():
        rows = [find_one(store, name) for name in resources]
        for row in rows:
            store.delete(row.type, row.id, "removed by hand", row.cluster)
    for row in rows:
        click.echo(f"removed {row.path}")


@world.command()
@click.option("--last", type=click.IntRange(1), default=50, show_default=True, help="How many to show.")
@json_option
def events(last: int, wants_json: bool) -> None:
    """List the events of the sandbox, oldest first."""
    with open_world() as store:
        rows = store.events(last)
    if wants_json:
        print_json([vars(event) for event in rows])
    else:
        print_table(
            ["TIME", "WHAT", "TYPE", "ID", "", "CLUSTER"],
            ([row.time, row.verb, row.type, row.id, row.note, row.cluster] for row in rows),
        )


def parse_change(change: str) -> tuple[Path, Any]:
    """Return the path and the value of one PATH=VALUE. A value that is not JSON is a text."""
    path_text, separator, value = change.partition("=")
    try:
        if not separator:
            raise ValueError("no value")
        path = paths.parse(path_text)
    except ValueError as error:
        raise click.BadParameter(f"{change}: {error}\n  expected: PATH=VALUE, such as targetSize=3") from None
    try:
        return path, json.loads(value)
    except ValueError:
        return path, value


def with_value(tree: Any, path: Path, value: Any) -> Any:
    """Return a copy of a tree with another value at a path. The value None removes the property.

    Raises:
        LookupError: The tree has no such path. The text is the problem.
    """
    if not path:
        return value
    step, *rest = path
    if tree is None:
        tree = [] if isinstance(step, int) else {}
    if not isinstance(tree, list if isinstance(step, int) else dict):
        raise LookupError(f"the value is not {'a list' if isinstance(step, int) else 'an object'}")
    items = dict(enumerate(tree)) if isinstance(tree, list) else dict(tree)
    if isinstance(step, int) and step > len(tree):
        raise LookupError(f"the list has {len(tree)} items")
    items[step] = with_value(items.get(step), tuple(rest), value)
    if items[step] is None:
        del items[step]
    return list(items.values()) if isinstance(tree, list) else items


def refuse_secret(tree: Any, path: Path) -> None:
    """Raise LookupError if the path is of a secret, or inside of one, or of an object that contains one.

    The world has only the digest of a secret, and no change may store a secret in plain text.
    """
    inside = any(is_digest(at(tree, path[:length])) for length in range(1, len(path)))
    if inside or list(digest_paths(at(tree, path))):
        raise LookupError("has a secret, of which the world stores only a digest")


@world.command(
    name="break",
    help=f"""Plant a fault of a KIND. It takes effect --times times.

    \b
{KINDS_HELP}

    \b
    pulumi-sandbox world break stockout --zone us-central1-a --times 2
    pulumi-sandbox world break slow --seconds 60 --on '*InstanceTemplate'
    pulumi-sandbox world break crash --on l4-template
    pulumi-sandbox world break refuse --on 'aws:*' --message 'AccessDenied: no'
    pulumi-sandbox world break guest --set GPU_SMOKE_DEVICE=cuda
    """,
)
@click.argument("kind", type=click.Choice(list(KINDS)), metavar="KIND")
@click.option(
    "--on", default="*", metavar="GLOB", help="The resources it affects: a glob over type, logical name or id."
)
@click.option(
    "--times",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="How often it takes effect; 0: until it is removed.",
)
@click.option("--zone", default="", help="Only in this zone.")
@click.option("--seconds", type=click.FloatRange(0), help="slow: the delay, by default 30.")
@click.option(
    "--message", default="", help="refuse, busy, quota, image: the error's text instead of the vendor's usual one."
)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="guest: a variable of the VM or the pod.")
def break_command(
    kind: str, on: str, times: int, zone: str, seconds: float | None, message: str, settings: tuple[str, ...]
) -> None:
    variables = dict(parse_setting(setting) for setting in settings)
    for is_set, option, kinds in (
        (bool(variables), "--set", ("guest",)),
        (seconds is not None, "--seconds", ("slow",)),
        (bool(message), "--message", ("refuse", "busy", "quota", "stockout", "image")),
    ):
        if is_set and kind not in kinds:
            raise click.UsageError(f"{option} applies to {', '.join(kinds)}, not to {kind}")
    if kind == "guest" and not variables:
        raise click.UsageError("guest needs --set KEY=VALUE, such as --set GPU_SMOKE_DEVICE=cuda")
    delay_seconds = (SLOW_SECONDS if kind == "slow" else 0.0) if seconds is None else seconds
    fault = Fault(kind, on, times, zone, delay_seconds, message, variables)
    with open_world() as world:
        number = world.add_fault(fault)
    click.echo(f"planted fault {number}: {describe(fault)}\n  remove it with: pulumi-sandbox world mend {number}")


def parse_setting(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise click.BadParameter(f"{text}\n  expected: KEY=VALUE", param_hint="--set")
    return key, value


def describe(fault: Fault) -> str:
    meaning = KINDS[fault.kind].replace("--seconds", f"{fault.seconds:g} s").replace(", with --message", "")
    target = "" if fault.on == "*" else f", on {fault.on}"
    in_zone = f", in {fault.zone}" if fault.zone else ""
    how_often = {0: "always", 1: "once"}.get(fault.times, f"{fault.times} times")
    variables = "".join(f", {key}={value}" for key, value in fault.settings.items())
    message = f", {json.dumps(fault.message)}" if fault.message else ""
    return f"{fault.kind} ({meaning}){target}{in_zone}{variables}{message}, {how_often}"


@world.command(name="faults")
@click.option("--json", "wants_json", is_flag=True, help="JSON instead of a table.")
def faults_command(wants_json: bool) -> None:
    """List the planted faults."""
    with open_world() as world:
        found = world.faults()
    if wants_json:
        print_json([vars(fault) for fault in found])
    elif found:
        print_table(["FAULT", "WHAT"], ([str(fault.id), describe(fault)] for fault in found))
    else:
        click.echo("no faults are planted")


@world.command(name="mend")
@click.argument("fault", type=int, required=False)
@click.option("--all", "remove_all", is_flag=True, help="Remove all faults.")
def mend_command(fault: int | None, remove_all: bool) -> None:
    """Remove a FAULT, or --all."""
    if (fault is None) != remove_all:
        raise click.UsageError("expected the number of a fault, or --all")
    with open_world() as world:
        removed = world.clear_faults(fault)
        planted = [str(each.id) for each in world.faults()]
    if fault is not None and not removed:
        hint = f"planted faults: {', '.join(planted)}" if planted else "no faults are planted"
        raise click.ClickException(f"world: fault {fault}: no such fault\n  hint: {hint}")
    click.echo(f"mended {removed} fault{'' if removed == 1 else 's'}" if removed else "no faults were planted")


@contextmanager
def open_world() -> Iterator[World]:
    """Yield the emulated cloud state of this project."""
    try:
        world = World(Workspace.find().world)
    except WorldError as error:
        raise click.ClickException(str(error)) from None
    try:
        yield world
    finally:
        world.close()


def find_one(world: World, name: str) -> Record:
    """Return the one resource with this id, end of an id, `TYPE/ID`, `TYPE/ID@CLUSTER`, URN or name."""
    rows = world.find()
    forms: tuple[Callable[[Record], str], ...] = (
        lambda row: row.urn,
        lambda row: row.path,
        lambda row: f"{row.type}/{row.id}",
        lambda row: row.id,
        lambda row: row.name,
        lambda row: row.id.rpartition("/")[2],
    )
    for form in forms:
        matches = [row for row in rows if form(row) == name]
        if len(matches) == 1:
            return matches[0]
        if matches:
            candidates = "".join(f"\n    {row.path}" for row in matches)
            raise click.ClickException(
                f"world: {name}: {len(matches)} resources have this name\n  hint: use one of:{candidates}"
            )
    raise click.ClickException(f"world: {name}: no such resource{suggestion(name, rows)}")


def suggestion(name: str, rows: Sequence[Record]) -> str:
    similar = closest(name, [form for row in rows for form in (row.id, row.name, row.id.rpartition("/")[2])])
    return (
        f"\n  hint: did you mean {similar}?" if similar else "\n  hint: pulumi-sandbox world list shows all resources"
    )


def as_json(row: Record) -> dict[str, Any]:
    return {
        "type": row.type, "name": row.name, "id": row.id, "urn": row.urn, "stack": row.stack, "origin": row.origin,
        "created": row.created, "cluster": row.cluster, "inputs": redact(row.inputs), "outputs": redact(row.outputs),
    }  # fmt: skip


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table without its empty columns. Without a terminal, no cell is folded to fit a width."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    columns = [column for column in zip(headings, *rows, strict=True) if any(column[1:])]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading, *_ in columns:
        table.add_column(heading, overflow="fold")
    for row in list(zip(*columns, strict=True))[1:]:
        table.add_row(*map(Text, row))
    Console(width=None if sys.stdout.isatty() else 400, highlight=False).print(table)
