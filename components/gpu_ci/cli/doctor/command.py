"""`gpu-ci doctor`."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from gpu_common.suggest import closest

from gpu_ci.cli import google_api, options
from gpu_ci.cli.check import stacks
from gpu_ci.cli.doctor import github, google, report, state
from gpu_ci.cli.doctor.deployment import GITHUB_API, Deployment
from gpu_ci.cli.doctor.steps import Step, ask_all
from gpu_ci.cli.output import InputError, print_json
from gpu_ci.cli.stack_files import one_file, problems_found
from gpu_ci.kinds import pool_kinds
from gpu_ci.stack.clusters import CLUSTERS, of_kind

# The module with the steps of each kind of cluster. It loads the packages of its cloud, which a stack without such
# clusters does not install.
_CLUSTERS = {"eks": "gpu_ci.cli.doctor.eks", "gke": "gpu_ci.cli.doctor.gke"}
_MANAGER = "gpu_manager.doctor"


@click.command("doctor")
@click.argument("files", metavar="[FILE]", nargs=-1, type=click.Path())
@click.option(
    "--only", multiple=True, metavar="STEP", help="A step, such as google/apis, or a group of them. Repeatable."
)
@click.option("--context", "contexts", multiple=True, metavar="[CLUSTER=]NAME",
              help="The context of kubectl for a cluster; by default its current one. Repeatable.")  # fmt: skip
@click.option("--github-url", metavar="URL", envvar="GITHUB_API_URL", default=GITHUB_API, show_default=True,
              help="The address of GitHub's API.")  # fmt: skip
@click.option("--app-key", metavar="FILE|ARN", type=click.Path(dir_okay=False, path_type=Path),
              envvar="GPU_CI_MANAGER_APP_KEY_FILE",
              help="The private key (PEM) of the App of manager.json, or the ARN of its secret in AWS.")  # fmt: skip
@click.option("--report", "page", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path),
              help="Also write a page for an issue, without secrets, account numbers and addresses.")  # fmt: skip
@options.as_json
def command(
    files: tuple[str, ...],
    only: tuple[str, ...],
    contexts: tuple[str, ...],
    github_url: str,
    app_key: Path | None,
    page: Path | None,
    as_json: bool,
) -> None:
    """Check the real environment of a stack file before `pulumi up`. Nothing is created or changed.

    The command asks Google, AWS, the cluster and GitHub what the file needs, with the credentials of this computer. It
    prints `pass`, `fail` or `unknown` for each step, and the commands that fix a failure. It reads the private key of
    each GitHub App from Secret Manager or AWS Secrets Manager, and keeps it in memory.

    For manager.json, the configuration of a runner manager, the command checks that this manager can work: with
    --app-key and the Google credentials of this computer, which should be those of the manager.

    A file with mistakes is refused before any request. The exit code is 1 if a step failed, or if no
    step could be checked.

    \b
    Examples:
      gpu-ci doctor Pulumi.dev.yaml
      gpu-ci doctor Pulumi.dev.yaml --only github --only google/permissions
      gpu-ci doctor Pulumi.prod.yaml --report doctor.md
      gpu-ci doctor manager.json --app-key manager-app.pem
    """
    if len(files) == 1 and files[0].endswith(".json"):
        name = files[0]
        found = _of_manager(name, app_key, "" if github_url == GITHUB_API else github_url)
    else:
        name, found = _of_stack(files, contexts, github_url)
    steps = _chosen([*found], only)
    try:
        if page:
            page.touch()  # The steps take minutes. If the file cannot be written, the error appears before them.
        answers = ask_all(steps, None, lambda step: click.echo(f"{step} ...", err=True))
        if page:
            page.write_text(report.page(name, answers), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{page}: cannot be written", got=error.strerror or str(error)) from None
    result = report.document(name, answers)
    if as_json:
        print_json(result)
    else:
        report.show(result)
    if page:
        click.echo(f"\n{page} has all answers; read the file before you attach it to an issue.", err=True)
    if not result["works"]:
        click.get_current_context().exit(1)


def _of_manager(name: str, app_key: Path | None, github_url: str) -> Iterator[Step[None]]:
    if app_key is None:
        raise InputError("gpu-ci doctor: --app-key is missing", hint="--app-key manager-app.pem, as for the manager")
    manager = importlib.import_module(_MANAGER)
    return _of_group("manager", manager.STEPS, manager.target(name, app_key, github_url, google_api.connect))


def _of_stack(files: tuple[str, ...], contexts: Sequence[str], github_url: str) -> tuple[str, Iterator[Step[None]]]:
    file = one_file(files)
    if wrong := stacks.problems(file):
        raise problems_found(file, wrong, "; nothing was asked")
    return file.name, _every_step(Deployment(file, google_api.connect, github_url.rstrip("/")), contexts)


def _every_step(deployment: Deployment, contexts: Sequence[str]) -> Iterator[Step[None]]:
    """Yield the steps that concern what the file uses. Their names begin with their group."""
    file = deployment.file
    project = google.target(file, lambda: deployment.call)
    yield from _of_group("google", google.steps(project), project)
    described = [(kind, name) for kind in _CLUSTERS for name in of_kind(file.values[CLUSTERS], kind)]
    names = [name for _, name in described]
    by_cluster = dict(each.split("=", 1) for each in contexts if "=" in each)
    default = next((each for each in contexts if "=" not in each), "")
    if unknown := [name for name in by_cluster if name not in names]:
        raise InputError(f"gpu-ci doctor: --context names no cluster: {unknown[0]}", expected=", ".join(names))
    for kind, name in described:
        module = importlib.import_module(_CLUSTERS[kind])
        group = kind if sum(other == kind for other, _ in described) == 1 else f"{kind}-{name}"
        cluster = module.target(file, name, by_cluster.get(name, default), lambda: deployment.call)
        yield from _of_group(group, module.steps(file, cluster), cluster)
    for kind in sorted({spec.kind for spec in file.specs}):
        if pool_kinds()[kind].doctor:
            yield from _of_group(kind, importlib.import_module(pool_kinds()[kind].doctor_module).STEPS, deployment)
    yield from _of_group("github", [*github.steps(deployment)], deployment)
    yield from _of_group("state", state.STEPS, deployment)


def _of_group(group: str, steps: Sequence[Step[Any]], target: Any) -> Iterator[Step[None]]:
    for step in steps:
        yield replace(step, name=f"{group}/{step.name}", ask=lambda _, ask=step.ask: ask(target))  # type: ignore[misc]


def _chosen(steps: list[Step[None]], only: Sequence[str]) -> list[Step[None]]:
    """Return the steps that --only names: whole names, groups, or the part after the group."""
    names = {step.name: {step.name, *step.name.split("/", 1)} for step in steps}
    known = sorted({word for words in names.values() for word in words})
    for word in only:
        if word not in known:
            near = closest(word, known)
            raise InputError(
                f"gpu-ci doctor: this file has no step {word!r}",
                expected=", ".join(names),
                hint=f"did you mean {near}?" if near else "",
            )
    return [step for step in steps if not only or names[step.name] & set(only)]
