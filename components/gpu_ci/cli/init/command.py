"""`gpu-ci init`: write the files of a new repository that deploys pools."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from gpu_ci.cli import new_files
from gpu_ci.cli.init import additions, options
from gpu_ci.cli.init.repository import Repository
from gpu_ci.errors import in_yaml


@click.command("init")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=".")
@click.option("--stack", default="dev", show_default=True, help="The stack's name, as in Pulumi.<stack>.yaml.")
@click.option("--pool", "pools", multiple=True, metavar="NAME=MACHINE[:MARKET]", help="A pool. Repeat for more pools.")
@click.option("--project", default="", help="The id of the Google Cloud project.")
@click.option("--region", default="us-central1", show_default=True, help="The region of the Compute Engine pools.")
@click.option("--organization", default="", help="The GitHub organization whose jobs the pools run.")
@click.option("--repository", "repositories", multiple=True, help="A repository that can use the pools. Repeatable.")
@click.option("--cluster", default="", help="The name of an existing EKS cluster.")
@click.option("--subnet", "subnets", multiple=True, metavar="ZONE=ID", help="A private subnet of the EKS cluster.")
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

    The machine type decides the kind of the pool: EKS for an AWS one, Compute Engine for a Google one, or GKE with
    --gke-cluster. Run the command again with another --stack to add a stack. It then prints the lines that the existing
    files lack.

    \b
    Examples:
      gpu-ci init --project acme-ci --pool l4=g2-standard-8:spot
      gpu-ci init --project acme-ci --pool l4=g2-standard-8 --organization acme --repository kernels --write
      gpu-ci init --project acme-ci --organization acme --repository kernels --pool a10g=g5.2xlarge \\
        --cluster ci --subnet us-east-1a=subnet-0a1b2c3d4e5f60001 --runner-image ghcr.io/acme/runner@sha256:...
      gpu-ci init --project acme-ci --organization acme --repository kernels --pool l4=g2-standard-8 \\
        --gke-cluster gpu --location us-central1 --runner-image ghcr.io/acme/runner@sha256:...
    """
    chosen = options.repository(folder, given)
    files = dict(chosen.files())
    states = new_files.states(folder, files, additions.changes, chosen.stack_file)
    new_files.offer(folder, files, states, lambda: _next_steps(folder, chosen), write=write, as_json=as_json)


def _next_steps(folder: Path, chosen: Repository) -> Sequence[str]:
    """Return what is left to do, in order."""
    create = f".venv/bin/gpu-ci github-app create {chosen.stack_file}"
    if chosen.new_apps != chosen.apps:
        create += "".join(f" --only {app.key}" for app in chosen.new_apps)
    new = " and ".join(app.key for app in chosen.new_apps)
    app_steps = [f"{create}   (creates {new} at GitHub)"] if new else []
    no_jobs = (
        f"add gpu-ci:site.github to {chosen.stack_file}, or delete the file and run init again with --organization and "
        "--repository   (until then, no job can reach the pools)"
    )
    return [
        "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt   (takes minutes)",
        f".venv/bin/pulumi-sandbox preview --stack {chosen.stack}   (needs no account)",
        *(app_steps if chosen.apps else [no_jobs]),
        *_placeholders(chosen),
        f".venv/bin/gpu-ci doctor {chosen.stack_file}   (checks your accounts, and prints how to fix each failure)",
        f"pulumi up --stack {chosen.stack}   (creates the resources in your accounts; needs the Pulumi CLI on PATH)",
        *_github_steps(folder, chosen),
    ]


def _placeholders(chosen: Repository) -> Sequence[str]:
    """Return the values that the user has to replace before the first deployment."""
    local = "@ file:" in chosen.requirement
    image = chosen.runner_image.endswith("0" * 64)
    return [
        *(["replace the address in requirements.txt before you commit it: it is on this computer"] if local else []),
        *([f"replace the digest of runner.image in {chosen.stack_file}: it is a placeholder"] if image else []),
    ]


def _github_steps(folder: Path, chosen: Repository) -> Sequence[str]:
    """Return what the workflows need at GitHub."""
    if not chosen.actions:
        address = "git+https://github.com/OWNER/gpu-ci@COMMIT"
        return [
            f"to add workflows that preview and deploy, run init again with --package {address} and another --stack"
        ]
    environment = f"create the environment {chosen.stack} at GitHub, with reviewers, for the branch main alone"
    variables = ", ".join(chosen.variables.values())
    name = chosen.actions.repository
    files = [file for file in folder.glob("Pulumi.*.yaml") if file.name != chosen.stack_file]
    others = sorted(file.stem.removeprefix("Pulumi.") for file in files)
    deployment = folder / ".github/workflows/deploy.yaml"
    deployed = deployment.read_text(encoding="utf-8") if deployment.is_file() else ""
    missing = [stack for stack in others if f"stack: {in_yaml(stack)}\n" not in deployed]
    add_jobs = f"add a job for {' and '.join(missing)} to deploy.yaml, as for {chosen.stack}"
    return [
        *([add_jobs] if missing else []),
        f"{environment}   (for deploy.yaml)",
        f"set the variables {variables} of the repository at GitHub   (for deploy.yaml; it needs no secret)",
        f"if {name} is private, allow access under its Settings, Actions, General   (for all workflows)",
    ]
