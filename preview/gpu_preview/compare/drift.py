"""Compares existing resources with the state of the stacks. The engine reads the clouds and changes nothing."""

from __future__ import annotations

import math
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ..engine import digest
from ..engine.digest import Digest, DigestError
from ..engine.program import failure, made_by
from ..errors import PreviewError
from ..git import repository
from ..isolation import limits
from ..isolation.limits import Finished, Limits
from ..model import Counts, Finding, Report, Resource, Severity, Side, Stack, Status
from ..report import danger_rules
from ..report.analysis import states, warnings

# `refresh --preview-only` reads each resource and compares it with the state. It does not run the program, and changes
# neither the state nor a resource (pulumi/pulumi v3.259.0, `pulumi refresh --help`).
_ARGUMENTS = ("refresh", "--preview-only", "--json", "--show-sames", "--non-interactive")
_DRIFT_TEXT = "a deleted resource no longer exists, and an updated resource was changed outside of Pulumi"
_DRIFT_HINT = "pulumi up --refresh restores the resources; pulumi refresh writes their present values into the state"
_LOGIN_HINT = "  hint: run pulumi login first, or read the sandbox with --sandbox"
# These rules find dangerous conditions, whatever caused them. The other rules are about planned changes.
_CONDITION_RULES = ("public", "identity", "secret-exposed")


def drift(stacks: Sequence[str], folder: Path, timeout_sec: float, sandbox: bool, say: Callable[[str], None]) -> Report:
    """Return the drift report: "before" is the state of the stacks, "after" is what exists.

    Args:
        stacks: Names of stacks; empty for all that have a file.
        folder: The folder of the project, or one below it.
        timeout_sec: The limit for each stack.
        sandbox: Read the emulated cloud of the sandbox instead of the real clouds.
        say: Called with a progress message before each stack.

    Raises:
        PreviewError: no project, no stack, or no CLI.
    """
    project = repository.project_above(folder.resolve())
    if project is None:
        raise PreviewError(
            f"{folder.resolve()}: not in a Pulumi project\n  expected: a Pulumi.yaml here or in a parent"
        )
    files = repository.stack_files(project)
    names = list(dict.fromkeys(stacks)) or sorted(files)
    if not names:
        raise PreviewError(f"{project}: no stack file\n  expected: a Pulumi.<stack>.yaml")
    engine = (sys.executable, "-P", "-m", "pulumi_sandbox") if sandbox else (_cli(),)
    reports = []
    for name in names:
        say(f"{name}: reading what exists")
        file = str(files[name].relative_to(project)) if name in files else ""
        reports.append(_stack(name, file, (*engine, *_ARGUMENTS, "--stack", name), project, timeout_sec))
    return Report(
        made_by=made_by(),
        how="drift",
        base=Side(ref="the state of each stack"),
        head=Side(ref="what exists in the sandbox" if sandbox else "what exists"),
        stacks=tuple(reports),
    )


def _stack(name: str, file: str, command: Sequence[str], project: Path, timeout_sec: float) -> Stack:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gpu-ci-drift-") as scratch:
        # This is the user's own program with the user's credentials, so only its time is limited.
        finished = limits.run(
            command,
            folder=project, environment=os.environ, scratch=Path(scratch), name="refresh",
            limits=Limits(timeout_sec, memory_gib=math.inf, processes=sys.maxsize), trusted=True,
        )  # fmt: skip
        stack = _read(Stack(stack=name, file=file, status=Status.PREVIEWED), finished, project)
    return stack.model_copy(update={"seconds": round(time.monotonic() - began, 1)})


def _read(stack: Stack, finished: Finished, project: Path) -> Stack:
    try:
        found = digest.read(finished.stdout)
    except DigestError:
        return stack.model_copy(update={"status": Status.FAILED, "error": _error_text(finished, project)})
    resources = tuple(map(_without_plans, found.resources))
    update: dict[str, object] = {"counts": Counts.of(resources), "resources": resources}
    if finished.exceeded_limit or found.errors or finished.code:
        update |= {"status": Status.FAILED, "error": _error_text(finished, project, found)}
    else:
        update |= {"findings": tuple(_findings(found))}
    return stack.model_copy(update=update)


def _error_text(finished: Finished, project: Path, found: Digest | None = None) -> str:
    message = failure(finished, project, found, isolated=False) or "pulumi printed nothing"
    return f"{message}\n{_LOGIN_HINT}" if "PULUMI_ACCESS_TOKEN" in message else message


def _without_plans(resource: Resource) -> Resource:
    """Return the resource without replacement information: drift is not a planned change."""
    properties = tuple(each.model_copy(update={"forces_replacement": False}) for each in resource.properties)
    return resource.model_copy(update={"properties": properties, "replaced_for": (), "may_replace": False})


def _findings(found: Digest) -> Iterator[Finding]:
    for each in danger_rules.find(*states(found), found.resources):
        if each.rule in _CONDITION_RULES:
            # The hint is for the author of a change, and drift has none.
            yield each.model_copy(update={"hint": ""})
    if found.counts.update or found.counts.replace or found.counts.delete:
        yield Finding(rule="drift", severity=Severity.NOTE, text=_DRIFT_TEXT, hint=_DRIFT_HINT)
    yield from warnings(found)


def _cli() -> str:
    # Ignore relative folders on PATH: the current folder may contain an untrusted `pulumi`.
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    path = os.pathsep.join(part for part in folders if Path(part).is_absolute())
    by_installer = Path("/", os.environ.get("HOME", ""), ".pulumi", "bin")
    if program := shutil.which("pulumi", path=path) or shutil.which("pulumi", path=str(by_installer)):
        return program
    raise PreviewError(
        f"no pulumi on PATH or in {by_installer}\n  hint: install the Pulumi CLI, or read the sandbox with --sandbox"
    )
