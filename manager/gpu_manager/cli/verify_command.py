"""The command `gpu-ci verify manager`."""

from __future__ import annotations

from pathlib import Path

import click
from gpu_ci.cli.output import InputError
from gpu_ci.cli.verify import google
from gpu_ci.cli.verify.command import as_json, output_option, verify

from ..github.adapter import GithubAdapter
from ..github.app_token import App
from ..ports import Refused
from ..verify import steps
from . import options


@click.command("manager")
@options.config
@click.option("--app-key", "key_file", required=True, metavar="FILE",
              type=click.Path(dir_okay=False, path_type=Path),
              envvar="GPU_CI_MANAGER_APP_KEY_FILE", help="The private key of the manager's App (PEM).")  # fmt: skip
@click.option("--github-url", metavar="URL", envvar="GITHUB_API_URL",
              help="https://HOST/api/v3 for an Enterprise Server; by default apiUrl of the configuration.")  # fmt: skip
@output_option("manager")
@as_json
def command(config_file: str, key_file: Path, github_url: str | None, output: Path, as_json: bool) -> None:
    """Check at GitHub and Google that a runner manager can work.

    The command sends the manager's own requests, with the key of its App and the Google credentials of this computer.
    It starts and deletes nothing.

    \b
    Examples:
      gpu-ci verify manager --app-key manager-app.pem
      gpu-ci verify manager --config manager.json --app-key manager-app.pem --json
    """
    config = options.configuration(config_file)
    groups = {pool.runner_group for pool in config.pools}

    def connection(app: App) -> GithubAdapter:
        try:
            return GithubAdapter(
                github_url or config.github.api_url, app, config.github.owner, groups, config.github.repositories or ()
            )
        except Refused as error:
            raise InputError(str(error), hint="correct --github-url, or github.apiUrl of the configuration") from None

    app = App(config.github.app_id, config.github.installation_id, key_file)
    verify("manager", steps.STEPS, steps.Target(config, app, connection, google.connect), output, as_json)
