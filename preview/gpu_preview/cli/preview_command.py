"""The command `gpu-ci preview`, which reports what a pull request would change, without a cloud account."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from gpu_ci.cli.output import ProblemsFound, note

from .options import FiniteRange


@click.command("preview")
@click.option("--base", required=True, metavar="REF", help="The revision to compare with, such as origin/main.")
@click.option("--head", default="HEAD", show_default=True, metavar="REF", help="The revision with the change.")
@click.option("--stack", "stacks", multiple=True, metavar="NAME", help="Only this stack; repeatable.")
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER",
              help="Also write report.md and report.json there.")  # fmt: skip
@click.option("--annotate", is_flag=True, help="In GitHub Actions, add the report to the job summary.")
@click.option("--policy-pack", "packs", multiple=True, type=click.Path(path_type=Path), metavar="FOLDER",
              help="Check the head with this policy pack, in the version of the base; repeatable.")  # fmt: skip
@click.option("--policy-pack-config", "pack_configs", multiple=True, metavar="FILE",
              type=click.Path(path_type=Path),
              help="Configuration files of the packs, in the order of --policy-pack; repeatable.")  # fmt: skip
@click.option("--exact-base", is_flag=True, help="Compare with REF itself, not with the merge base.")
@click.option("--install", default="", metavar="COMMAND",
              help="Install packages with this command for a revision whose lock file differs.")  # fmt: skip
@click.option("--with-network", is_flag=True, help="Let the program use the network.")
@click.option("--require-walls", is_flag=True, help="Fail if bubblewrap cannot isolate the program.")
@click.option("--timeout-sec", default=300.0, show_default=True, type=FiniteRange(1), metavar="SECONDS",
              help="Time limit for each command of each stack.")  # fmt: skip
@click.option("--memory-gib", default=6.0, show_default=True, type=FiniteRange(0.1), metavar="GIB",
              help="Memory limit for each command with its child processes.")  # fmt: skip
@click.option("--disk-gib", default=10.0, show_default=True, type=FiniteRange(0.1), metavar="GIB",
              help="Disk limit for each command.")  # fmt: skip
@click.option("--max-usd-month", type=FiniteRange(0), metavar="USD",
              help="Report a danger if the change raises the cost of the worst month above this.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON instead of Markdown.")
@click.pass_context
def command(context: click.Context, /, as_json: bool, output: Path | None, annotate: bool, **options: Any) -> None:
    """Report what a change would create, update, replace and delete, what it costs, and its dangers.

    The Pulumi engine deploys the base in a temporary sandbox, and previews the head against it. Both revisions come
    from git. The preview contacts no cloud, needs no credentials and decrypts no secrets. It works for any Pulumi
    program in Python.

    \b
    Exit codes:
      0  nothing changes
      1  an error in the head, the base or the arguments
      2  something changes
      3  a resource is replaced or deleted
      4  a mandatory policy is violated

    \b
    Examples:
      gpu-ci preview --base origin/main
      gpu-ci preview --base origin/main --stack staging --output report --annotate
      gpu-ci preview --base v1.2.0 --head v1.3.0 --policy-pack policies --json
    """
    from gpu_preview.cli import output as shell
    from gpu_preview.report import markdown

    if output:
        shell.prepare(output)
    report = _report(options)
    text = markdown.render(report)
    if output:
        shell.write(output, report, text)
    shell.publish(report, text, as_json=as_json, summarize=annotate)
    context.exit(report.exit_code)


def _report(options: dict[str, Any]) -> Any:
    from gpu_preview.cli import output as shell
    from gpu_preview.compare.compare import Request, compare
    from gpu_preview.errors import PreviewError
    from gpu_preview.git.repository import Repository
    from gpu_preview.isolation.limits import Limits

    try:
        request = Request(
            base=options["base"],
            head=options["head"],
            stacks=options["stacks"],
            packs=[pack.absolute() for pack in options["packs"]],
            pack_settings=[file.absolute() for file in options["pack_configs"]],
            install=options["install"],
            limits=Limits(options["timeout_sec"], options["memory_gib"], options["disk_gib"]),
            network=options["with_network"],
            require_walls=options["require_walls"],
            from_fork_point=not options["exact_base"],
            max_usd_month=options["max_usd_month"],
        )
        repository = Repository.find(Path.cwd())
        if options["head"] == "HEAD" and repository.is_dirty():
            note("gpu-ci preview: the preview ignores changes that are not committed")
        return compare(request, repository, shell.progress("gpu-ci preview"))
    except PreviewError as error:
        raise ProblemsFound(
            shell.without_commands(f"gpu-ci preview: {error}"), [{"text": shell.without_commands(str(error))}]
        ) from None
