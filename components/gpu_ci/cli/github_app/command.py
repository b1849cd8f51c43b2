"""`gpu-ci github-app`: its two commands."""

from __future__ import annotations

import click

from gpu_ci.cli.lazy import Lazy

MODULES = {
    "create": ("gpu_ci.cli.github_app.create", "Create and install the Apps of a stack file, in the browser."),
    "store": ("gpu_ci.cli.github_app.secret_store", "Store a private key from standard input in a secret."),
}


@click.group("github-app", cls=Lazy, modules=MODULES)
def command() -> None:
    """Create the GitHub Apps of a stack, and store their private keys.

    \b
    Examples:
      gpu-ci github-app create Pulumi.dev.yaml
      gpu-ci github-app store projects/acme-ci/secrets/github-app-key < downloaded.pem
    """
