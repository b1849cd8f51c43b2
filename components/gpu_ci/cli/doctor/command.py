"""`gpu-ci doctor`."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import click
from gpu_common.secret_patterns import redact
from gpu_common.suggest import closest

from gpu_ci.cli import options
from gpu_ci.cli.check import stacks
from gpu_ci.cli.doctor import github, state
from gpu_ci.cli.doctor.deployment import GITHUB_API, Deployment
from gpu_ci.cli.output import InputError, print_json, print_table
from gpu_ci.cli.stack_files import StackFile, one_file, problems_found
from gpu_ci.cli.verify import deployer, google
from gpu_ci.cli.verify.checklist import Answer, Step, ask_all, shortened
from gpu_ci.gcp.build_gpu_bridge import BuildGpuBridgeArgs
from gpu_ci.gcp.build_pool import BuildPoolArgs
from gpu_ci.stack.clusters import CLUSTERS, of_kind
from gpu_ci.stack.site import MANAGER

# The steps of `gpu-ci verify google` that concern a stack without machines.
_EVERY_PROJECT = ("project", "apis", "permissions", "secrets")
_SECRETS_ALONE = ("cloudresourcemanager.googleapis.com", "secretmanager.googleapis.com")
_MANAGER_APIS = ("monitoring.googleapis.com", "run.googleapis.com", "storage.googleapis.com")
_KMS = "cloudkms.googleapis.com"
# The module with the steps of each kind of cluster.
_CHECKLISTS = {"eks": "gpu_ci.cli.verify.eks", "gke": "gpu_ci.cli.verify.gke"}


@click.command("doctor")
@click.argument("files", metavar="[FILE]", nargs=-1, type=click.Path())
@click.option(
    "--only", multiple=True, metavar="STEP", help="A step, such as google/apis, or a group of them. Repeatable."
)
@click.option("--context", "contexts", multiple=True, metavar="[CLUSTER=]NAME",
              help="The context of kubectl for a cluster; by default its current one. Repeatable.")  # fmt: skip
@click.option("--github-url", metavar="URL", envvar="GITHUB_API_URL", default=GITHUB_API, show_default=True,
              help="The address of GitHub's API.")  # fmt: skip
@options.as_json
def command(
    files: tuple[str, ...], only: tuple[str, ...], contexts: tuple[str, ...], github_url: str, as_json: bool
) -> None:
    """Check the real environment of a stack file before `pulumi up`. Nothing is created or changed.

    The command asks Google, AWS, the cluster and GitHub what the file needs, with the credentials of this computer. It
    prints `pass`, `fail` or `unknown` for each step, and the commands that fix a failure. It reads the private key of
    each GitHub App from Secret Manager, and keeps it in memory.

    A file with mistakes is refused before any request. The exit code is 1 if a step failed, or if no
    step could be checked.

    \b
    Examples:
      gpu-ci doctor Pulumi.dev.yaml
      gpu-ci doctor Pulumi.dev.yaml --only github --only google/permissions
      gpu-ci doctor Pulumi.prod.yaml --json
    """
    file = one_file(files)
    if wrong := stacks.problems(file):
        raise problems_found(file, wrong, "; nothing was asked")
    deployment = Deployment(file, google.connect, github_url.rstrip("/"))
    steps = _chosen([*_every_step(deployment, contexts)], only)
    answers = ask_all(steps, None, lambda name: click.echo(f"{name} ...", err=True))
    report = _report(file, answers)
    if as_json:
        print_json(report)
    else:
        _show(report)
    if not report["works"]:
        click.get_current_context().exit(1)


def _every_step(deployment: Deployment, contexts: Sequence[str]) -> Iterator[Step[None]]:
    """Yield the steps that concern what the file uses. Their names begin with their group."""
    file = deployment.file
    yield from _of_group("google", *_google(deployment))
    described = [(kind, name) for kind in _CHECKLISTS for name in of_kind(file.value(CLUSTERS), kind)]
    names = [name for _, name in described]
    by_cluster = dict(each.split("=", 1) for each in contexts if "=" in each)
    default = next((each for each in contexts if "=" not in each), "")
    if unknown := [name for name in by_cluster if name not in names]:
        raise InputError(f"gpu-ci doctor: --context names no cluster: {unknown[0]}", expected=", ".join(names))
    for kind, name in described:
        # The module of a kind loads the packages of its cloud, which a stack without such clusters does not install.
        checklist = importlib.import_module(_CHECKLISTS[kind])
        group = kind if sum(other == kind for other, _ in described) == 1 else f"{kind}-{name}"
        cluster = checklist.target(file, name, by_cluster.get(name, default), lambda: deployment.call)
        yield from _of_group(group, checklist.steps(file, cluster), cluster)
    yield from _of_group("github", [*github.steps(deployment)], deployment)
    yield from _of_group("state", [*state.steps()], deployment)


def _google(deployment: Deployment) -> tuple[Sequence[Step[Any]], Any]:
    """Return the steps about the Google Cloud project, and the project."""
    file = deployment.file
    target = google.target(file, lambda: deployment.call)
    has_builds = any(isinstance(args, BuildPoolArgs | BuildGpuBridgeArgs) for _, args in file.pools)
    apis = list(target.apis)
    if not target.pools and not deployer.has_own_node_pools(file):
        apis.remove("compute.googleapis.com")
    if not target.permissions:
        apis = [*_SECRETS_ALONE]
    apis += _MANAGER_APIS if file.value(MANAGER) is not None else ()
    apis += [_KMS] if str(file.others.get("secretsprovider")).startswith("gcpkms://") else []
    target = replace(target, apis=tuple(apis))
    if target.pools:
        return google.STEPS, target
    if not (has_builds or target.permissions or target.secrets):
        return (), target
    without = () if target.permissions else ("permissions",)
    return [step for step in google.STEPS if step.name in _EVERY_PROJECT and step.name not in without], target


def _of_group(group: str, steps: Sequence[Step[Any]], target: Any) -> Iterator[Step[None]]:
    for step in steps:
        if (ask := step.ask) is not None:
            yield replace(step, name=f"{group}/{step.name}", ask=lambda _, ask=ask: ask(target))  # type: ignore[misc]


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


def _report(file: StackFile, answers: Sequence[Answer]) -> dict[str, Any]:
    """Return the answers as JSON. Nothing that looks like a secret remains."""
    results = {answer.finding.status for answer in answers}
    return {
        "file": file.name,
        "works": "fail" not in results and "pass" in results,
        "steps": [
            {
                "name": answer.step.name,
                "status": answer.finding.status,
                "got": redact(answer.finding.got),
                "expected": answer.step.expected,
                "fix": [redact(line) for line in _fix(answer)],
            }
            for answer in answers
        ],
    }


def _fix(answer: Answer) -> Sequence[str]:
    """Return what to do about a step: its own commands or, for a failure without any, its hint."""
    return answer.finding.fix or ((f"# {answer.step.otherwise}",) if answer.finding.status == "fail" else ())


def _show(report: dict[str, Any]) -> None:
    """Print a table of the steps; then got, expected and fix of those that did not pass."""
    steps = report["steps"]
    found = shortened(steps)
    print_table(
        ["step", "result", "found"],
        [(step["name"], step["status"], got) for step, got in zip(steps, found, strict=True)],
    )
    for step, got in zip(steps, found, strict=True):
        if not step["fix"] or got != step["got"]:
            continue
        click.echo(f"\n{step['name']}\n  got: {step['got']}\n  expected: {step['expected']}")
        for line in step["fix"]:  # not folded, so that it can be copied
            click.echo(f"  fix: {line}")
    counts = {status: sum(step["status"] == status for step in steps) for status in ("pass", "fail", "unknown")}
    click.echo(f"\n{report['file']}: " + ", ".join(f"{number} {status}" for status, number in counts.items()))
