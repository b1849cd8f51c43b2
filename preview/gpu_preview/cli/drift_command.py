"""The command `gpu-ci drift`, which reports how the existing resources differ from the state."""

from __future__ import annotations

from pathlib import Path

import click
from gpu_ci.cli.output import ProblemsFound

from .options import FiniteRange


@click.command("drift")
@click.option("--stack", "stacks", multiple=True, metavar="NAME", help="Only this stack; repeatable.")
@click.option("--sandbox", is_flag=True, help="Read the emulated cloud of the sandbox, not the real clouds.")
@click.option("--timeout-sec", default=900.0, show_default=True, type=FiniteRange(1), metavar="SECONDS",
              help="Time limit for each stack.")  # fmt: skip
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER",
              help="Also write report.md and report.json there.")  # fmt: skip
@click.option("--annotate", is_flag=True, help="In GitHub Actions, add the report to the job summary.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON instead of Markdown.")
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
    """Report how the existing resources differ from the state of the stacks, without changing anything.

    The `pulumi` on PATH reads every resource with your credentials. The report has the form of `gpu-ci preview`:
    "before" is the state, "after" is what exists.

    \b
    Exit codes:
      0  no drift
      1  an error
      2  a resource differs
      3  a resource is missing

    \b
    Examples:
      gpu-ci drift
      gpu-ci drift --stack prod --output report
      gpu-ci drift --stack staging --sandbox
    """
    from gpu_preview.cli import output as shell
    from gpu_preview.compare.drift import drift
    from gpu_preview.errors import PreviewError
    from gpu_preview.report import markdown

    if output:
        shell.prepare(output)
    try:
        report = drift(stacks, Path.cwd(), timeout_sec, sandbox, shell.progress("gpu-ci drift"))
    except PreviewError as error:
        raise ProblemsFound(f"gpu-ci drift: {error}", [{"text": str(error)}]) from None
    text = markdown.render(report)
    if output:
        shell.write(output, report, text)
    shell.publish(report, text, as_json=as_json, summarize=annotate)
    context.exit(report.exit_code)
