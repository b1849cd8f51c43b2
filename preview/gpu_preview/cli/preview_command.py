"""`gpu-ci preview`: what a pull request would change, without an account."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from gpu_ci.cli.output import InputError, ProblemsFound, note

from .exit_codes import ReportCommand
from .options import FiniteRange


@click.command("preview", cls=ReportCommand)
@click.option("--base", metavar="REF", help="What the change is compared with, such as origin/main.")
@click.option("--head", default="HEAD", show_default=True, metavar="REF", help="The change; only what is committed.")
@click.option("--stack", "stacks", multiple=True, metavar="NAME", help="Only this stack; may be given again.")
@click.option("--against-state", "states", multiple=True, metavar="STACK=FILE",
              help="Compare this stack with its exported state, not with its base; may be given again.")  # fmt: skip
@click.option(
    "--digest",
    "digests",
    multiple=True,
    metavar="STACK=FILE",
    help="Report on what `pulumi preview --json` printed elsewhere, with credentials, instead; may be given again.",
)
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER",
              help="Also write report.md, report.json and report.html there.")  # fmt: skip
@click.option("--annotate", is_flag=True, help="Annotate the pull request's lines, where this runs in GitHub Actions.")
@click.option("--policy-pack", "packs", multiple=True, type=click.Path(path_type=Path),
              metavar="FOLDER", help="Policies for the head, as the base has them; may be given again.")  # fmt: skip
@click.option("--policy-pack-config", "pack_configs", multiple=True, metavar="FILE",
              type=click.Path(path_type=Path),
              help="Settings of the packs, in their order.")  # fmt: skip
@click.option("--exact-base", is_flag=True, help="Compare with REF itself, not with where the head left it.")
@click.option("--install", default="", metavar="COMMAND", help="Installs a side's packages where its lock differs.")
@click.option("--with-network", is_flag=True, help="Let the program use the network.")
@click.option("--require-walls", is_flag=True, help="Run nothing where bubblewrap does not keep the program in.")
@click.option("--timeout-sec", default=300.0, show_default=True, type=FiniteRange(1), metavar="SECONDS",
              help="For each command of each stack.")  # fmt: skip
@click.option("--memory-gib", default=6.0, show_default=True, type=FiniteRange(0.1), metavar="GIB",
              help="For each command, with all it starts.")  # fmt: skip
@click.option("--disk-gib", default=10.0, show_default=True, type=FiniteRange(0.1), metavar="GIB",
              help="For each command.")  # fmt: skip
@click.option("--cache", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER",
              help="Keep what the base came to there, for the next call with the same base.")  # fmt: skip
@click.option(
    "--max-usd-month", type=FiniteRange(0), metavar="USD", help="A worst month that grows above it is a danger."
)
@click.option("--json", "as_json", is_flag=True, help="The report as JSON instead of Markdown.")
@click.pass_context
def command(context: click.Context, /, as_json: bool, output: Path | None, annotate: bool, **asked: Any) -> None:
    """Say what a change would create, update, replace and delete, what it costs, and what a reviewer must not miss.

    The base is brought up in a sandbox that is thrown away, and the head is previewed against it by the real engine,
    both from git alone: no cloud is asked, no credential is needed, and no secret can be opened. It serves any Pulumi
    program in Python.

    The exit code is 0 when nothing changes, 2 when something does, 3 when something is replaced or deleted, 4 when a
    mandatory policy is broken, and 1 for an error: of the change, of the base, or of the question.

    \b
    Examples:
      gpu-ci preview --base origin/main
      gpu-ci preview --base origin/main --stack staging --output report --annotate
      gpu-ci preview --base origin/main --against-state prod=prod.json
      gpu-ci preview --base v1.2.0 --head v1.3.0 --policy-pack policies --json
      pulumi preview --json --show-sames > prod.json; gpu-ci preview --digest prod=prod.json
    """
    from gpu_preview.cli import output as shell
    from gpu_preview.report import annotations, markdown

    if output:
        shell.prepare(output)
    report = _report(asked)
    text = markdown.render(report)
    if output:
        shell.write(output, report, text)
    shell.publish(report, text, as_json=as_json, annotations=annotations.render(report) if annotate else None)
    context.exit(report.exit_code)


def _report(asked: dict[str, Any]) -> Any:
    from gpu_preview.cli import output as shell
    from gpu_preview.compare.compare import CompareError, Request, compare
    from gpu_preview.compare.read_digests import read
    from gpu_preview.engine.exported_state import StateError
    from gpu_preview.git.repository import GitError, Repository
    from gpu_preview.isolation.bubblewrap import IsolationError
    from gpu_preview.isolation.limits import Limits

    if asked["base"] and asked["digests"]:
        raise InputError("gpu-ci preview: --base and --digest are two questions", expected="one of the two")
    if not asked["base"] and not asked["digests"]:
        raise InputError(
            "gpu-ci preview: what shall it be compared with?",
            expected="--base REF, or --digest STACK=FILE",
            hint="gpu-ci preview --base origin/main",
        )
    try:
        if asked["digests"]:
            return read(asked["digests"], Path.cwd(), asked["max_usd_month"])
        request = Request(
            base=asked["base"],
            head=asked["head"],
            stacks=asked["stacks"],
            states=_states(asked["states"]),
            packs=[pack.absolute() for pack in asked["packs"]],
            pack_configs=[file.absolute() for file in asked["pack_configs"]],
            install=asked["install"],
            limits=Limits(asked["timeout_sec"], asked["memory_gib"], asked["disk_gib"]),
            network=asked["with_network"],
            require_walls=asked["require_walls"],
            from_fork_point=not asked["exact_base"],
            max_usd_month=asked["max_usd_month"],
            cache=asked["cache"] and asked["cache"].absolute(),
        )
        repository = Repository.find(Path.cwd())
        if asked["head"] == "HEAD" and repository.is_dirty():
            note("gpu-ci preview: there are changes that no commit has; they are not looked at")
        return compare(request, repository, shell.progress("gpu-ci preview"))
    except (GitError, CompareError, StateError, IsolationError) as error:
        raise ProblemsFound(
            shell.without_commands(f"gpu-ci preview: {error}"), [{"text": shell.without_commands(str(error))}]
        ) from None


def _states(given: tuple[str, ...]) -> dict[str, Path]:
    found = {}
    for each in given:
        name, equals, file = each.partition("=")
        if not (name and equals and file) or name in found:
            raise InputError(
                f"gpu-ci preview: --against-state {each}: "
                + ("is the second of it" if name in found else "is no pair"),
                expected="STACK=FILE, once for each stack",
                hint="gpu-ci preview --base origin/main --against-state prod=prod.json",
            )
        found[name] = Path(file)
    return found
