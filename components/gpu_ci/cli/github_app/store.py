"""`gpu-ci github-app store`."""

from __future__ import annotations

import sys

import click

from gpu_ci.cli import options
from gpu_ci.cli.github_app import secret_store
from gpu_ci.cli.output import InputError, print_json


@click.command("store")
@click.argument("secret")
@options.as_json
def command(secret: str, as_json: bool) -> None:
    """Store a GitHub App's private key from standard input as the newest version of a secret.

    SECRET is projects/<project>/secrets/<name>. The command creates the secret if it is missing. It uses the Google
    credentials of this computer, and writes the key to no file.

    \b
    Examples:
      gpu-ci github-app store projects/acme-ci/secrets/github-app-key < downloaded.pem
      gpu-ci github-app store projects/acme-ci/secrets/github-app-key --json < downloaded.pem
    """
    secret_store.check_name(secret)
    if sys.stdin.isatty():
        raise InputError("gpu-ci github-app store: no key on standard input", hint=f"{secret} < downloaded.pem")
    pem = sys.stdin.buffer.read()
    secret_store.check_key(pem)
    version = secret_store.store(secret_store.connect(), secret, pem)
    if as_json:
        print_json({"version": version})
    else:
        click.echo(f"stored {version}; delete the file of the key")
