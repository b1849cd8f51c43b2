"""`gpu-ci drift`: what exists that is not as the stacks left it."""

from __future__ import annotations

from pathlib import Path

import click
from gpu_ci.cli.output import ProblemsFound

from .exit_codes import ReportCommand
from .options import FiniteRange


@click.command("drift", cls=ReportCommand)
@click.option("--stack", "stacks", multiple=True, metavar="NAME", help="Only this stack; may be given again.")
@click.option("--sandbox", is_flag=True, help="Ask the sandbox's world, not the clouds.")
@click.option("--timeout-sec", default=900.0, show_default=True, type=FiniteRange(1), metavar="SECONDS",
              help="For each stack.")  # fmt: skip
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER",
              help="Also write report.md, report.json and report.html there.")  # fmt: skip
@click.option("--annotate", is_flag=True, help="Put the report on the page of the run, in GitHub Actions.")
@click.option("--json", "as_json", is_flag=True, help="The report as JSON instead of Markdown.")
@click.pass_context
def command(
    context: click.Context,
    /,
    stacks: tuple[str, ...],
    sandbox: bool,
    timeout_sec: float,
    output: Path | None,
    annotate: bool,
    as_json: bool,
) -> None:
    """Say what exists that is not as the stacks left it; nothing is changed.

    The `pulumi` on the PATH reads every resource, with the credentials of whoever calls this. The report is that of
    `gpu-ci preview`: before is what the state says, after is what exists.

    The exit code is 0 when all is as it was left, 2 when something is another, 3 when something is gone, and 1 for an
    error.

    \b
    Examples:
      gpu-ci drift
      gpu-ci drift --stack prod --output report
      gpu-ci drift --stack staging --sandbox
    """
    from gpu_preview.cli import output as shell
    from gpu_preview.compare.drift import DriftError, drift
    from gpu_preview.report import markdown

    if output:
        shell.prepare(output)
    try:
        report = drift(stacks, Path.cwd(), timeout_sec, sandbox, shell.progress("gpu-ci drift"))
    except DriftError as error:
        raise ProblemsFound(f"gpu-ci drift: {error}", [{"text": str(error)}]) from None
    text = markdown.render(report)
    if output:
        shell.write(output, report, text)
    shell.publish(report, text, as_json=as_json, annotations=() if annotate else None)
    context.exit(report.exit_code)
