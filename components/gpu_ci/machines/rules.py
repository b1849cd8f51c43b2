"""Validates what pools of machines of all vendors have: labels, smoke check, runner, and the highest price.

Each function returns a valid value and raises an error for an invalid value. `others` has the fields validated before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import gpu_catalog as catalog
from gpu_catalog import Machine, solver
from gpu_catalog.offers import lacking
from pydantic_core import PydanticCustomError

from .. import versions
from ..errors import at_path, did_you_mean, invalid, raise_problems

DEFAULT_RUN_LIMIT_SEC = 14_400
# The markets of a rung of a ladder. When the manager requests a machine, it can override the market of a template with
# one of these. Reservations and flex-start need a separate template, and flex-start also another API call.
LADDER_MARKETS = ("spot", "standard")
# docs.github.com/en/actions/reference/runners/github-hosted-runners, such as ubuntu-24.04-arm and macos-15-xlarge.
_HOSTED = re.compile(r"(ubuntu|windows|macos)-(latest|slim|[0-9.]+)(-[a-z]+)?")


def machine_of(choices: Mapping[str, Any]) -> Machine | None:
    """Return the machine of these fields, or None if one of them is invalid."""
    name, gpus = choices.get("machine_type"), choices.get("guest_accelerator")
    if name and not catalog.takes_accelerator(name):
        # The type has built-in GPUs. A wrongly attached accelerator does not change the machine.
        return catalog.machine(name)
    return catalog.attached(name, gpus.type, gpus.count) if name and gpus else None


def smoke(value: Any, others: Mapping[str, Any]) -> Any:
    """Return the settings of the smoke check. Its deadline must be before the machine's time limit."""
    limit = _run_limit_sec(others)
    if limit and value.deadline_sec >= limit:
        problem = invalid(
            "is too long: the machine is deleted before, after maxRunDurationSec",
            "deadline-after-run-limit",
            expected=f"less than maxRunDurationSec, which is {limit}",
            hint="raise maxRunDurationSec, or lower smoke.deadlineSec",
        )
        raise_problems([at_path(problem, value.deadline_sec, "deadline_sec")])
    return value


def _run_limit_sec(others: Mapping[str, Any]) -> int:
    """Return the time limit of a machine in seconds; 0 for a vendor without one."""
    return (others["max_run_duration_sec"] or DEFAULT_RUN_LIMIT_SEC) if "max_run_duration_sec" in others else 0


# The runner's names for the architectures of the catalog.
_ARCHIVES = {"x86_64": "x64", "arm64": "arm64"}


def runner(value: Any, others: Mapping[str, Any]) -> Any:
    """Return the runner settings. They must have a checksum for the machine's architecture.

    Its idle time must be less than the machine's time limit.
    """
    machine = machine_of(others)
    archive = _ARCHIVES[machine.architecture] if machine else ""
    if machine and archive not in value.archives:
        problem = invalid(
            f"has no checksum for {archive}, which {machine.machine_type} needs", "missing", safe_hint=f"add {archive}"
        )
        raise_problems([at_path(problem, value.archives, "sha256")])
    limit = _run_limit_sec(others)
    if limit and value.idle_sec >= limit:
        problem = invalid(
            "is too long: the machine is deleted before, after maxRunDurationSec",
            "deadline-after-run-limit",
            expected=f"less than maxRunDurationSec, which is {limit}",
            hint="raise maxRunDurationSec, or lower runner.idleSec",
        )
        raise_problems([at_path(problem, value.idle_sec, "idle_sec")])
    return value


# Why the fields are refused in a pool that public repositories may use.
_NOT_PUBLIC = {
    "secrets": "gives the machines secrets, and public repositories may use the pool",
    "standby": "starts machines before a commit is approved, and public repositories may use the pool",
    "warm": "starts machines before a commit is approved, and public repositories may use the pool",
    "reuse": "keeps a host after a job, and public repositories may use the pool",
}


def not_for_the_public(value: Any, github: Any, field: str) -> Any:
    """Return the value of a field that a pool with this registration may have."""
    if github is None or not github.public_repositories:
        return value
    if field == "runner" and value.docker == "rootful":
        text = "makes a job root on its machine, and public repositories may use the pool"
        error = invalid(text, "public-pool", expected="none or rootless", safe_hint="remove it, or use another stack")
        raise_problems([at_path(error, value.docker, "docker")])
    if field in _NOT_PUBLIC and value:
        hint = "remove it, or use another stack"
        raise invalid(_NOT_PUBLIC[field], "public-pool", expected="nothing here", safe_hint=hint)
    return value


def runner_labels(values: list[Any]) -> list[Any]:
    """Return the labels. Raise an error for duplicates. GitHub does not distinguish upper and lower case in labels."""
    error = invalid("is a duplicate; labels are case-insensitive", "duplicate", hint="remove it")
    lower = [str(value).lower() for value in values]
    raise_problems([at_path(error, value, at) for at, value in enumerate(values) if lower[at] in lower[:at]])
    hosted = invalid(
        "is a label of GitHub's own runners, so each job for them would start a GPU machine",
        "hosted-label",
        safe_hint="use labels of your own, such as gpu",
    )
    raise_problems([at_path(hosted, value, at) for at, value in enumerate(values) if _HOSTED.fullmatch(lower[at])])
    return values


# docs.github.com/en/actions/reference/workflows-and-actions/events-that-trigger-workflows, those of workflow runs.
_EVENTS = frozenset(
    (
        "branch_protection_rule", "check_run", "check_suite", "create", "delete", "deployment", "deployment_status",
        "discussion", "discussion_comment", "dynamic", "fork", "gollum", "image_version", "issue_comment", "issues",
        "label", "merge_group", "milestone", "page_build", "public", "pull_request", "pull_request_review",
        "pull_request_review_comment", "pull_request_target", "push", "registry_package", "release",
        "repository_dispatch", "schedule", "status", "watch", "workflow_dispatch", "workflow_run",
    )
)  # fmt: skip


def job_classes(values: list[Any]) -> list[Any]:
    """Return the classes of jobs. Each has a known event, and a job that no earlier class has."""
    problems = []
    for at, value in enumerate(values):
        event = str(value).partition(":")[0]
        if event not in _EVENTS:
            hint = did_you_mean(event, _EVENTS) or "such as merge_group, push:main, pull_request or schedule"
            problems.append(at_path(invalid("is no event of GitHub Actions", "no-event", safe_hint=hint), value, at))
        elif value in values[:at] or event in values[:at]:
            error = invalid("has no jobs: an earlier class has all of them", "duplicate", safe_hint="remove it")
            problems.append(at_path(error, value, at))
    raise_problems(problems)
    return values


PRIORITIES_OF_OWN_RUNNERS = (
    "is not supported for machines that register their own runners, because the runner manager selects the job of each "
    "runner"
)
REMOVE_PRIORITIES = "remove priorities, or give gpu-ci:site.github.managerApp (docs/guides/runner-manager-setup.md)"


def default_runner_labels(name: str) -> list[str]:
    """Return the runner labels of a pool without the field runnerLabels."""
    return ["self-hosted", "gpu", name]


def price_ceiling(value: float, offers: Sequence[Mapping[str, Any]]) -> float:
    """Return the price ceiling in USD per hour. Raise an error if it is below the known prices of all machines.

    `offers` has the machine fields of the pool and of each rung.
    """
    prices = [
        catalog.price(machine, catalog.region_of(offer["zones"][0]), catalog.market(offer["market"]))
        for offer in offers
        if (machine := machine_of(offer))
    ]
    known = [price.usd_per_hour for price in prices if price]
    if known and len(known) == len(offers) and min(known) > value:
        raise invalid(
            "is below the price of every machine of the pool, so no machine would start",
            "price-ceiling",
            expected=f"at least {min(known):g}",
            hint="raise priceCeilingUsd, or add a cheaper machine to ladder",
        )
    return value


def torch_of(value: str | None, machine: Machine | None) -> str | None:
    """Return the torch version. It must have kernels for the GPU. Without a value, the default version is checked."""
    answer = solver.check(machine, torch=value or versions.TORCH) if machine else None
    if isinstance(answer, solver.Refused):
        fix = str((answer.fix or {}).get("torch", ""))
        hint = f"torch: {fix}" if fix else "use another machineType"
        raise invalid(answer.reason, "software-does-not-fit", expected=fix and f"torch {fix}", hint=hint)
    return value


def less_capable(machine: Machine, own: Machine) -> Iterator[PydanticCustomError]:
    """Yield the errors of a rung whose machine cannot run each job of the pool's own machine."""
    texts = lacking(machine, own)
    if machine.gpu_count != own.gpu_count:
        texts.append(f"has {machine.gpu_count:g} GPUs, not {own.gpu_count:g}")
    for text in texts:
        hint = "a job may get any machine of its pool; create another pool for other machines"
        yield invalid(text, "less-capable", safe_hint=hint)
