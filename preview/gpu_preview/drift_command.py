"""`gpu-ci drift`: what exists that is not as the stacks left it."""

from __future__ import annotations

import time
from pathlib import Path

import click
from gpu_ci.cli.output import Found, note, print_json


@click.command("drift")
@click.option("--stack", "stacks", multiple=True, metavar="NAME", help="Only this stack; may be given again.")
@click.option("--sandbox", is_flag=True, help="Ask the sandbox's world, not the clouds.")
@click.option("--timeout-sec", default=900.0, show_default=True, type=click.FloatRange(1), metavar="SECONDS",
              help="For each stack.")  # fmt: skip
@click.option("--annotate", is_flag=True, help="Put the report on the page of the run, in GitHub Actions.")
@click.option("--json", "as_json", is_flag=True, help="The report as JSON instead of Markdown.")
@click.pass_context
def command(
    context: click.Context, /, stacks: tuple[str, ...], sandbox: bool, timeout_sec: float, annotate: bool, as_json: bool
) -> None:
    """Say what exists that is not as the stacks left it; nothing is changed.

    The `pulumi` on the PATH reads every resource, with the credentials of whoever calls this. The report is that of
    `gpu-ci preview`: before is what the state says, after is what exists.

    The exit code is 0 when all is as it was left, 2 when something is another, 3 when something is gone, and 1 for an
    error.

    \b
    Examples:
      gpu-ci drift
      gpu-ci drift --stack prod --json
      gpu-ci drift --stack staging --sandbox
    """
    from gpu_preview import markdown, shell
    from gpu_preview.drift import DriftError, drift

    began = time.monotonic()

    def say(text: str) -> None:
        note(f"gpu-ci drift: {time.monotonic() - began:5.1f} s  {text}")

    try:
        report = drift(stacks, Path.cwd(), timeout_sec, sandbox, say)
    except DriftError as error:
        raise Found(f"gpu-ci drift: {error}", [{"text": str(error)}]) from None
    text = markdown.render(report)
    if as_json:
        print_json(report.model_dump(mode="json", by_alias=True))
    else:
        shell.show(text)
    if annotate:
        shell.annotate((), text)
    context.exit(report.exit_code)
