"""`gpu-ci check FILE...`: print every problem of stack files, found with the checks of the Pulumi program."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import click
from gpu_catalog import Demand, solver, staleness
from gpu_catalog.errors import UnknownName

from gpu_ci import naming
from gpu_ci.cli import clock
from gpu_ci.cli.output import first_and_count, print_table
from gpu_ci.cli.stack_files import StackFile, for_each_file, report_of, siblings
from gpu_ci.errors import Problem, did_you_mean
from gpu_ci.github import plans
from gpu_ci.stack import quotas
from gpu_ci.stack.clusters import CLUSTERS
from gpu_ci.stack.pools import POOLS, images
from gpu_ci.stack.site import SITE
from gpu_ci.stack.teams import TEAMS
from gpu_ci.stack.warnings import GROUP, other_projects, overlapping, stack_warnings


def run(names: tuple[str, ...], as_json: bool) -> None:
    """Print every problem. Exits with 1 if a file has one."""

    def check_file(file: StackFile) -> tuple[StackFile, list[Problem], list[str]]:
        found = problems(file)
        return file, found, warnings(file, found)

    for_each_file(names, check_file, show, document, as_json, lambda result: bool(result[1]))


def problems(file: StackFile) -> list[Problem]:
    """Return every problem that the Pulumi program finds in the file, and that the solver finds with its pools."""
    wrong = file.problems
    for demand in quotas.demands(file.pools):
        answer = solver.check(
            demand.machine, market=demand.market, zone=demand.region, boot_disk=demand.boot_disk or None
        )
        if isinstance(answer, solver.Refused):
            path = f"{POOLS}.{demand.pool}"
            wrong += [Problem(path, each.text, hint=each.hint and f"{each.hint} works") for each in answer.problems]
    # An environment may have the missing value.
    return [each for each in wrong if each.rule != "missing" or not file.environments]


def _old_software(file: StackFile) -> Iterator[staleness.Stale]:
    """Yield the images, driver branches and AMI types whose support has ended or ends soon."""
    today, pools = clock.today(), file.values[POOLS]
    for image in images(file.pools):
        yield from staleness.image(image, today)
    for pool in filter(None, map(_mapping, pools.values())) if isinstance(pools, Mapping) else ():
        if isinstance(branch := _mapping(pool.get("driver")).get("branch"), int):
            yield from (each for each in staleness.driver_branch(branch, today) if each.state != "unknown")
        with suppress(UnknownName):  # a problem of the file
            yield from staleness.ami_type(str(pool["amiType"]), today) if "amiType" in pool else ()


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def warnings(file: StackFile, wrong: Collection[Problem] = ()) -> list[str]:
    """Return the notes on a file: findings that do not prevent a deployment, and that none of its problems reports."""
    neighbours = siblings(file.path)
    others = other_projects(file.pools, file.project, ("image", "reservation")) if file.project else []
    return [
        *map(str, _old_software(file)),
        *file.quotas.warnings,
        *others,
        *(text for name, args in file.pools for text in args.prerequisites(f"{POOLS}.{name}")),
        *stack_warnings(file, {problem.path for problem in wrong}),
        *plans.notes(file.values[plans.KEY], file.at(plans.PLAN)),
        *(text for other in neighbours for text in [*_same_labels(file, other), *_same_clusters(file, other)]),
        *_unmanaged_clusters(file, neighbours),
        *_teams_without_effect(file),
    ]


def _same_labels(file: StackFile, other: StackFile) -> Iterator[str]:
    """Yield a note on each pool whose jobs also match a pool of another stack, for the same repositories."""
    shared = ", ".join(sorted(_repositories(file) & _repositories(other)))
    for name, other_name, labels in overlapping(file.pools, other.pools) if shared else ():
        yield (
            f"{POOLS}.{name}: jobs of {shared} for {labels} also match the runners of the pool {other_name} of "
            f"{other.name}, and GitHub may run them there; hint: give {name} a label that {other_name} lacks, or "
            "another name if its kind has no runnerLabels"
        )


def _same_clusters(file: StackFile, other: StackFile) -> Iterator[str]:
    """Yield a note on each setting that does not work with another stack on the same cluster."""
    for name in file.clusters_shared_with(other):
        own_pools, other_pools = file.pools_on(name), other.pools_on(name)
        if not own_pools or not other_pools:
            continue  # a stack without a pool creates nothing on the cluster
        path, page = f"{CLUSTERS}.{name}", "(docs/guides/eks.md#two-stacks-on-one-cluster)"
        own, others = file.values[CLUSTERS][name], other.values[CLUSTERS][name]
        if own.get("managed", True) and others.get("managed", True):
            text = f"{other.name} creates the controller and the other shared resources of this cluster too, and the"
            yield f"{path}.managed: {text} second `up` fails; hint: managed: false in all stacks except one {page}"
        if own.get("namespace", "gpu-ci") == others.get("namespace", "gpu-ci"):
            text = f"{other.name} creates this namespace on the cluster too, and the second `up` fails"
            yield f"{path}.namespace: {text}; hint: such as namespace: {naming.fit(f'gpu-ci-{file.stack}', 63)} {page}"
        for key in ("controller", "kueue"):
            if own.get(key) != others.get(key):
                yield f"{path}.{key}: differs from {other.name}; hint: the same settings in all stacks {page}"
        for pool in sorted(own_pools.keys() & other_pools.keys()):
            text = f"{other.name} has a pool of this name on the same cluster, so runners of one can start on nodes of"
            yield f"{POOLS}.{pool}: {text} the other; hint: another name in one of the two {page}"


def _unmanaged_clusters(file: StackFile, others: Sequence[StackFile]) -> Iterator[str]:
    """Yield a note on each cluster of several stacks, none of which creates the controller."""
    users: dict[str, list[StackFile]] = {}
    for other in others if file.pools else ():
        for name in file.clusters_shared_with(other):
            users.setdefault(name, []).append(other)
    for name, sharing in users.items():
        if not any(each.values[CLUSTERS][name].get("managed", True) for each in (file, *sharing)):
            text = "no stack of this folder creates the controller and the other shared resources of this cluster"
            yield f"{CLUSTERS}.{name}.managed: {text}; hint: managed: true in the stack that is deployed first"


def _teams_without_effect(file: StackFile) -> Iterator[str]:
    """Yield a note on each repository of a team that cannot use the runners, and on budgets that count nothing."""
    allowed = file.at(f"{GROUP}.repositories")
    names = {str(each).lower() for each in allowed} if isinstance(allowed, list) else None
    for team, args in file.teams.items():
        unknown = [each for each in args.repositories if names is not None and each.lower() not in names]
        for each in unknown:
            hint = did_you_mean(each, map(str, allowed)) or f"add it to {GROUP}.repositories"
            yield f"{TEAMS}.{team}.repositories: {each} cannot use the runners of this stack; hint: {hint}"
    if any(args.usd_per_month for args in file.teams.values()) and not any(
        args.REGISTERED_BY == "machines" for _, args in file.pools
    ):
        yield f"{TEAMS}: no pool has machines of the runner manager, which counts the budgets, so they stop nothing"


def _repositories(file: StackFile) -> set[str]:
    """Return the repositories that may use the runners of a stack, with their owner."""
    owner, names = file.at(f"{SITE}.github.owner"), file.at(f"{GROUP}.repositories")
    return {f"{owner}/{name}" for name in names} if owner and isinstance(names, list) else set()


def show(file: StackFile, wrong: list[Problem], notes: list[str]) -> None:
    """Print the problems of a file, or a table of its pools if there are no problems. Then print the notes."""
    if wrong:
        click.echo(report_of(file, wrong))
    else:
        pipelines = f", {_count(len(file.pipelines), 'image pipeline')}" if file.pipelines else ""
        click.echo(f"{file.name}: {_count(len(file.pools), 'pool')}{pipelines}, no problem found")
        types = {name: args.alternatives for name, args in file.pools}
        rows: list[tuple[str, ...]] = [
            (each.pool, _machine(each, types[each.pool]), each.market, each.region, str(each.max_machines))
            for each in quotas.demands(file.pools)
        ]
        rows += [(each.pool, each.machine_type, "", each.region, "") for each in quotas.cost_of(file.pools).metered]
        click.echo("")
        print_table(["pool", "machine", "market", "region", "max"], rows, right="max")
    for text in notes:
        click.echo(f"{file.name}: note: {text}")
    if unchecked := _unchecked(file, wrong):
        click.echo(f"{file.name}: not checked here: {', '.join(unchecked)}")


def _unchecked(file: StackFile, wrong: list[Problem]) -> list[str]:
    """Return the keys that this command does not check, except those with a problem, such as a secret in plain text."""
    return [
        key
        for key in file.unchecked
        if not any(each.path == key or each.path.startswith((f"{key}.", f"{key}[")) for each in wrong)
    ]


def _machine(demand: Demand, types: Sequence[str]) -> str:
    """Return the machine of a pool: with several instance types, the first of them, as in `gpu-ci status`."""
    return f"{demand.machine.cloud}/{first_and_count(types)}" if types else demand.machine.key


def _problem(file: StackFile, problem: Problem) -> dict[str, Any]:
    found = {**asdict(problem), "line": file.line_of(problem.path)}
    return {name: value for name, value in found.items() if value}


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def document(file: StackFile, wrong: list[Problem], notes: list[str]) -> dict[str, Any]:
    return {
        "file": file.name,
        "works": not wrong,
        "pools": [name for name, _ in file.pools],
        "problems": [_problem(file, each) for each in wrong],
        "notes": notes,
        "unchecked": _unchecked(file, wrong),
    }
