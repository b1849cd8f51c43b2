"""The command `pulumi-sandbox world`: list, show and change the emulated resources, and plant faults.

The *world* is the emulated cloud state of a sandbox.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from fnmatch import fnmatchcase

import click

from pulumi_sandbox.cli.world_edit import owned_objects, parse_change, refuse_part_of_secret, with_value
from pulumi_sandbox.cli.world_faults import break_command, faults_command, mend_command
from pulumi_sandbox.cli.world_views import as_json, find_one, open_world, print_json, print_table
from pulumi_sandbox.providers import paths
from pulumi_sandbox.providers.secret_digests import MARK, digest, is_digest, redact
from pulumi_sandbox.providers.values import at
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.store import World, WorldError

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
@click.option("--name", default="*", metavar="GLOB", help="Only these logical names.")
@click.option("--stack", default="", help="Only resources of this stack: its name, or project/name.")
@click.option(
    "--origin",
    type=click.Choice(["stack", "api", "controller"]),
    help="Only resources that a stack, an API call, or a controller of a Kubernetes cluster created.",
)
@json_option
def list_command(kind: str, name: str, stack: str, origin: str | None, wants_json: bool) -> None:
    """List the resources, oldest first."""
    with open_world() as store:
        rows = [
            row
            for row in store.find()
            if fnmatchcase(row.type, kind)
            and fnmatchcase(row.name, name)
            and stack in ("", row.stack, row.stack.rpartition("/")[2])
            and origin in (None, row.origin)
        ]
    if wants_json:
        print_json([as_json(row) for row in rows])
    elif rows:
        print_table(
            ["TYPE", "NAME", "ID", "STACK", "CREATED", "CLUSTER"],
            ([row.type, row.name, row.id, row.stack or f"({row.origin})", row.created, row.cluster] for row in rows),
        )
    else:
        click.echo(
            "the world is empty"
            if kind == name == "*" and not stack and not origin
            else "no resource matches these options"
        )


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
            if is_digest(at(outputs, path)) or is_digest(at(inputs, path)):
                value = {MARK: digest(value, store.key)}
            try:
                for properties in (inputs, outputs):
                    refuse_part_of_secret(properties, path, value)
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
        for row in [*rows, *(owned for owner in rows for owned in owned_objects(store, owner))]:
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


@world.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
def reset(yes: bool) -> None:
    """Delete all emulated resources.

    Stacks keep their states. `pulumi-sandbox refresh` then removes the deleted resources from them.
    """
    workspace = Workspace.find()
    file = workspace.world
    if not yes:
        try:
            confirmed = click.confirm("Delete all emulated resources and all planted faults?")
        except click.Abort:
            raise click.UsageError("no answer to the question; --yes skips the question") from None
        if not confirmed:
            raise click.Abort
    try:
        store = World(file)
    except WorldError:  # The file cannot be read, so a new one replaces it.
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                file.with_name(file.name + suffix).unlink()
        store = World(file)
    with store.transaction():
        deleted = [store.delete(row.type, row.id, "reset", row.cluster) for row in store.find()]
        store.clear_faults()
    store.close()
    shutil.rmtree(workspace.disks, ignore_errors=True)
    click.echo(f"the world is empty; {len(deleted)} resources deleted")


for command in (break_command, faults_command, mend_command):
    world.add_command(command)
