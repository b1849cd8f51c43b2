"""`gpu-ci github-app create`."""

from __future__ import annotations

from pathlib import Path

import click
import yaml

from gpu_ci.cli import edit, options
from gpu_ci.cli.check import stacks
from gpu_ci.cli.github_app import listener, secret_store
from gpu_ci.cli.github_app.apps import apps_of, ask
from gpu_ci.cli.github_app.listener import Flow, NewApp, Registration
from gpu_ci.cli.output import InputError, print_json
from gpu_ci.cli.stack_files import one_file, problems_found
from gpu_ci.stack.site import SITE, app_entries

GITHUB_COM = "https://github.com"
_OK = 200


@click.command("create")
@click.argument("files", metavar="[FILE]", nargs=-1, type=click.Path())
@click.option("--only", multiple=True, metavar="APP", help="Create this App only, such as runnerApp. Repeatable.")
@click.option("--port", default=8765, show_default=True, type=click.IntRange(0, 65535), help="The port on 127.0.0.1.")
@click.option("--github-url", default=GITHUB_COM, show_default=True, help="The address of an Enterprise Server.")
@options.as_json
def command(files: tuple[str, ...], only: tuple[str, ...], port: int, github_url: str, as_json: bool) -> None:
    """Create and install the GitHub Apps that a stack file names, in the browser.

    The command shows a page on 127.0.0.1 with a button for each App. GitHub asks you to confirm each App and its
    permissions. The command stores the private key in the secret that the file names, in Secret Manager or in AWS
    Secrets Manager, with the credentials of this computer. Then it writes the numbers of App and installation into the
    stack file. The key is in no file and in no message. The command keeps each App that exists with the number and the
    key, so you can interrupt it and run it again.

    You must be an owner of the organization. The command ends when every App is installed.

    \b
    Examples:
      gpu-ci github-app create Pulumi.dev.yaml
      gpu-ci github-app create Pulumi.dev.yaml --only managerApp
    """
    file = one_file(files)
    if wrong := stacks.problems(file):
        raise problems_found(file, wrong)
    organization, apps = apps_of(file, only)
    for app in apps:
        secret_store.check_name(app.secret)
    secrets = secret_store.stores([app.secret for app in apps])
    web_url = github_url.rstrip("/")
    api_url = "https://api.github.com" if web_url == GITHUB_COM else f"{web_url}/api/v3"
    entries = app_entries(file.values[SITE]["github"])
    registrations = []
    taken = []
    for app in apps:
        number, key = int(entries[app.key]["id"]), secrets.newest(app.secret)
        registrations.append(Registration(app, created=existing(api_url, organization, number, key)))
        if not registrations[-1].created and key and secret_store.app_token(number, key):
            taken.append(f"{app.secret} has a key, but not that of {app.key}, App {number}")
    if taken:
        raise InputError(
            f"{file.path}: a key would be lost",
            got="; ".join(taken),
            expected="a secret for each App, without the key of another one",
            hint="if another stack uses the secret, write the numbers of its App into this file, or name another "
            "secret in privateKey; if none does, delete the secret",
        )
    try:
        listening = listener.server(port)
    except OSError as error:
        raise InputError(f"127.0.0.1:{port}: cannot be used", got=error.strerror or "", hint="give --port") from None
    flow = Flow(
        organization,
        file.stack,
        web_url,
        f"http://127.0.0.1:{listening.server_port}",
        registrations,
        convert=lambda code: listener.convert(api_url, code),
        store=lambda secret, pem: _say(f"stored {secrets.add(secret, pem)}"),
        installation=lambda app: installation_of(api_url, organization, app),
        keep=lambda each: write_numbers(file.path, numbers_of(each)),
        report=_say,
    )
    with listening:
        flow.find_installations()
        missing = sum(not each.installation for each in flow.registrations)
        _say(f"Open {flow.url} in a browser on this computer: {missing} Apps to create or install. Ctrl-C stops.")
        listener.serve(listening, flow)
    numbers = {path: number for each in flow.registrations for path, number in numbers_of(each).items()}
    if as_json:
        print_json({"file": file.name, "numbers": numbers})
    else:
        click.echo(f"{file.name}: has the numbers of {len(apps)} Apps")


def _say(text: str) -> None:
    click.echo(text, err=True)


def existing(api_url: str, organization: str, number: int, key: bytes | None) -> NewApp | None:
    """Return the organization's App with this number and key, or None."""
    token = secret_store.app_token(number, key) if key else None
    if key is None or token is None:
        return None
    status, found = ask(api_url, "/app", token)
    owner = str((found.get("owner") or {}).get("login"))
    is_ours = status == _OK and owner.casefold() == organization.casefold()
    return NewApp(number, str(found["slug"]), owner, key) if is_ours else None


def installation_of(api_url: str, organization: str, app: NewApp) -> int:
    """Return the number of the App's installation in the organization, or 0."""
    # docs.github.com/en/rest/apps/apps, "Get an organization installation for the authenticated app".
    token = secret_store.app_token(app.id, app.pem)
    status, found = ask(api_url, f"/orgs/{organization}/installation", token or "")
    return int(found["id"]) if status == _OK else 0


def numbers_of(each: Registration) -> dict[str, int]:
    """Return the known numbers of an App by their paths in the stack file."""
    path = f"{SITE}.github.{each.app.key}"
    numbers = {f"{path}.id": each.created.id if each.created else 0, f"{path}.installationId": each.installation}
    return {place: number for place, number in numbers.items() if number}


def write_numbers(path: Path, numbers: dict[str, int]) -> None:
    """Replace numbers in a stack file, and keep everything else, comments included.

    Args:
        path: The stack file.
        numbers: The new numbers by path, such as gpu-ci:site.github.app.id.

    Raises:
        InputError: The file has no value at a path, or cannot be written.
    """
    values = {tuple(place.split(".")): str(number) for place, number in numbers.items()}
    try:
        written = edit.write(path, values)
    except (OSError, yaml.YAMLError, click.ClickException):
        written = ()
    if len(written) < len(values):
        raise InputError(f"{path}: cannot be changed", expected=str(numbers), hint="write the numbers by hand")
