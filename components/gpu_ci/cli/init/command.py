"""`gpu-ci init`: reads the options, and writes the files of a new repository that deploys pools."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import click
import gpu_catalog
from gpu_catalog import MARKETS, Machine

from gpu_ci.cli import new_files
from gpu_ci.cli.check import stacks
from gpu_ci.cli.init.repository import (
    ADMIN_APP,
    MANAGER_APP,
    RUNNER_APP,
    Pool,
    Repository,
    requirement,
)
from gpu_ci.cli.new_files import PULUMI_NAME, mistakes
from gpu_ci.cli.stack_files import StackFile, parse, siblings
from gpu_ci.errors import Problem, in_yaml
from gpu_ci.gcp.machine.args import GuestAccelerator
from gpu_ci.kinds import ComponentInfo, catalog, kind_for
from gpu_ci.stack.clusters import CLUSTERS
from gpu_ci.stack.pools import POOLS
from gpu_ci.stack.site import SITE

DEFAULT_POOL = "l4=g2-standard-8:spot"


@dataclass(frozen=True)
class Option:
    """An option that some pools need: its name, and a valid value."""

    flag: str
    example: str


OPTIONS = {
    "cluster": Option("--cluster", "ci"),
    "subnets": Option("--subnet", "us-east-1a=subnet-0a1b2c3d4e5f60001"),
    "gke_cluster": Option("--gke-cluster", "gpu"),
    "location": Option("--location", "us-central1"),
    "runner_image": Option("--runner-image", f"ghcr.io/acme/runner@sha256:{'0' * 64}"),
    "organization": Option("--organization", "acme"),
    "repositories": Option("--repository", "kernels"),
    "project": Option("--project", "acme-ci"),
    "aws_account": Option("--aws-account", "111122223333"),
}
"""The options that pools of some kinds require."""
_CLUSTERS = {"eks": "cluster", "gke": "gke_cluster"}
"""The option with the name of the cluster, by its kind."""
_OF_ORGANIZATION = ("repositories", "project")
_AS_GIVEN = (
    "stack", "project", "aws_account", "region", "organization", "plan", "repositories", "location", "runner_image",
)  # fmt: skip
# docs/guides/github.md has the fields of an App.
_APP_FIELDS = {"id": int, "installationId": int, "privateKey": str}

_TORCH = "python3 -m venv .venv-torch && .venv-torch/bin/pip install torch numpy"
_FILE_OF_STACK = re.compile(r"Pulumi\.(.+)\.ya?ml")
_PLACEHOLDER = re.compile(r"(?<=[/@])(OWNER|COMMIT)(?=[/@]|$)")
_POOL = re.compile(r"(?P<name>[^=]+)=(?P<machine>[^:=]+)(:(?P<market>[a-z-]+))?")
_POOL_FORM = f"NAME=MACHINE_TYPE or NAME=MACHINE_TYPE:MARKET, such as {DEFAULT_POOL}"
_ACCOUNT = re.compile(r"[0-9]{12}")
_SUBNET = re.compile(r"(?P<zone>[^=]+)=(?P<id>[^=]+)")
_ZONE = re.compile(r"(?P<region>[a-z]+-[a-z]+[0-9]+)-[a-z]")


@click.command("init")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=".")
@click.option("--stack", default="dev", show_default=True, help="The stack's name, as in Pulumi.<stack>.yaml.")
@click.option("--pool", "pools", multiple=True, metavar="NAME=MACHINE[:MARKET]",
              help=f"A pool. Repeat for more pools. MARKET is one of {', '.join(MARKETS)}.")  # fmt: skip
@click.option("--project", default="", help="The id of the Google Cloud project.")
@click.option(
    "--aws-account",
    default="",
    help="The AWS account that keeps the keys of the GitHub Apps. Pools on AWS alone then need no --project.",
)
@click.option("--region", default="us-central1", show_default=True, help="The region of the Compute Engine pools.")
@click.option("--organization", default="", help="The GitHub organization whose jobs the pools run.")
@click.option("--plan", type=click.Choice(["free", "team", "enterprise"]), metavar="PLAN",
              help="The organization's GitHub plan: free, team or enterprise.")  # fmt: skip
@click.option("--repository", "repositories", multiple=True, help="A repository that can use the pools. Repeatable.")
@click.option("--cluster", default="", help="The name of an existing EKS cluster.")
@click.option("--subnet", "subnets", multiple=True, metavar="ZONE=ID",
              help="A private subnet of the EKS cluster, or for machines on EC2. Repeat for more zones.")  # fmt: skip
@click.option("--gke-cluster", default="", help="The name of an existing GKE cluster for the Google machine types.")
@click.option("--location", default="", help="The region of the GKE cluster, or its zone if it is zonal.")
@click.option("--runner-image", default="", help="The image in which jobs on clusters run, with its digest.")
@click.option(
    "--package",
    default="",
    help="Where pip finds gpu-ci. By default: where this gpu-ci came from. A commit at GitHub adds workflows.",
)
@click.option("--write", is_flag=True, help="Write the files. Without it, only print them.")
@click.option("--json", "as_json", is_flag=True, help="Print the files and the next steps as JSON.")
def command(folder: Path, write: bool, as_json: bool, **given: Any) -> None:
    """Write the files of a new repository that deploys pools. Existing files are never changed.

    Without --write, the command prints the files and writes nothing. It sends no request, and needs no credentials.

    The machine type decides the kind of the pool: EC2 for an AWS one, or EKS with --cluster; Compute Engine for a
    Google one, or GKE with --gke-cluster. Run the command again with another --stack to add a stack, or with --package
    and the same options to add workflows. It then prints the lines that the existing files lack.

    \b
    Examples:
      gpu-ci init --project acme-ci --pool l4=g2-standard-8:spot
      gpu-ci init --project acme-ci --pool l4=g2-standard-8 --organization acme --repository kernels --write
      gpu-ci init --aws-account 111122223333 --organization acme --repository kernels --pool a10g=g5.xlarge \\
        --subnet us-east-1a=subnet-0a1b2c3d4e5f60001
      gpu-ci init --aws-account 111122223333 --organization acme --repository kernels --pool a10g=g5.xlarge \\
        --cluster ci --subnet us-east-1a=subnet-0a1b2c3d4e5f60001 --runner-image ghcr.io/acme/runner@sha256:...
      gpu-ci init --project acme-ci --organization acme --repository kernels --pool l4=g2-standard-8 \\
        --gke-cluster gpu --location us-central1 --runner-image ghcr.io/acme/runner@sha256:...
    """
    chosen = repository(folder, given)
    files = chosen.files()
    # With --package, the command adds the workflows of a stack that exists.
    states = new_files.states(folder, files, "" if given["package"] else chosen.stack_file)
    steps = partial(_next_steps, folder, chosen, states)
    new_files.offer(folder, files, states, steps, write=write, as_json=as_json)


def _next_steps(folder: Path, chosen: Repository, states: Mapping[str, new_files.State]) -> Sequence[str]:
    """Return what is left to do, in order. `states` are those of the files before anything was written."""
    create = f".venv/bin/gpu-ci github-app create {chosen.stack_file}"
    if chosen.new_apps != chosen.apps:
        create += "".join(f" --only {app.key}" for app in chosen.new_apps)
    new = " and ".join(app.key for app in chosen.new_apps)
    app_steps = [f"{create}   (creates {new} at GitHub)"] if new else []
    no_jobs = (
        f"add gpu-ci:site.github to {chosen.stack_file}, or delete the file and run init again with --organization and "
        "--repository   (until then, no job can reach the pools)"
    )
    runs_jobs = bool(chosen.machines and chosen.organization)
    manager = "run the manager, which starts machines for jobs   (docs/guides/runner-manager-setup.md)"
    entry = (
        "give the identity that runs pulumi up an access entry of the EKS cluster   (docs/guides/eks.md#credentials)"
    )
    local, image = "@ file:" in chosen.requirement, chosen.runner_image.endswith("0" * 64)
    create_venv = "" if (folder / ".venv").exists() else "python3 -m venv .venv && "
    installed = (folder / ".venv/bin/gpu-ci").exists() and not states["requirements.txt"].needs_change
    install = [] if installed else [f"{create_venv}.venv/bin/pip install -r requirements.txt   (takes minutes)"]
    if not states[chosen.stack_file].is_new:
        return [*install, *_github_steps(folder, chosen)]
    has_torch = (folder / ".venv-torch").exists()
    return [
        *install,
        f".venv/bin/pulumi-sandbox preview --stack {chosen.stack} --suppress-outputs   (needs no account)",
        *([] if has_torch else [f"{_TORCH}   (for the smoke check in the sandbox; 5 GB)"]),
        f".venv/bin/pulumi-sandbox up --stack {chosen.stack} --yes --suppress-outputs   (deploys in the sandbox)",
        *([f".venv/bin/gpu-ci job --stack {chosen.stack}   (runs a job in the sandbox)"] if runs_jobs else []),
        *_state_steps(chosen),
        *(app_steps if chosen.apps else [no_jobs]),
        *(["replace the address in requirements.txt before you commit it: it is on this computer"] if local else []),
        *([f"replace the digest of runner.image in {chosen.stack_file}: it is a placeholder"] if image else []),
        *([entry] if "eks" in chosen.clusters else []),
        f".venv/bin/gpu-ci doctor {chosen.stack_file}   (checks your accounts, and prints how to fix each failure)",
        f"pulumi up --stack {chosen.stack}   (creates the resources in your accounts; needs the Pulumi CLI on PATH)",
        *([manager] if runs_jobs else []),
        *_github_steps(folder, chosen),
    ]


def _state_steps(chosen: Repository) -> Sequence[str]:
    """Return the steps that prepare the account, and create the stack in its bucket, as docs/start/bootstrap.md."""
    if chosen.project:
        creates = "APIs, state, key and identities"
        backend = f"gs://{chosen.project}-pulumi-state"
        key = f"projects/{chosen.project}/locations/{chosen.region}/keyRings/pulumi/cryptoKeys/pulumi-secrets"
        provider = f"gcpkms://{key}"
    elif chosen.aws_account:
        from gpu_ci.aws.resource_names import secrets_provider, state_backend, state_bucket

        creates = "state, key and roles"
        backend = state_backend(state_bucket(chosen.aws_account), chosen.aws_region)
        provider = secrets_provider(chosen.aws_region)
    else:
        return [f"pulumi login, and pulumi stack init {chosen.stack}   (where the state is stored)"]
    create = f"pulumi stack init {chosen.stack} --secrets-provider {shlex.quote(provider)}"
    return [
        f"deploy bootstrap/ of gpu-ci   (creates {creates}: docs/start/bootstrap.md)",
        f"pulumi login {shlex.quote(backend)}",
        f"{create}   (once; the workflows do not create it)",
    ]


def _github_steps(folder: Path, chosen: Repository) -> Sequence[str]:
    """Return what the workflows need at GitHub."""
    if not chosen.actions:
        text = "to add workflows that preview and deploy, run init again with --package"
        return [f"{text} {new_files.ADDRESS} and the same options"]
    environment = f"create the environment {chosen.stack} at GitHub, with reviewers, for the branch main alone"
    variables = ", ".join(chosen.variables.values())
    name = chosen.actions["repository"]
    files = [file for file in folder.glob("Pulumi.*.yaml") if file.name != chosen.stack_file]
    others = sorted(file.stem.removeprefix("Pulumi.") for file in files)
    deployment = folder / ".github/workflows/deploy.yaml"
    deployed = deployment.read_text(encoding="utf-8") if deployment.is_file() else ""
    missing = [stack for stack in others if f"stack: {in_yaml(stack)}\n" not in deployed]
    add_jobs = f"add a job for {' and '.join(missing)} to deploy.yaml, as for {chosen.stack}"
    return [
        *([add_jobs] if missing else []),
        f"{environment}   (for deploy.yaml)",
        f"set the variables {variables} of the repository at GitHub   (bootstrap/ prints the commands)",
        f"if {name} is private, allow access under its Settings, Actions, General   (for all workflows)",
    ]


def repository(folder: Path, given: Mapping[str, Any]) -> Repository:
    """Return the repository that the options describe. Raise InputError with every missing or wrong option.

    The stack file is checked only if no option has a mistake, because most of its mistakes would follow from that one.
    """
    wrong: list[Problem] = []
    chosen = _read(folder, given, wrong)
    if wrong:
        raise mistakes({"gpu-ci init": wrong})
    text = chosen.files()[chosen.stack_file]
    wrong = stacks.problems(parse(folder / chosen.stack_file, text))
    # Other problems may follow from a missing package: without it, the fields of a pool are not known.
    if missing := sorted({each.text.removeprefix("needs ") for each in wrong if each.rule == "package-missing"}):
        install = f"pip install '{requirement(chosen.pools, chosen.organization, chosen.aws_account)}'"
        hint = f"run {install}, and then this command again"
        raise mistakes({"gpu-ci init": [Problem("", f"needs {' and '.join(missing)}", hint=hint)]})
    if wrong:
        raise mistakes({f"gpu-ci init: {chosen.stack_file}": wrong})
    return chosen


def _read(folder: Path, given: Mapping[str, Any], wrong: list[Problem]) -> Repository:
    """Return the repository. Append the mistakes that can be found without the stack file."""
    files = siblings(folder / f"Pulumi.{given['stack']}.yaml")
    owner = f"{SITE}.github.owner"
    others = [file for file in files if given["organization"] and file.at(owner) == given["organization"]]
    subnets = _subnets(given["subnets"], wrong)
    shared = _shared_clusters(given, subnets, files)
    pools = _pools(given, {name for file in others for name in file.values[POOLS] or ()}, shared, subnets, wrong)
    required = {name for pool in pools for name in pool.info.init_options}
    required |= {*_OF_ORGANIZATION} if given["organization"] else set()
    on_aws_alone = {pool.machine.cloud for pool in pools} == {"aws"}
    # Of the options that name where the keys are, a stack on AWS alone needs one, and others need --project.
    unneeded = "project" if on_aws_alone and not given["project"] else "aws_account"
    pools_known = not any(each.path == "--pool" for each in wrong)
    for name, option in OPTIONS.items() if pools_known else ():
        is_required = name != unneeded and name in required
        if is_required and not given[name]:
            wrong.append(Problem(option.flag, "is missing", hint=f"such as {option.flag} {option.example}"))
        elif given[name] and pools and not is_required and name not in ("organization", "project", "aws_account"):
            kinds = " and ".join(each.kind for each in catalog() if name in each.init_options)
            text = f"is for pools of kind {kinds}, and there are none"
            hint = "leave the option out, or give --pool, --gke-cluster or --organization"
            wrong.append(Problem(option.flag, text, hint=hint))
    if pools_known and given["aws_account"] and (given["project"] or not on_aws_alone):
        text = "is for stacks with pools on AWS alone, and replaces --project"
        wrong.append(Problem("--aws-account", text, given["aws_account"], hint="leave one of the two options out"))
    if given["aws_account"] and not _ACCOUNT.fullmatch(given["aws_account"]):
        example = OPTIONS["aws_account"].example
        text = "is not the number of an AWS account"
        wrong.append(Problem("--aws-account", text, repr(given["aws_account"]), "12 digits", f"such as {example}"))
    for flag, value in (("--stack", given["stack"]), ("FOLDER", folder.resolve().name)):
        if not PULUMI_NAME.fullmatch(value):
            expected = "1 to 100 letters, digits, '-', '_' and '.'"
            wrong.append(Problem(flag, "is not a name that Pulumi accepts", repr(value), expected))
    if match := _FILE_OF_STACK.fullmatch(given["stack"]):
        wrong.append(Problem("--stack", "is a file, not a stack", given["stack"], hint=f"did you mean {match[1]}?"))
    if placeholder := _PLACEHOLDER.search(given["package"]):
        hint = "give the owner of your copy of gpu-ci, and the full SHA of a commit"
        wrong.append(Problem("--package", f"has the placeholder {placeholder[0]}", given["package"], hint=hint))
    aws_regions = sorted({gpu_catalog.region_of(zone) for zone in subnets})
    if len(aws_regions) > 1:
        text, expected = "has zones of several regions", "zones of one region"
        wrong.append(Problem("--subnet", text, ", ".join(aws_regions), expected))
    used = {pool.on_cluster for pool in pools}
    clusters = {kind: given[option] for kind, option in _CLUSTERS.items() if kind in used}
    if len({*clusters.values()}) < len(clusters):
        text = "has the name of the EKS cluster, and the clusters of a stack file have different names"
        wrong.append(Problem("--gke-cluster", text, given["gke_cluster"], hint="create a stack for each cluster"))
    address = given["package"] or _address_in(folder)
    return Repository(
        name=folder.resolve().name,
        pools=pools,
        requirement=requirement(pools, given["organization"], given["aws_account"], address),
        clusters=clusters,
        shared=[*shared],
        subnets=subnets,
        aws_region=aws_regions[0] if aws_regions else "",
        registered=_registered_apps(file for file in others if _reads_keys_of(file, given)),
        **{name: given[name] for name in _AS_GIVEN},
    )


def _address_in(folder: Path) -> str:
    """Return the address from which the repository in the folder already installs gpu-ci, or ""."""
    try:
        return new_files.address_of((folder / "requirements.txt").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return ""  # `new_files.states` reports a file that cannot be read


def _shared_clusters(
    given: Mapping[str, Any], subnets: Mapping[str, str], others: Sequence[StackFile]
) -> dict[str, set[str]]:
    """Return the names of the pools on the clusters of this stack that another stack manages, by the cluster."""
    gke = {given["gke_cluster"]: {"kind": "gke", "location": given["location"]}}
    clusters = {given["cluster"]: {"subnets": subnets}, **gke}
    own = StackFile("", "", {"gcp:project": given["project"], CLUSTERS: clusters})
    found: dict[str, set[str]] = {}
    for other in others:
        for name in own.clusters_shared_with(other):
            is_managed = other.values[CLUSTERS][name].get("managed", True)
            if is_managed and (pools := {spec.name for spec in other.specs if spec.cluster == name}):
                found.setdefault(name, set()).update(pools)
    return found


def _reads_keys_of(file: StackFile, given: Mapping[str, Any]) -> bool:
    """Return True if the keys of the Apps of a stack file are in the given project, or in the given AWS account."""
    account = given["aws_account"]
    is_same_account = not account or f":{account}:" in str(file.at(f"{SITE}.github"))
    return file.project == given["project"] and is_same_account


def _registered_apps(files: Iterable[StackFile]) -> dict[str, Mapping[str, Any]]:
    """Return the fields of each App of stack files, by its key.

    An App with the numbers that `gpu-ci init` writes does not exist yet.
    """
    found: dict[str, Mapping[str, Any]] = {}
    for file in files:
        for app in (ADMIN_APP, RUNNER_APP, MANAGER_APP):
            own = file.at(f"{SITE}.github.{app.key}")
            fields = {name: own.get(name) for name in _APP_FIELDS} if isinstance(own, Mapping) else {}
            complete = fields and all(isinstance(fields[name], kind) for name, kind in _APP_FIELDS.items())
            if complete and fields["id"] != app.id:
                found.setdefault(app.key, fields)
    return found


def _pools(
    given: Mapping[str, Any],
    taken: Collection[str],
    shared: Mapping[str, Collection[str]],
    subnets: Mapping[str, str],
    wrong: list[Problem],
) -> list[Pool]:
    """Return the pools of --pool. Append mistakes to `wrong`.

    `taken` are the pools of the organization's other stacks, and `shared` those on the clusters of this stack.
    """
    found = [_pool_fields(text, wrong) for text in given["pools"] or (DEFAULT_POOL,)]
    fields = {each[0]: each for each in reversed(found) if each}
    wrong += _duplicates("--pool", "name", [each[0] for each in found if each])
    pools = []
    for name, machine, market in reversed(fields.values()):
        info = kind_for(machine.cloud, [kind for kind, option in _CLUSTERS.items() if given[option]])
        zones = _zones(machine, info, given, wrong) if machine.cloud == "gcp" else ()
        cluster = given[_CLUSTERS[info.on_cluster]] if info.on_cluster else ""
        other_name = f"{name}-{re.sub('[^a-z0-9-]', '-', given['stack'].lower())}"
        label = other_name if name in taken else ""
        if name in shared.get(cluster, ()):  # the labels of the nodes have the pool's name
            name, label = other_name, ""
        own = {} if cluster or machine.cloud == "gcp" else subnets
        pools.append(Pool(name, machine, market, info, zones, own, cluster, _runner_size(info, machine), label))
    return pools


def _duplicates(flag: str, noun: str, values: Sequence[str]) -> list[Problem]:
    """Return a problem for each value that is given more than once."""
    return [
        Problem(flag, f"has the {noun} {value} {count} times", expected=f"a different {noun} each time")
        for value, count in Counter(values).items()
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
        if not any(each.init_options and each.cloud == machine.cloud for each in catalog()):
            problem, hint = (
                f"gpu-ci init writes no pools of {machine.cloud}",
                "add the pool later (docs/reference/pools.md)",
            )
            wrong.append(Problem("--pool", problem, repr(text), _POOL_FORM, hint))
            return None
        return found["name"], machine, gpu_catalog.market(found["market"] or "standard")
    except LookupError as error:
        problem, _, hint = str(error).partition("; ")
        wrong.append(Problem("--pool", problem, repr(text), _POOL_FORM, hint))
        return None


def _zones(machine: Machine, info: ComponentInfo, given: Mapping[str, Any], wrong: list[Problem]) -> tuple[str, ...]:
    """Return the zones with the machine, of the region or of the region of the cluster. Append mistakes to `wrong`."""
    flag, region = "--region", given["region"]
    if "location" in info.init_options:
        flag, region = "--location", given["location"]
        region = zone["region"] if (zone := _ZONE.fullmatch(region)) else region
        if not region:
            return ()  # reported as missing
    if region and (zones := gpu_catalog.zones(machine, region)):
        return tuple(zone for zone in zones if zone not in machine.undated_zones) or zones
    if zone := _ZONE.fullmatch(region):
        problem = Problem(flag, "is a zone", repr(region), "a region", f"{flag} {zone['region']}")
    else:
        regions = sorted({gpu_catalog.region_of(each) for each in machine.zones})
        text = f"{region!r} has no {machine.machine_type}"
        problem = Problem(flag, text, expected=f"one of {', '.join(regions)}")
    if problem not in wrong:
        wrong.append(problem)
    return ()


def _subnets(given: Sequence[str], wrong: list[Problem]) -> dict[str, str]:
    """Return the subnets of --subnet by zone. Append mistakes to `wrong`."""
    found = [(text, _SUBNET.fullmatch(text)) for text in given]
    form = f"ZONE=ID, such as {OPTIONS['subnets'].example}"
    wrong += [
        Problem("--subnet", "has a form that is not accepted", repr(text), form) for text, pair in found if not pair
    ]
    wrong += _duplicates("--subnet", "zone", [pair["zone"] for _, pair in found if pair])
    return {pair["zone"]: pair["id"] for _, pair in found if pair}


def _runner_size(info: ComponentInfo, machine: Machine) -> dict[str, int]:
    """Return the fields `cpus` and `memoryGib` of a runner whose defaults do not fit on a node with this machine.

    Return nothing if the defaults fit, or if a package of the cloud is missing: the check of the stack file reports
    that.
    """
    if not info.on_cluster:
        return {}
    try:
        from gpu_ci.kubernetes.pool.args import RunnerPoolArgs
        from gpu_ci.kubernetes.scale_set.args import RunnerChoices

        args = cast(type[RunnerPoolArgs], info.load().ARGS)
    except ModuleNotFoundError:
        return {}
    fields: dict[str, Any] = {"instance_types": [machine.machine_type]}
    if machine.cloud == "gcp":
        attached = machine.attached and GuestAccelerator(type=machine.accelerator, count=machine.api_gpu_count)
        fields = {"machine_type": machine.machine_type, "guest_accelerator": attached or None}
    if (node := args.node_of(fields)) is None:
        return {}
    free = {"cpus": ("cpus", node.cpus), "memoryGib": ("memory_gib", node.memory_gib)}
    return {
        name: value for name, (field, value) in free.items() if 0 < value < RunnerChoices.model_fields[field].default
    }
