"""`gpu-ci verify`: a group with one command for each kind of target, and the code that the commands share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from gpu_ci.cli import options
from gpu_ci.cli.lazy import Lazy
from gpu_ci.cli.output import InputError, print_json, print_text
from gpu_ci.cli.stack_files import StackFile, one_file
from gpu_ci.cli.verify import checklist
from gpu_ci.stack.clusters import CLUSTERS, of_kind


class Targets(Lazy):
    """The targets of `gpu-ci verify`."""

    COMMANDS: Mapping[str, tuple[str, str]] = {
        "google": ("gpu_ci.cli.verify.google_command", "A Google Cloud project, for the gce-runners of a stack file."),
        "eks": ("gpu_ci.cli.verify.eks_command", "An EKS cluster and its AWS account, for the eks-runners of a stack."),
        "gke": ("gpu_ci.cli.verify.gke_command", "A GKE cluster and its project, for the gke-runners of a stack file."),
        "manager": ("gpu_manager.cli.verify_command", "A runner manager: its App, GitHub's queue, and its rights."),
        "gpu": ("gpu_ci.cli.verify.gpu_command", "The GPUs of this machine."),
    }


@click.group("verify", cls=Targets)
def command() -> None:
    """Run the read-only steps of the first-run checklist (docs/start/first-real-run.md), and write a report.

    Nothing is created or changed. Secrets, account numbers and e-mail addresses are removed from the report, so that
    you can attach it to an issue. The exit code is 1 if a step failed or could not run.

    \b
    Examples:
      gpu-ci verify google Pulumi.staging.yaml
      gpu-ci verify eks Pulumi.staging.yaml
      gpu-ci verify gke Pulumi.staging.yaml
      gpu-ci verify manager --app-key manager-app.pem
      gpu-ci verify gpu
    """


def output_option(name: str) -> Callable[[Any], Any]:
    """Return the option `--output` with its default file name."""
    return click.option(
        "--output", type=click.Path(dir_okay=False, path_type=Path), default=f"gpu-ci-verify-{name}.md",
        show_default=True, help="The file for all results.",
    )  # fmt: skip


def one_stack(names: tuple[str, ...]) -> StackFile:
    """Return the given stack file, or the only stack file of this folder. Raise an error if a pool has a problem."""
    file = one_file(names)
    file.refuse_mistakes()
    return file


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose a cluster of the stack file, and the context of kubectl."""
    context = click.option(
        "--context", default="", metavar="NAME", help="The context of kubectl; by default the current context."
    )
    name = click.option(
        "--cluster", "name", metavar="NAME", help="The cluster; required if the file has several clusters of this kind."
    )
    return name(context(command))


def one_cluster(names: tuple[str, ...], kind: str, name: str | None) -> tuple[StackFile, str]:
    """Return the stack file and the chosen cluster of a kind, or the only one. Raise an error for another name."""
    file = one_stack(names)
    described = {} if file.clusters else of_kind(file.value(CLUSTERS), kind)
    if not described:
        raise InputError(
            f"{file.name}: describes no {kind.upper()} cluster",
            expected=f"{CLUSTERS}",
            hint=f"gpu-ci check {file.name}",
        )
    if name is None and len(described) > 1:
        raise InputError(
            f"gpu-ci verify {kind}: the file has several clusters", got=", ".join(described), hint="add --cluster NAME"
        )
    chosen = name or next(iter(described))
    if chosen not in described:
        raise InputError(f"gpu-ci verify {kind}: no cluster {chosen!r} in {file.name}", expected=", ".join(described))
    return file, chosen


def verify(
    name: str,
    steps: Sequence[checklist.Step[Any]],
    target: Any,
    output: Path,
    as_json: bool,
) -> None:
    """Run the steps, print each result, write the file and set the exit code."""
    try:
        output.touch()  # The steps take minutes. If the file cannot be written, the error appears before them.
        answers = checklist.ask_all(steps, target, lambda step: click.echo(f"{step} ...", err=True))
        report = checklist.document(name, answers)
        output.write_text(checklist.markdown(report), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{output}: cannot be written", got=error.strerror or str(error)) from None
    if as_json:
        print_json(report)
    else:
        _show(report)
        click.echo(f"\nAll results are in {output}; read the file before you attach it to an issue.", err=True)
        if by_hand := [step.name for step in steps if step.ask is None]:
            click.echo(f"Steps to run by hand: {', '.join(by_hand)} (docs/start/first-real-run.md).", err=True)
    if any(step["status"] != "pass" for step in report["steps"]):
        click.get_current_context().exit(1)


def _show(report: dict[str, Any]) -> None:
    """Print the result of each step, and a hint for each failed step.

    If several steps could not run for the same reason, the reason is printed once.
    """
    for step, got in zip(report["steps"], checklist.shortened(report["steps"]), strict=True):
        print_text(f"{step['status']:<8} {step['name']}: {got}", 9)
        if step["status"] == "fail":
            print_text(f"         expected: {step['expected']}", 9)
            print_text(f"         hint: {step['otherwise']}", 9)


as_json = options.as_json
