"""Validates the fields of RunnerPoolArgs that other vendors do not have: stopped machines, GitHub and secrets.

Each function returns a valid value and raises an error for an invalid value. `others` has the fields validated before.
machine/rules.py validates the machines, including their zones and GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gpu_catalog as catalog
from pydantic_core import InitErrorDetails

from ...errors import Problem, at_path, invalid, raise_problems, shape
from ...machines.rules import DEFAULT_RUN_LIMIT_SEC, PRIORITIES_OF_OWN_RUNNERS, REMOVE_PRIORITIES
from ..machine.args import GpuMachineArgs
from ..machine.rules import LOCAL_SSD_GIB, RUN_LIMIT_SEC, has_local_disks

_NO_STANDBY_FOR_OWN_RUNNERS = (
    "is not supported for machines that register their own runners, because a stop would end their job"
)
_NO_WARM_FOR_OWN_RUNNERS = "is not supported for machines that register their own runners: they wait for jobs anyway"
_REMOVE_STANDBY = "remove standby"

# If a machine with local disks stops, the data on the disks is lost (discovery document compute v1, instances.stop,
# discardLocalSsd). After the next start, the machine would lack this data.
LOCAL_DISKS = "has local SSDs, which lose their data when the machine stops"
_WITHOUT_RUNNERS_ONLY = {
    "mode": "is not supported in pools with runners, where the runner manager starts machines when jobs wait",
    "initial_delay_sec": "is not supported in pools with runners, where the runner manager stops a machine after its "
    "check has passed",
}


def standby(value: Any, others: Mapping[str, Any]) -> Any:
    """Return the standby settings. The machines must be able to stop and start again."""
    # The rules depend on `github`: the manager starts the machines of pools with runners, and the managed instance
    # group the machines of other pools.
    if value is None or "github" not in others:
        return value
    github = others["github"]
    problems: list[InitErrorDetails] = []
    if github is not None and github.registered_by == "machine":
        raise invalid(_NO_STANDBY_FOR_OWN_RUNNERS, "standby-of-own-runners", safe_hint=_REMOVE_STANDBY)
    cannot_stop = ("spot", "flex-start") if github is None else ("flex-start",)
    if (market := others.get("market")) in cannot_stop:
        markets = "standard" if github is None else "spot or standard"
        text = f"is not supported for {market} machines, which cannot wait stopped"
        hint = f"use market: {markets}, or remove standby"
        problems.append(at_path(invalid(text, "market-cannot-stop", hint=hint), value))
    if github is not None:
        problems += [
            at_path(invalid(text, "set-by-manager", safe_hint="remove it"), getattr(value, key), key)
            for key, text in _WITHOUT_RUNNERS_ONLY.items()
            if key in value.model_fields_set
        ]
        if has_local_disks(others):
            hint = "remove localSsdCount" if others.get("local_ssd_count") else "use another machine type"
            error = invalid(f"the machine {LOCAL_DISKS}", "local-disks-cannot-stop", hint=f"{hint}, or remove standby")
            problems.append(at_path(error, value))
    size, max_machines = value.stopped_size, others.get("max")
    if max_machines and size > max_machines:
        hint, expected = "lower stoppedSize, or raise max", f"at most {max_machines}"
        error = invalid("is more than max", "more-than-max", expected=expected, hint=hint)
        problems.append(at_path(error, size, "stopped_size"))
    raise_problems(problems)
    return value


def warm(value: Any, others: Mapping[str, Any]) -> Any:
    """Return the settings of waiting machines. Only the runner manager gives a waiting machine its runner."""
    if value is None or "github" not in others:
        return value
    github, market, most = others["github"], others.get("market"), others.get("max")
    problems: list[InitErrorDetails] = []
    if github is not None and github.registered_by == "machine":
        raise invalid(_NO_WARM_FOR_OWN_RUNNERS, "warm-of-own-runners", safe_hint="remove warm")
    if market == "flex-start":
        hint = "use another market, or remove warm"
        text = "is not supported for flex-start machines, which run for a limited time from a start that Google chooses"
        problems.append(at_path(invalid(text, "market-cannot-wait", hint=hint), value))
    if most and value.size > most:
        hint, expected = "lower size, or raise max", f"at most {most}"
        problems.append(
            at_path(invalid("is more than max", "more-than-max", expected=expected, hint=hint), value.size, "size")
        )
    limit = others.get("max_run_duration_sec") or DEFAULT_RUN_LIMIT_SEC
    if limit + value.most_wait_sec > RUN_LIMIT_SEC[1]:
        expected, hint = f"at most {RUN_LIMIT_SEC[1] - limit}", "lower mostWaitSec, or maxRunDurationSec"
        error = invalid("is too long together with maxRunDurationSec", "over-run-limit", expected=expected, hint=hint)
        problems.append(at_path(error, value.most_wait_sec, "most_wait_sec"))
    raise_problems(problems)
    return value


_SECRETS_UNREADABLE = (
    "cannot be read by jobs: jobs of a pool with runners have no access to the machine's service account"
)
_USE_OTHER_SECRETS = (
    "pass the secret to workflows with gpu-ci:github.secrets, or give jobs their own identity "
    "(docs/guides/compute-engine.md)"
)


_NO_RUNNER_ON_COS = "cannot run runners: Container-Optimized OS lacks Python and the dependencies of GitHub's runner"
_USE_OTHER_IMAGE = "use an Ubuntu or Debian image, or remove driver and image"


def github(value: Any, others: Mapping[str, Any]) -> Any:
    """Return the GitHub settings. The machine's operating system must be able to run GitHub's runner."""
    driver = others.get("driver")
    if value is not None and driver is not None and driver.source == "cos":
        raise invalid(f"driver.source cos {_NO_RUNNER_ON_COS}", "no-runner-on-cos", safe_hint=_USE_OTHER_IMAGE)
    return value


def secrets(values: Any, others: Mapping[str, Any]) -> Any:
    """Return the secrets. In pools with runners, they require rootful Docker, because other jobs cannot read them."""
    runner = others.get("runner")
    if others.get("github") is not None and runner is not None and runner.docker != "rootful":
        raise_problems(
            [
                at_path(invalid(_SECRETS_UNREADABLE, "secrets-unreadable", safe_hint=_USE_OTHER_SECRETS), value, at)
                for at, value in enumerate(values)
            ]
        )
    return values


def problems_with_runners(choices: Mapping[str, Any], registers: bool) -> list[Problem]:
    """Return the problems of fields that do not work in a pool with runners, such as driver.source cos.

    With `registers`, its machines register their runners themselves. Otherwise, the model reports standby, priorities
    and secrets, because it gets the wiring of the runner manager.
    """
    runner, driver = choices.get("runner"), choices.get("driver")
    docker = runner.get("docker") if isinstance(runner, Mapping) else None
    found = []
    if isinstance(driver, Mapping) and driver.get("source") == "cos":
        text, expected = _NO_RUNNER_ON_COS, "image or installer"
        found.append(Problem("driver.source", text, "'cos'", expected, _USE_OTHER_IMAGE, "no-runner-on-cos"))
    if registers and (standby := choices.get("standby")):
        text, rule = _NO_STANDBY_FOR_OWN_RUNNERS, "standby-of-own-runners"
        found.append(Problem("standby", text, shape(standby), "nothing here", _REMOVE_STANDBY, rule))
    if registers and (warm := choices.get("warm")):
        text, rule = _NO_WARM_FOR_OWN_RUNNERS, "warm-of-own-runners"
        found.append(Problem("warm", text, shape(warm), "nothing here", "remove warm", rule))
    if registers and (given := choices.get("priorities")):
        text, hint, rule = PRIORITIES_OF_OWN_RUNNERS, REMOVE_PRIORITIES, "priorities-of-own-runners"
        found.append(Problem("priorities", text, shape(given), "nothing here", hint, rule))
    if registers and docker != "rootful" and (given := choices.get("secrets")):
        text, expected = _SECRETS_UNREADABLE, "nothing here, or runner.docker: rootful"
        found.append(Problem("secrets", text, shape(given), expected, _USE_OTHER_SECRETS, "secrets-unreadable"))
    return found


def each_once(values: list[Any]) -> list[Any]:
    """Return the values. Raise an error for duplicates."""
    error = invalid("is a duplicate", "duplicate", safe_hint="remove it")
    raise_problems([at_path(error, value, index) for index, value in enumerate(values) if value in values[:index]])
    return values


def demand(name: str, args: GpuMachineArgs, max_machines: int, stopped_machines: int) -> catalog.Demand:
    """Return the machines and disks of a pool, including the machine of a smoke check, to compute cost and quotas."""
    return catalog.Demand(
        pool=name,
        machine=args.machine,
        market=catalog.market(args.market),
        region=args.region,
        max_machines=max_machines,
        stopped_machines=stopped_machines,
        machines_of_a_check=1,
        boot_disk=args.boot_disk_type,
        boot_disk_gib=args.disk_gib,
        local_ssd_gib=args.local_ssd_count * LOCAL_SSD_GIB,
        max_run_sec=args.run_limit_sec,
    )
