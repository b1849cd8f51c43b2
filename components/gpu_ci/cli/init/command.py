"""`gpu-ci init`: write the files of a new repository that deploys pools."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import gpu_catalog
from gpu_catalog import Machine

from gpu_ci.cli.check import stacks
from gpu_ci.cli.init import repository
from gpu_ci.cli.init.repository import Pool, Repository
from gpu_ci.cli.new_files import PULUMI_NAME, create, show, show_next_steps
from gpu_ci.cli.output import InputError, print_json, print_table
from gpu_ci.cli.stack_files import parse, problems_found

_POOL = re.compile(r"(?P<name>[^=]+)=(?P<machine>[^:=]+)(:(?P<market>[a-z-]+))?")
_FORM = "NAME=MACHINE_TYPE or NAME=MACHINE_TYPE:MARKET, such as l4=g2-standard-8:spot"


@click.command("init")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=".")
@click.option("--stack", default="dev", show_default=True, help="The stack's name, as in Pulumi.<stack>.yaml.")
@click.option("--pool", "pools", multiple=True, metavar="NAME=MACHINE[:MARKET]", help="A pool. Repeat for more pools.")
@click.option("--project", default="", help="The id of the Google Cloud project.")
@click.option("--region", default="us-central1", show_default=True, help="The region of the Compute Engine pools.")
@click.option("--organization", default="", help="The GitHub organization whose jobs the pools run.")
@click.option("--repository", "repositories", multiple=True, help="A repository that can use the pools. Repeatable.")
@click.option("--cluster", default="", help="The name of an existing EKS cluster.")
@click.option("--subnet", "subnets", multiple=True, metavar="ZONE=ID", help="A private subnet of the cluster.")
@click.option("--runner-image", default="", help="The image in which jobs on EKS run, with its digest.")
@click.option("--package", default="", help="Where pip finds gpu-ci. By default: where this gpu-ci came from.")
@click.option("--write", is_flag=True, help="Write the files. Without it, only print them.")
@click.option("--json", "as_json", is_flag=True, help="Print the files and the next steps as JSON.")
def command(folder: Path, write: bool, as_json: bool, **given: Any) -> None:
    """Write the files of a new repository that deploys pools. Existing files are never changed.

    Without --write, the command prints the files and writes nothing. On a terminal it prompts for missing options. It
    sends no request, and needs no credentials.

    The machine type decides the kind of the pool: Compute Engine for a Google machine type, EKS for an AWS one. Run the
    command again with another --stack to add a stack.

    \b
    Examples:
      gpu-ci init --project acme-ci --pool l4=g2-standard-8:spot
      gpu-ci init --project acme-ci --pool l4=g2-standard-8 --organization acme --repository kernels --write
      gpu-ci init --project acme-ci --organization acme --repository kernels --pool a10g=g5.2xlarge \\
        --cluster ci --subnet us-east-1a=subnet-0a1b2c3d4e5f60001 --runner-image ghcr.io/acme/runner@sha256:...
    """
    answers = _asked(given) if sys.stdin.isatty() and not as_json else given
    chosen = _repository(folder, answers)
    files = dict(chosen.files())
    stack = parse(folder / chosen.stack_file, files[chosen.stack_file])
    if wrong := stacks.problems(stack):
        raise problems_found(stack, wrong, "; no file was written")
    states = {path: _state(folder / path, text) for path, text in files.items()}
    if states[chosen.stack_file] == "differs":
        raise InputError(
            f"{folder / chosen.stack_file}: exists, and init never changes a file",
            expected="a stack without a file",
            hint="give another --stack, or edit the file: gpu-ci check reports its mistakes",
        )
    if write:
        for path, text in files.items():
            if states[path] == "new":
                create(folder / path, text)
    steps = _next_steps(folder, chosen)
    if as_json:
        print_json({"written": write, "files": files, "next": steps})
        return
    if not write:
        show(files)
    print_table(["file", "result"], [(path, _RESULTS[states[path], write]) for path in files])
    show_next_steps(steps, write, "--write")


_RESULTS = {
    ("new", True): "written",
    ("new", False): "would be written",
    ("same", True): "exists, unchanged",
    ("same", False): "exists, unchanged",
    ("differs", True): "kept: exists with other content",
    ("differs", False): "kept: exists with other content",
}


def _asked(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options, after asking on the terminal for those that are missing."""
    answers = dict(given)
    if not answers["pools"]:
        answers["pools"] = (click.prompt("Pool, as NAME=MACHINE_TYPE:MARKET", default="l4=g2-standard-8:spot"),)
    clouds = {machine.cloud for machine in (_pool_parts(text)[1] for text in answers["pools"])}
    if "aws" in clouds:
        answers["cluster"] = answers["cluster"] or click.prompt("Name of the EKS cluster")
        answers["subnets"] = answers["subnets"] or tuple(
            click.prompt("Private subnets of the cluster, as ZONE=ID, separated by spaces").split()
        )
        answers["runner_image"] = answers["runner_image"] or click.prompt("Image of the runners, with its digest")
    if not answers["organization"]:
        needed = "" if "aws" in clouds else " (empty: no runners)"
        default = None if "aws" in clouds else ""
        answers["organization"] = click.prompt(
            f"GitHub organization{needed}", default=default, show_default=False
        ).strip()
    if answers["organization"] and not answers["repositories"]:
        answers["repositories"] = tuple(click.prompt("Repositories that can use the pools").split())
    if not answers["project"] and ("gcp" in clouds or answers["organization"]):
        answers["project"] = click.prompt("Google Cloud project id")
    return answers


def _repository(folder: Path, given: Mapping[str, Any]) -> Repository:
    """Return the choices as a repository. Raise InputError with every missing or wrong option."""
    wrong: list[str] = []
    pools = [pool for text in given["pools"] or ("l4=g2-standard-8:spot",) if (pool := _pool(text, given, wrong))]
    subnets = dict(pair.partition("=")[::2] for pair in given["subnets"])
    clouds = {pool.machine.cloud for pool in pools}
    organization = given["organization"]
    needs = {
        "--project": (bool(organization or clouds), given["project"], "acme-ci"),
        "--organization": ("aws" in clouds, organization, "acme"),
        "--repository": (bool(organization) or "aws" in clouds, given["repositories"], "kernels"),
        "--cluster": ("aws" in clouds, given["cluster"], "ci"),
        "--subnet": ("aws" in clouds, subnets, "us-east-1a=subnet-0a1b2c3d4e5f60001"),
        "--runner-image": ("aws" in clouds, given["runner_image"], "ghcr.io/acme/runner@sha256:..."),
    }
    wrong += [
        f"{option} is missing; such as {option} {example}"
        for option, (is_needed, value, example) in needs.items()
        if is_needed and not value
    ]
    for option, value in (("--stack", given["stack"]), ("the folder's name", folder.resolve().name)):
        if not PULUMI_NAME.fullmatch(value):
            wrong.append(f"{option} {value!r} is not a name that Pulumi accepts: letters, digits, '-', '_' and '.'")
    aws_regions = sorted({gpu_catalog.region_of(zone) for zone in subnets})
    if len(aws_regions) > 1:
        wrong.append(f"--subnet has zones of several regions: {', '.join(aws_regions)}; a cluster is in one region")
    if wrong:
        raise InputError("gpu-ci init: " + "\n  ".join(wrong), hint="gpu-ci init --help")
    return Repository(
        name=folder.resolve().name,
        stack=given["stack"],
        pools=pools,
        requirement=repository.requirement(pools, organization, given["package"]),
        project=given["project"],
        region=given["region"],
        organization=organization,
        repositories=given["repositories"],
        cluster=given["cluster"],
        aws_region=aws_regions[0] if aws_regions else "",
        subnets=subnets,
        runner_image=given["runner_image"],
    )


def _pool_parts(text: str) -> tuple[str, Machine, str]:
    """Return name, machine and market of --pool. Raise InputError for another form or an unknown name."""
    found = _POOL.fullmatch(text)
    if not found:
        raise InputError(f"gpu-ci init: --pool {text!r} has another form", expected=_FORM)
    try:
        machine = gpu_catalog.machine(found["machine"])
        return found["name"], machine, gpu_catalog.market(found["market"] or "standard")
    except LookupError as error:
        problem, _, hint = str(error).partition("; ")
        raise InputError(f"gpu-ci init: --pool {text}: {problem}", expected=_FORM, hint=hint) from None


def _pool(text: str, given: Mapping[str, Any], wrong: list[str]) -> Pool | None:
    """Return the pool of --pool. Append to `wrong` if its region does not have the machine."""
    name, machine, market = _pool_parts(text)
    if machine.cloud != "gcp":
        return Pool(name, machine, market)
    zones = gpu_catalog.zones(machine, given["region"])
    if not zones:
        regions = sorted({gpu_catalog.region_of(zone) for zone in machine.zones})
        wrong.append(f"--region {given['region']} has no {machine.machine_type}; these have it: {', '.join(regions)}")
        return None
    return Pool(name, machine, market, zones)


def _state(path: Path, text: str) -> str:
    """Return "new", "same" or "differs"."""
    try:
        return "same" if path.read_text(encoding="utf-8") == text else "differs"
    except (FileNotFoundError, NotADirectoryError):
        return "new"
    except (OSError, UnicodeDecodeError):
        return "differs"


def _next_steps(folder: Path, chosen: Repository) -> Sequence[str]:
    """Return what is left to do, in order."""
    enter = [] if folder.resolve() == Path.cwd() else [f"cd {folder}"]
    apps = " and ".join(app.key for app in chosen.apps)
    return [
        *enter,
        "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt",
        f".venv/bin/pulumi-sandbox preview --stack {chosen.stack}   (needs no account)",
        *([f".venv/bin/gpu-ci github-app create {chosen.stack_file}   (creates {apps} at GitHub)"] if apps else []),
        f"pulumi up --stack {chosen.stack}   (creates the resources in your accounts)",
    ]
