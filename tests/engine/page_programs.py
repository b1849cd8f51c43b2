"""The programs of the pages' shell blocks: `pulumi` is the sandbox's, and all others refuse unknown command lines.

test_page_blocks.py puts a script for each program on the PATH. LEDGER is a folder with the backend of `pulumi login`,
the stacks of each backend, and the secrets with a version.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml
from pulumi_sandbox.providers.rsa_key import private_key
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.store import World

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / ".venv" / "bin"
LEDGER = Path(os.environ.get("LEDGER", ""))
SANDBOX = Path(os.environ.get("PULUMI_SANDBOX_DIR", ""))
KNOWN = (
    r"gcloud auth application-default (login|set-quota-project acme-ci(-prod)?)",
    r"gcloud services enable --project acme-ci( [a-z]+\.googleapis\.com)+",
    r"gcloud compute instances list --project acme-ci --filter labels\.gpu-ci-manager:\*",
    r"gh workflow run gpu\.yml --repo acme/kernels",
    r"uv (lock|run pytest|run pre-commit install)",
)


def read(name: str) -> list[str]:
    file = LEDGER / name
    return file.read_text().splitlines() if file.exists() else []


def add(name: str, *lines: str) -> None:
    (LEDGER / name).write_text("".join(f"{line}\n" for line in (*read(name), *lines)))


def sandbox(*words: str) -> None:
    sys.exit(subprocess.run([BIN / "pulumi-sandbox", *words], check=False).returncode)


def pulumi(words: list[str]) -> None:
    backend = ["", *read("backend")][-1]
    match words:
        case ["login", address]:
            add("backend", created(address))
            return
        case ["stack", "init", stack, *provider] if backend:
            here = Path(f"Pulumi.{stack}.yaml")
            if any(line.endswith(f" {project()} {stack}") for line in read("stacks")):  # the sandbox has one backend
                subprocess.run([BIN / "pulumi-sandbox", "stack", "rm", stack, "--yes", "--force"], check=True)
            if provider:
                here.write_text(f"{here.read_text()}secretsprovider: {created(provider[1])}\n")
            add("stacks", f"{backend} {project()} {stack}")
            sandbox("stack", "init", stack)
    stack = words[2] if words[:2] == ["stack", "rm"] else words[words.index("--stack") + 1]
    if f"{backend} {project()} {stack}" not in read("stacks"):
        sys.exit(f"no stack named {stack!r} found in {backend!r}")
    answers = {"up": ["--yes", "--skip-preview"], "destroy": ["--yes"], "stack": ["--yes"] if words[1] == "rm" else []}
    sandbox(*words, *answers.get(words[0], []))


def project() -> str:
    return str(yaml.safe_load(Path("Pulumi.yaml").read_text())["name"])


def created(address: str) -> str:
    """Return the address if a deployment has created its bucket or its key."""
    world = World(Workspace(SANDBOX).world)
    scheme, _, path = address.partition("://")
    if path and path not in {row.outputs.get("name") if scheme == "gs" else row.id for row in world.find()}:
        sys.exit(f"{path} does not exist")
    world.close()
    return address


def gpu_ci(words: list[str]) -> None:
    command = [str(BIN / "gpu-ci"), *words]
    if words[:2] == ["github-app", "create"]:  # what a person does in the browser
        stack, settings = Path(words[2]), Path("sandbox.yaml")
        for file in (stack, settings):
            numbers = r"(\bid: |apps/|installations/|installationId: |Keys\.|^    )(1?[13])(?=[,/:}\n])"
            file.write_text(re.sub(numbers, r"\g<1>10\2", file.read_text(), flags=re.MULTILINE))
        apps = yaml.safe_load(stack.read_text())["config"]["gpu-ci:site"]["github"].values()
        add("secrets", *(f"{app['privateKey']} {app['id']}" for app in apps if isinstance(app, dict)))
    elif words[0] in ("doctor", "manager"):
        os.environ["PULUMI_BACKEND_URL"] = read("backend")[-1]
        sandbox("serve", "--exec", "--", *command, *(["--until-idle"] if words[0] == "manager" else []))
    else:
        os.execv(command[0], command)  # noqa: S606


def gcloud(words: list[str]) -> None:
    match words:
        case ["secrets", "versions", "access", "latest", "--project", project, "--secret", secret]:
            [app] = [
                row.split()[1] for row in read("secrets") if row.split()[0] == f"projects/{project}/secrets/{secret}"
            ]
            print(private_key(World(Workspace(SANDBOX).world), app))
        case _:
            known("gcloud", words)


def make(words: list[str]) -> None:
    match words:
        case ["runtime"]:
            venv(Path(".venv"), "gpu-ci", "pulumi-sandbox")
        case ["bootstrap"]:  # test_bootstrap.py deploys this stack and destroys it
            os.environ["PULUMI_SANDBOX_DIR"] = str(Path(".sandbox").absolute())
            os.chdir("bootstrap")
            sandbox("stack", "init", "staging")
        case _:
            known("make", words)


def python3(words: list[str]) -> None:
    match words:
        case ["-m", "venv", folder]:
            venv(Path(folder))
        case _:
            known("python3", words)


def pip(words: list[str]) -> None:
    match words:
        case [folder, "install", "-r", file] if Path(file).is_file():
            venv(Path(folder), "gpu-ci", "pulumi-sandbox")
        case [folder, "install", "torch", "numpy"]:
            venv(Path(folder), packages=[str(ROOT / "tests/smoke/fakes"), *imports(ROOT / ".venv-torch")])
        case _:
            known("pip", words)


def imports(environment: Path) -> list[str]:
    from tests import conftest  # it loads pytest

    return conftest.imports(environment)


def venv(folder: Path, *commands: str, packages: Sequence[str] = ()) -> None:
    """Make an environment with these packages, or those of this checkout, and with these commands only."""
    from gpu_preview.environment.virtualenv import create

    made = folder.absolute()
    create(ROOT / ".venv", made, packages or imports(ROOT / ".venv"))
    (made / "bin" / "python3").unlink()
    script(made / "bin" / "pip", "pip", str(made))
    (made / "bin" / "activate").write_text(f"VIRTUAL_ENV={made}\nPATH={made}/bin:$PATH\n")
    for name in commands:
        script(made / "bin" / name, name)


def script(file: Path, *words: str) -> None:
    command = f'PYTHONPATH={ROOT} exec {BIN}/python {__file__} {" ".join(words)} "$@"'
    if words == ("python3",):  # machines of the sandbox use it, too
        command = f'[ "$1 $2" = "-m venv" ] || exec {BIN}/python3 "$@"\n{command}'
    file.write_text(f"#!/bin/sh\n{command}\n")
    file.chmod(0o755)


def known(program: str, words: list[str]) -> None:
    line = " ".join([program, *words])
    if not any(re.fullmatch(pattern, line) for pattern in KNOWN):
        sys.exit(f"unknown command: {line}")


PROGRAMS = {
    "pulumi-sandbox": lambda words: sandbox(*words),
    "pulumi": pulumi,
    "gpu-ci": gpu_ci,
    "gcloud": gcloud,
    "make": make,
    "python3": python3,
    "pip": pip,
}
if __name__ == "__main__":
    PROGRAMS.get(sys.argv[1], lambda words: known(sys.argv[1], words))(sys.argv[2:])
