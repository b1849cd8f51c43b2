"""The command `pulumi-sandbox serve`: the sandbox's machines and GitHub without a `pulumi` command."""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import shlex
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TextIO

import click

from pulumi_sandbox import passthrough
from pulumi_sandbox.engine.model import write_whole
from pulumi_sandbox.providers.aws.provider import Aws
from pulumi_sandbox.providers.gcp.names import part
from pulumi_sandbox.providers.gcp.provider import Gcp
from pulumi_sandbox.providers.gcp.types import TEMPLATES
from pulumi_sandbox.providers.jarvislabs import JarvisLabs
from pulumi_sandbox.providers.machines import settings as guest_settings
from pulumi_sandbox.providers.machines.local_services import LocalServices
from pulumi_sandbox.providers.machines.metadata import TOKEN
from pulumi_sandbox.providers.machines.vm_processes import VmProcesses
from pulumi_sandbox.providers.resource import Context, Refused
from pulumi_sandbox.providers.sdk.reader import SdkReadError
from pulumi_sandbox.workspace import ENDPOINT, SERVE_LOCK, TOKEN_VARIABLE, Workspace, free_port, is_hidden
from pulumi_sandbox.world.store import World

ENVIRONMENT_FILE = "serve.env"
CLIENT_VARIABLES = (
    ENDPOINT,
    "GCE_METADATA_HOST",
    "GCE_METADATA_IP",
    "CLOUDSDK_CONFIG",
    "NO_PROXY",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_EC2",
    "AWS_ENDPOINT_URL_S3",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_EC2_METADATA_DISABLED",
)
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@click.command(name="serve")
@click.option(
    "--port",
    type=click.IntRange(1024, 65535),
    help="The port of the Compute Engine API; AWS's APIs use the next two. Default: any free ports.",
)
@click.option("--jarvislabs", "account", default="", metavar="USER", help="Also serve Jarvis Labs with this account.")
@click.option("--exec", "executes", is_flag=True, help="Run COMMAND with that environment, and stop when it ends.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def serve(port: int | None, account: str, executes: bool, command: tuple[str, ...]) -> int:
    """Serve the APIs of Google Cloud, AWS, Jarvis Labs and GitHub of this project's sandbox.

    A VM that a client inserts runs as a process of this command, and ends with it. The command prints the environment
    for clients, and keeps the same lines in .sandbox/serve.env while it serves. Ctrl-C ends it.

    \b
    pulumi-sandbox serve                         then, in another terminal:  . .sandbox/serve.env
    pulumi-sandbox serve --exec -- COMMAND ...   runs COMMAND with that environment; returns its exit code
    """
    if executes is not bool(command):
        raise click.UsageError("--exec and COMMAND go together: pulumi-sandbox serve --exec -- COMMAND ...")
    workspace = Workspace.find()
    with serve_lock_held(workspace), serving(workspace, port, account) as client_environment:
        lines = [f"export {name}={shlex.quote(value)}" for name, value in client_environment.items()]
        with stop_event() as stop, environment_file(workspace.root / ENVIRONMENT_FILE, lines):
            if command:
                return run(command, client_environment)
            click.echo("\n".join(lines))
            click.echo(
                f"pulumi-sandbox: serving {client_environment[ENDPOINT]} (Ctrl-C ends it, and its VMs)", err=True
            )
            stop.wait()
        click.echo("pulumi-sandbox: switching the VMs off", err=True)
    return 0


@contextlib.contextmanager
def serve_lock_held(workspace: Workspace) -> Iterator[None]:
    """Hold the lock of this sandbox. The kernel releases it when the process ends, also by SIGKILL (flock(2))."""
    workspace.prepare()
    with (workspace.root / SERVE_LOCK).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise click.ClickException(
                f"serve: this sandbox is served already\n  got: process {lock_holder(file)} holds {file.name}\n"
                f"  expected: one server for a sandbox\n"
                f"  hint: use the environment of that server, {workspace.root / ENVIRONMENT_FILE}, or stop that server"
            ) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


def lock_holder(file: TextIO) -> str:
    file.seek(0)
    return file.read().strip() or "of another user"


@contextlib.contextmanager
def serving(workspace: Workspace, port: int | None, account: str = "") -> Iterator[dict[str, str]]:
    """Serve the sandbox, and yield the environment of its clients. All VMs are off when the block ends."""
    world = World(workspace.world)
    cloud, amazon = Gcp(), Aws()
    # google.auth asks the metadata server for the project.
    project = newest_project(world)
    try:
        cloud.start(Context(workspace, world, config={"project": project} if project else {}))
        amazon.start(Context(workspace, world))
    except SdkReadError as error:
        world.close()
        raise click.ClickException(f"serve: {error}") from None
    chosen_port = port or free_port()
    rented: JarvisLabs | None = None
    try:
        services = cloud.serve(project, chosen_port)
        # A stack without AWS may not have its SDK.
        if importlib.util.find_spec("pulumi_aws"):
            amazon.serve(chosen_port + 1, services)
        variables = environment(workspace, chosen_port, services)
        if account:
            guests = VmProcesses(guest_settings.guest(workspace.settings_file, workspace.project), services)
            rented = JarvisLabs(world, guests, workspace, account)
            variables |= rented.environment()
        yield variables
    except Refused as refused:
        raise click.ClickException(str(refused)) from None
    finally:
        if rented:
            rented.close()
        amazon.stop()
        cloud.stop()
        world.close()


def newest_project(world: World) -> str:
    """Return the project of the newest instance template, or an empty text without a template."""
    templates = sorted((row for token in TEMPLATES for row in world.find(token)), key=lambda row: row.created)
    return part(templates[-1].id, "projects") if templates else ""


def environment(workspace: Workspace, port: int, services: LocalServices) -> dict[str, str]:
    """Return the variables that point clients at the served APIs, with credentials for them.

    Variables for Google are those of its Terraform provider (custom endpoints) and of google-auth. GITHUB_API_URL is
    the variable of GitHub's own runners. The keys for AWS give no access to AWS.
    """
    variables = workspace.environment(port)
    return {name: variables[name] for name in CLIENT_VARIABLES} | {
        TOKEN_VARIABLE: TOKEN.partition(".")[2],
        "GOOGLE_SECRET_MANAGER_CUSTOM_ENDPOINT": f"{services.url('secretmanager')}/v1/",
        "GOOGLE_LOGGING_CUSTOM_ENDPOINT": f"{services.url('logging')}/v2/",
        "GOOGLE_CLOUD_BUILD_CUSTOM_ENDPOINT": f"{services.url('cloudbuild')}/v1/",
        "GOOGLE_STORAGE_CUSTOM_ENDPOINT": f"{services.url('storage')}/storage/v1/",
        "GITHUB_API_URL": services.url("github"),
    }


@contextlib.contextmanager
def environment_file(file: Path, lines: Sequence[str]) -> Iterator[None]:
    """Keep these lines in a file that only the user can read."""
    write_whole(file, "".join(f"{line}\n" for line in lines), 0o600)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


@contextlib.contextmanager
def stop_event() -> Iterator[threading.Event]:
    """Return an event that SIGINT and SIGTERM set."""
    stop = threading.Event()

    def handle(_: int, __: FrameType | None) -> None:
        stop.set()

    old_handlers = {signal_number: signal.signal(signal_number, handle) for signal_number in STOP_SIGNALS}
    try:
        yield stop
    finally:
        for signal_number, handler in old_handlers.items():
            signal.signal(signal_number, handler)


def run(command: Sequence[str], client_environment: Mapping[str, str]) -> int:
    """Run the command without credentials of real accounts, and return its exit code."""
    without_credentials = {name: value for name, value in os.environ.items() if not is_hidden(name)}
    try:
        return passthrough.run(Path(command[0]), command[1:], {**without_credentials, **client_environment})
    except OSError as error:
        raise click.ClickException(f"serve: {command[0]}: {error.strerror}") from None
