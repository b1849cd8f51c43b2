"""The choices of a call of `gpu-ci init`, and every mistake in them. Each mistake names its option."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gpu_catalog
from gpu_catalog import Machine

from gpu_ci.cli.check import stacks
from gpu_ci.cli.init import additions, registered_apps, runner_size
from gpu_ci.cli.init import repository as files
from gpu_ci.cli.init.mistakes import mistakes
from gpu_ci.cli.init.repository import ON_GKE, Cluster, ClusterField, Pool, Repository, kind_of
from gpu_ci.cli.new_files import PULUMI_NAME
from gpu_ci.cli.stack_files import parse
from gpu_ci.errors import Problem
from gpu_ci.stack.clusters import CLUSTERS
from gpu_ci.stack.pools import POOLS
from gpu_ci.validation_errors import join

DEFAULT_POOL = "l4=g2-standard-8:spot"
EXAMPLES: dict[str, Any] = {
    "project": "acme-ci",
    "organization": "acme",
    "repositories": ("kernels",),
    "cluster": "ci",
    "gke_cluster": "gpu",
    "location": "us-central1",
    "subnets": ("us-east-1a=subnet-0a1b2c3d4e5f60001",),
    "runner_image": f"ghcr.io/acme/runner@sha256:{'0' * 64}",
}
"""A valid value of each option that may be required."""
OPTIONS = {
    "pools": "--pool",
    "project": "--project",
    "organization": "--organization",
    "repositories": "--repository",
    "cluster": "--cluster",
    "gke_cluster": "--gke-cluster",
    "location": "--location",
    "subnets": "--subnet",
    "runner_image": "--runner-image",
}


@dataclass(frozen=True)
class ClusterOptions:
    """The options for pools of one kind, which are on an existing cluster."""

    name: str
    """The option with the name of the cluster."""
    others: tuple[str, ...]
    unused: str
    """The problem with such an option if no pool is of the kind."""
    hint: str


ON_CLUSTERS: dict[str, ClusterOptions] = {
    "eks-runners": ClusterOptions(
        "cluster",
        ("subnets", "runner_image"),
        "is for pools on EKS, and no --pool has an AWS instance type",
        "add a --pool such as a10g=g5.2xlarge:spot, or leave the option out",
    ),
    ON_GKE: ClusterOptions(
        "gke_cluster",
        ("location", "runner_image"),
        "is for pools on GKE, and there are none",
        "give --gke-cluster and a --pool such as l4=g2-standard-8:spot, or leave the option out",
    ),
}
"""By kind of pool."""

_FILE_OF_STACK = re.compile(r"Pulumi\.(.+)\.ya?ml")
_PLACEHOLDER = re.compile(r"(?<=[/@])(OWNER|COMMIT)(?=[/@]|$)")
_POOL = re.compile(r"(?P<name>[^=]+)=(?P<machine>[^:=]+)(:(?P<market>[a-z-]+))?")
_POOL_FORM = f"NAME=MACHINE_TYPE or NAME=MACHINE_TYPE:MARKET, such as {DEFAULT_POOL}"
_SUBNET = re.compile(r"(?P<zone>[^=]+)=(?P<id>[^=]+)")
_ZONE = re.compile(r"(?P<region>[a-z]+-[a-z]+[0-9]+)-[a-z]")
# The option that sets a path of the stack file. The first match counts. `_name_option` knows the names of clusters.
_OPTION_OF_PATH = (
    (r"^gcp:project$|\.privateKey$", "--project"),
    (r"^gpu-ci:site\.github\.owner", "--organization"),
    (r"^gpu-ci:github\.runnerGroup\.repositories", "--repository"),
    (r"^gpu-ci:site\.networks", "--region"),
    (r"^gpu-ci:clusters\..*\.(subnets|region)", "--subnet"),
    (r"^gpu-ci:clusters\..*\.location", "--location"),
    (r"^gpu-ci:pools\..*\.runner\.image", "--runner-image"),
)


def repository(folder: Path, given: Mapping[str, Any]) -> Repository:
    """Return the choices as a repository. Raise InputError with every missing or wrong option."""
    chosen, wrong = _checked(folder, given)
    if wrong:
        raise mistakes({"gpu-ci init": wrong})
    return chosen


def problems(folder: Path, given: Mapping[str, Any]) -> Sequence[Problem]:
    """Return every missing or wrong option. The path of a problem is the option."""
    return _checked(folder, given)[1]


def _checked(folder: Path, given: Mapping[str, Any]) -> tuple[Repository, list[Problem]]:
    chosen, wrong = _read(folder, given)
    if not wrong:
        return chosen, _stack_problems(folder, chosen)
    reported = {problem.path for problem in wrong}
    if "--stack" in reported:
        return chosen, wrong
    # The stack file of wrong options has more problems: those of the same options, and of what depends on them.
    reported |= {"--pool"} if reported & {"--region", "--location"} else set()
    others = [problem for problem in _stack_problems(folder, chosen) if problem.path not in reported]
    return chosen, wrong + [problem for problem in others if problem.path.startswith("--")]


def kinds_of(pools: Sequence[str], on_gke: bool) -> set[str]:
    """Return the kinds of the pools whose machine type exists."""
    found = [_pool_fields(text, []) for text in pools]
    return {kind_of(machine, on_gke) for _, machine, _ in filter(None, found)}


def needed(kinds: Collection[str], organization: str) -> dict[str, bool]:
    """Return whether each option that may be required is required for pools of these kinds."""
    used = [options for kind, options in ON_CLUSTERS.items() if kind in kinds]
    return {
        "project": bool(organization or kinds),
        "organization": bool(used),
        "repositories": bool(organization or used),
        **{name: any(name in _names(options) for options in used) for name in FOR_CLUSTERS},
    }


def _names(options: ClusterOptions) -> tuple[str, ...]:
    return (options.name, *options.others)


FOR_CLUSTERS = tuple(dict.fromkeys(name for options in ON_CLUSTERS.values() for name in _names(options)))
"""The options that only pools on clusters have."""


def _read(folder: Path, given: Mapping[str, Any]) -> tuple[Repository, list[Problem]]:
    """Return the choices, and the mistakes that can be found without the stack file."""
    wrong: list[Problem] = []
    pools = _pools(given, wrong)
    subnets = _subnets(given["subnets"], wrong)
    kinds = {pool.kind for pool in pools}
    organization = given["organization"]
    for name, is_needed in needed(kinds, organization).items():
        option = OPTIONS[name]
        if is_needed and not given[name]:
            wrong.append(Problem(option, "is missing", hint=f"such as {option} {_example(name)}"))
        elif name in FOR_CLUSTERS and given[name] and pools and not is_needed:
            wrong.append(_unused(name))
    if given["repositories"] and not organization and not kinds & ON_CLUSTERS.keys():
        hint = "such as --organization acme"
        wrong.append(Problem("--repository", "is for an organization, and --organization is missing", hint=hint))
    for option, value in (("--stack", given["stack"]), ("FOLDER", folder.resolve().name)):
        if not PULUMI_NAME.fullmatch(value):
            expected = "1 to 100 letters, digits, '-', '_' and '.'"
            wrong.append(Problem(option, "is not a name that Pulumi accepts", repr(value), expected))
    if match := _FILE_OF_STACK.fullmatch(given["stack"]):
        wrong.append(Problem("--stack", "is a file, not a stack", given["stack"], hint=f"did you mean {match[1]}?"))
    if placeholder := _PLACEHOLDER.search(given["package"]):
        hint = "give the owner of your copy of gpu-ci, and the full SHA of a commit"
        wrong.append(Problem("--package", f"has the placeholder {placeholder[0]}", given["package"], hint=hint))
    aws_regions = sorted({gpu_catalog.region_of(zone) for zone in subnets})
    if len(aws_regions) > 1:
        wrong.append(
            Problem("--subnet", "has zones of several regions", ", ".join(aws_regions), "zones of the cluster's region")
        )
    clusters = [_cluster(kind, given, aws_regions, subnets) for kind in ON_CLUSTERS if kind in kinds]
    if given["cluster"] == given["gke_cluster"] and len(clusters) > 1:
        text = "has the name of the EKS cluster, and the clusters of a stack file have different names"
        wrong.append(Problem("--gke-cluster", text, given["gke_cluster"], hint="create a stack for each cluster"))
        del clusters[1:]
    chosen = Repository(
        name=folder.resolve().name,
        stack=given["stack"],
        pools=pools,
        requirement=files.requirement(pools, organization, given["package"] or _address_in(folder)),
        project=given["project"],
        region=given["region"],
        organization=organization,
        repositories=given["repositories"],
        clusters=clusters,
        aws_region=aws_regions[0] if aws_regions else "",
        runner_image=given["runner_image"],
        registered=registered_apps.find(folder, given["project"], organization) if organization else {},
    )
    return chosen, wrong


def _address_in(folder: Path) -> str:
    """Return the address from which the repository in the folder already installs gpu-ci, or ""."""
    try:
        return additions.address_of((folder / "requirements.txt").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        # `existing.states` reports a file that cannot be read.
        return ""


def _unused(name: str) -> Problem:
    """Return the problem with an option for pools on clusters that no pool needs."""
    first, *others = [each for each in ON_CLUSTERS.values() if name in _names(each)]
    if others:
        hint = "name a cluster with --cluster or --gke-cluster, or leave the option out"
        return Problem(OPTIONS[name], "is for pools on clusters, and there are none", hint=hint)
    return Problem(OPTIONS[name], first.unused, hint=first.hint)


def _cluster(kind: str, given: Mapping[str, Any], regions: Sequence[str], subnets: Mapping[str, str]) -> Cluster:
    """Return the cluster of pools of a kind, with the fields that the stack file needs."""
    fields = {
        "eks-runners": [
            ClusterField("region", regions[0] if regions else ""),
            ClusterField("subnets", subnets, "A private subnet for each zone in which nodes may start."),
        ],
        ON_GKE: [
            ClusterField("kind", "gke"),
            ClusterField("location", given["location"], "The region of the cluster, or its zone if it is zonal."),
        ],
    }
    return Cluster(given[ON_CLUSTERS[kind].name], kind, fields[kind])


def _pools(given: Mapping[str, Any], wrong: list[Problem]) -> list[Pool]:
    """Return the pools of --pool. Append mistakes to `wrong`."""
    pools: list[Pool] = []
    names: list[str] = []
    for text in given["pools"] or (DEFAULT_POOL,):
        fields = _pool_fields(text, wrong)
        if not fields:
            continue
        name, machine, market = fields
        names.append(name)
        if name in names[:-1]:
            continue
        kind = kind_of(machine, bool(given["gke_cluster"]))
        zones = _zones(machine, kind, given, wrong) if machine.cloud == "gcp" else ()
        cluster = given[ON_CLUSTERS[kind].name] if kind in ON_CLUSTERS else ""
        size = runner_size.of(kind, machine) if kind in ON_CLUSTERS else {}
        pools.append(Pool(name, machine, market, kind, zones, cluster, size))
    wrong += _duplicates("--pool", "name", names)
    return pools


def _duplicates(option: str, noun: str, values: Sequence[str]) -> list[Problem]:
    """Return a problem for each value that is given more than once."""
    counts = Counter(values)
    return [
        Problem(option, f"has the {noun} {value} {count} times", expected=f"a different {noun} each time")
        for value, count in counts.items()
        if count > 1
    ]


def _pool_fields(text: str, wrong: list[Problem]) -> tuple[str, Machine, str] | None:
    """Return name, machine and market of --pool, or None after a mistake, which is appended to `wrong`."""
    found = _POOL.fullmatch(text)
    if not found:
        wrong.append(Problem("--pool", "has a form that is not accepted", repr(text), _POOL_FORM))
        return None
    try:
        machine = gpu_catalog.machine(found["machine"])
        return found["name"], machine, gpu_catalog.market(found["market"] or "standard")
    except LookupError as error:
        problem, _, hint = str(error).partition("; ")
        wrong.append(Problem("--pool", problem, repr(text), _POOL_FORM, hint))
        return None


def _zones(machine: Machine, kind: str, given: Mapping[str, Any], wrong: list[Problem]) -> tuple[str, ...]:
    """Return the zones with the machine, of the region or of the region of the cluster. Append mistakes to `wrong`."""
    option, region = "--region", given["region"]
    if kind == ON_GKE:
        option, region = "--location", given["location"]
        region = zone["region"] if (zone := _ZONE.fullmatch(region)) else region
        if not region:
            return ()  # reported as missing
    if region and (zones := gpu_catalog.zones(machine, region)):
        return tuple(zones)
    if not region:
        problem = Problem(option, "is missing", hint=f"such as {option} us-central1")
    elif zone := _ZONE.fullmatch(region):
        problem = Problem(option, "is a zone", repr(region), "a region", f"{option} {zone['region']}")
    else:
        regions = sorted({gpu_catalog.region_of(each) for each in machine.zones})
        text = f"{region} has no {machine.machine_type}"
        problem = Problem(option, text, expected=f"one of {', '.join(regions)}")
    if problem not in wrong:
        wrong.append(problem)
    return ()


def _subnets(given: Sequence[str], wrong: list[Problem]) -> dict[str, str]:
    """Return the subnets of --subnet by zone. Append mistakes to `wrong`."""
    found = [(text, _SUBNET.fullmatch(text)) for text in given]
    example = _example("subnets")
    wrong += [
        Problem("--subnet", "has a form that is not accepted", repr(text), f"ZONE=ID, such as {example}")
        for text, pair in found
        if not pair
    ]
    pairs = [(pair["zone"], pair["id"]) for _, pair in found if pair]
    wrong += _duplicates("--subnet", "zone", [zone for zone, _ in pairs])
    return dict(pairs)


def _stack_problems(folder: Path, chosen: Repository) -> list[Problem]:
    """Return the problems of the new stack file. The path of each is the option that set the value."""
    path, text = next((path, text) for path, text in chosen.files() if path == chosen.stack_file)
    found = stacks.problems(parse(folder / path, text))
    if any(problem.path == "gcp:project" for problem in found):  # the addresses of the keys have the project too
        found = [problem for problem in found if not problem.path.endswith(".privateKey")]
    return [_of_option(problem, chosen) for problem in found]


def _of_option(problem: Problem, chosen: Repository) -> Problem:
    """Return a problem of the stack file as a problem of the option that sets its value, with the option's example."""
    option = next((option for form, option in _OPTION_OF_PATH if re.search(form, problem.path)), "")
    option = option or _name_option(problem.path, chosen) or problem.path
    example = next((_example(name) for name, each in OPTIONS.items() if each == option and name in EXAMPLES), "")
    if option == "--pool" and problem.text.startswith("is missing"):  # a field that no option sets
        text = f"{problem.path.rpartition('.')[2]} {problem.text}"
        return replace(problem, path=option, text=text, hint="leave the pool out, and add it to the stack file by hand")
    in_the_file = problem.hint.startswith(("such as ", "pulumi config set"))
    hint = (f"such as {option} {example}" if example else "") if in_the_file else problem.hint
    return replace(problem, path=option, hint=hint)


def _name_option(path: str, chosen: Repository) -> str:
    """Return the option that sets the name of the pool or cluster at a path, or an empty text."""
    options = {join(CLUSTERS, each.name): OPTIONS[ON_CLUSTERS[each.kind].name] for each in chosen.clusters}
    options |= {
        f"{join(POOLS, pool.name)}.clusterName": OPTIONS[ON_CLUSTERS[pool.kind].name]
        for pool in chosen.pools
        if pool.on_cluster
    }
    named = next((option for start, option in options.items() if path == start or path.startswith(f"{start}.")), "")
    return named or ("--pool" if path.startswith(POOLS) else "")


def _example(name: str) -> str:
    """Return the example of an option, or the first of several."""
    example = EXAMPLES[name]
    return example if isinstance(example, str) else str(example[0])
