"""Checks that a stack file has the other keys that its pools need: subnetworks, and the registration of runners.

A runner is registered at GitHub with the key of a GitHub App. On clusters, the controller registers the runners with
`runnerApp`. For machines (Compute Engine VMs), the runner manager registers them with `managerApp`. Without a manager,
each machine registers its runner with `runnerApp`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..errors import Problem, nearest
from ..gcp.regions import COMPUTE
from ..validation_errors import join
from .hints import shape
from .images import PipelineSpec
from .pools import POOLS, PoolSpec
from .site import GITHUB, MANAGER, SITE, Site


def missing_subnetworks(choices: Sequence[PoolSpec | PipelineSpec], site: Any, found: list[Problem]) -> list[Problem]:
    """Report regions that have machines but no subnetwork. Pools and pipelines with invalid zones are skipped.

    An entry with a wrong key is reported instead of the missing one, unless `found` has it.
    """
    subnetworks = _regions(site)
    wrong = {problem.path for problem in found}
    missing: dict[str, list[str]] = {}
    with_subnetwork = [spec for spec in choices if "subnetwork" in spec.component.ARGS.WIRING]
    for spec in with_subnetwork:
        places_valid = not any(path.startswith((f"{spec.path}.zones", f"{spec.path}.ladder")) for path in wrong)
        if subnetworks is None or spec.cloud != "gcp" or not places_valid:
            continue
        for region in spec.regions:
            if region not in subnetworks:
                missing.setdefault(region, []).append(spec.name)
    problems = []
    for region, names in sorted(missing.items()):
        pools = f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} in"
        entry = _wrong_entry(region, site)
        if region and not entry:
            problems.append(_missing_subnetwork(region, pools))
        elif region and entry not in wrong:
            text = f"is not a region of Google Cloud, and {pools} {region}"
            got = repr(entry.rpartition(".")[2])
            problems.append(Problem(entry, text, got, "a region with a pool", f"did you mean {region}"))
    return problems


def _missing_subnetwork(region: str, pools: str) -> Problem:
    path, network = join(f"{SITE}.subnetworks", region), join(f"{SITE}.networks", region)
    return Problem(
        path,
        f"is missing, and {pools} that region",
        got="nothing",
        expected=str(Site.model_fields["subnetworks"].description),
        hint=f"pulumi config set --path '{path}' projects/…/regions/{region}/subnetworks/…; or let the stack create a "
        f"network: pulumi config set --path '{network}.ipRange' …",
    )


def _wrong_entry(region: str, site: Any) -> str:
    """Return the path of the entry that is meant for this region, but has a wrong key; empty if there is none."""
    for field in ("subnetworks", "networks"):
        for key, value in ((site or {}).get(field) or {}).items():
            is_misspelt = key not in COMPUTE and nearest(str(key), COMPUTE) == region
            if is_misspelt or (isinstance(value, str) and f"/regions/{region}/" in value):
                return join(f"{SITE}.{field}", str(key))
    return ""


def _regions(site: Any) -> set[str] | None:
    """Return the regions that have a subnetwork, or None if the site is not a map of maps."""
    if site is None:
        return set()
    if not isinstance(site, Mapping):
        return None
    maps = [site.get(key) or {} for key in ("subnetworks", "networks")]
    return {str(region) for each in maps for region in each} if all(isinstance(e, Mapping) for e in maps) else None


_RUNNER_APP = (
    "a GitHub App with the permission Self-hosted runners: read and write, and no other: id, installationId and "
    "privateKey"
)
_MANAGER_APP = "the GitHub App of the runner manager, which registers the runners of machines, too"
_MANAGER_EXAMPLE = (
    "such as managerApp: {id: 3456789, installationId: 9876543, privateKey: "
    "projects/acme-ci/secrets/github-manager-app-key}"
)
WHICH_APP = (
    f"give {SITE}.github.managerApp, and the runner manager starts a machine for each job "
    f"(docs/guides/runner-manager-setup.md); or give {SITE}.github.runnerApp if your own tool starts the machines "
    "(docs/guides/compute-engine.md)"
)
_SECOND_APP = (
    "move the values of app to runnerApp, remove all permissions of this App except Self-hosted runners, and create a "
    "new App for app (docs/guides/github.md, One App becomes two)"
)


def missing_registration(
    choices: list[PoolSpec], site: Any, github: Any, unread: Collection[str], *, manager: bool = False
) -> list[Problem]:
    """Report missing keys that pools need to register their runners. Keys that could not be read are skipped.

    Runners on clusters always register, as `runnerApp`. Machines register if the stack file has a runner group. They
    must not use `app`, the App that administers the organization, so they need `managerApp` or `runnerApp`. With
    `manager`, the stack file has gpu-ci:manager, for which `missing_for_manager` reports a missing `managerApp`.
    """
    owner = site.get("github") if isinstance(site, Mapping) else None
    group = github.get("runnerGroup") if isinstance(github, Mapping) else None
    app, runner_app, manager_app = (
        owner.get(key) if isinstance(owner, Mapping) else None for key in ("app", "runnerApp", "managerApp")
    )
    on_clusters = [spec.name for spec in choices if "app" in spec.component.ARGS.WIRING]
    machines_register = app and group and not manager_app and not manager
    machines = [spec.name for spec in choices if "github" in spec.component.ARGS.WIRING and machines_register]
    not_for_machines = "the key of app, which may change runner groups, secrets and rules, is not for machines"
    if machines and not on_clusters and not runner_app and not SITE.startswith(tuple(unread)):
        text = f"is missing, and the runners of {', '.join(machines)} need it: {not_for_machines}"
        return [Problem(f"{SITE}.github.managerApp", text, "nothing", _MANAGER_APP, WHICH_APP)]
    shape = "{id: 1234567, installationId: 7654321, privateKey: projects/acme-ci/secrets/github-runner-app-key}"
    needed = {
        f"{SITE}.github.owner": (owner, on_clusters, "the organization, such as acme", "such as owner: acme"),
        f"{SITE}.github.runnerApp": (
            runner_app,
            sorted({*on_clusters, *machines}),
            _RUNNER_APP,
            _SECOND_APP if app else f"such as runnerApp: {shape}",
        ),
        f"{GITHUB}.runnerGroup": (
            group,
            on_clusters,
            "the group of the runners, and the repositories that may use it",
            "such as runnerGroup: {repositories: [kernels]}",
        ),
    }
    problems = []
    for path, (value, pools, expected, hint) in needed.items():
        # The check of gpu-ci:github already reports a missing owner.
        is_reported = path.endswith(".owner") and github is not None
        if pools and not value and not is_reported and not path.startswith(tuple(unread)):
            text = f"is missing, and the runners of {', '.join(pools)} need it"
            if path.endswith(".runnerApp") and app:
                text += f": {not_for_machines}"
            problems.append(Problem(path, text, "nothing", expected, hint))
    return problems


def missing_for_manager(choices: list[PoolSpec], values: Mapping[str, Any], unread: Collection[str]) -> list[Problem]:
    """Report missing keys that the runner manager needs: its App, a runner group, and a pool of machines."""
    if values.get(MANAGER) is None:
        return []
    site, github = values.get(SITE), values.get(GITHUB)
    owner = site.get("github") if isinstance(site, Mapping) else None
    given = owner if isinstance(owner, Mapping) else {}
    group = github.get("runnerGroup") if isinstance(github, Mapping) else None
    machines = [spec.name for spec in choices if "github" in spec.component.ARGS.WIRING]
    needed = {
        f"{SITE}.github.managerApp": (
            given.get("managerApp"),
            _MANAGER_APP,
            _MANAGER_EXAMPLE,
        ),
        f"{GITHUB}.runnerGroup": (
            group,
            "the group of the runners, and the repositories that may use it",
            "such as runnerGroup: {repositories: [kernels]}",
        ),
        POOLS: (machines, "a pool of kind gce-runners", "docs/start/add-a-pool.md"),
    }
    missing = [
        Problem(path, f"is missing, and {MANAGER} needs it", "nothing", expected, hint)
        for path, (value, expected, hint) in needed.items()
        if not value and not path.startswith(tuple(unread))
    ]
    return missing + (_too_many_instances(values[MANAGER], len(machines)) if machines else [])


def _too_many_instances(manager: Any, pools: int) -> list[Problem]:
    """Report a number of instances above the number of pools. The model reports a value that is not a number."""
    from ..gcp.runner_manager import too_many_instances  # loads Pulumi's Google package

    instances = manager.get("instances") if isinstance(manager, Mapping) else None
    wrong = too_many_instances(instances, pools) if isinstance(instances, int) else {}
    return [Problem(f"{MANAGER}.instances", got=str(instances), **wrong)] if wrong else []


def managed_registration(site: Any, github: Any) -> dict[str, Any]:
    """Return placeholder wiring for pools whose runners the manager registers.

    Without a manager, return an empty map.
    """
    owner = site.get("github") if isinstance(site, Mapping) else None
    group = github.get("runnerGroup") if isinstance(github, Mapping) else None
    managed = isinstance(owner, Mapping) and owner.get("managerApp") and group
    return {"github": {"owner": "acme"}} if managed else {}


def add_incompatible(found: list[Problem], choices: list[PoolSpec], site: Any, github: Any) -> list[Problem]:
    """Add the problems of `incompatible`. Drop the problems that the correction of these problems also corrects."""
    more = incompatible(choices, site, github)
    return [problem for problem in found if not is_superseded(problem, more)] + more


def incompatible(choices: list[PoolSpec], site: Any, github: Any) -> list[Problem]:
    """Report fields that do not work in pools with runners: driver.source cos, standby and secrets.

    standby is only reported if machines register their runners themselves, and secrets without rootful Docker.
    """
    owner = site.get("github") if isinstance(site, Mapping) else None
    app = (owner.get("managerApp") or owner.get("runnerApp")) if isinstance(owner, Mapping) else None
    group = github.get("runnerGroup") if isinstance(github, Mapping) else None
    if not app or not group:
        return []
    from ..gcp.pool.rules import (
        NO_RUNNER_ON_COS,
        NO_STANDBY_FOR_OWN_RUNNERS,
        REMOVE_STANDBY,
        SECRETS_UNREADABLE,
        USE_OTHER_IMAGE,
        USE_OTHER_SECRETS,
    )

    problems = []
    for spec in choices:
        if "github" not in spec.component.ARGS.WIRING:
            continue
        runner, secrets = spec.choices.get("runner"), spec.choices.get("secrets")
        docker = runner.get("docker") if isinstance(runner, Mapping) else None
        driver = spec.choices.get("driver")
        if isinstance(driver, Mapping) and driver.get("source") == "cos":
            problems.append(
                Problem(f"{spec.path}.driver.source", NO_RUNNER_ON_COS, "'cos'", "image or installer", USE_OTHER_IMAGE)
            )
        if spec.choices.get("standby") and "github" not in spec.known_wiring:
            problems.append(
                Problem(
                    f"{spec.path}.standby",
                    NO_STANDBY_FOR_OWN_RUNNERS,
                    shape(spec.choices["standby"]),
                    "nothing here",
                    REMOVE_STANDBY,
                )
            )
        if secrets and docker != "rootful":
            expected = "nothing here, or runner.docker: rootful"
            problems.append(
                Problem(f"{spec.path}.secrets", SECRETS_UNREADABLE, shape(secrets), expected, USE_OTHER_SECRETS)
            )
    return problems


# The correction of the field on the left also corrects the problems of the fields on the right.
_CORRECTED_TOO = {"driver.source": ("driver", "image", "torch"), "standby": ("standby",)}


def is_superseded(problem: Problem, incompatible: list[Problem]) -> bool:
    """Return True if the correction of a problem in `incompatible` also corrects this problem."""
    if any(problem.text == each.text and problem.path.startswith(each.path) for each in incompatible):
        return True
    corrected = [
        each.path.removesuffix(key) + field
        for each in incompatible
        for key, fields in _CORRECTED_TOO.items()
        if each.path.endswith(f".{key}")
        for field in fields
    ]
    return any(problem.path == path or problem.path.startswith(f"{path}.") for path in corrected)


def duplicate_scale_sets(choices: list[PoolSpec]) -> list[Problem]:
    """Report pools of one cluster whose scale sets have the same name, because the second set would fail."""
    owners: dict[tuple[str, str], str] = {}
    problems = []
    chosen = {spec.name: _scale_set_name(spec) for spec in choices if "app" in spec.component.ARGS.WIRING}
    # A scale set with the name of its pool has no field that could be wrong. So these own their names first.
    for spec in sorted((spec for spec in choices if spec.name in chosen), key=lambda spec: bool(chosen[spec.name])):
        name = chosen[spec.name] or spec.name
        owner = owners.setdefault((str(spec.choices.get("clusterName")), name), spec.name)
        if owner != spec.name:
            path = f"{spec.path}.runner.scaleSetName"
            text = f"is the name of the scale set of {owner} on the same cluster"
            expected = "a name that no other pool has, for runs-on in workflows"
            hint = "remove it: the scale set then has the name of its pool"
            problems.append(Problem(path, text, repr(name), expected, hint))
    return problems


def _scale_set_name(spec: PoolSpec) -> str:
    """Return the name that the stack file gives the scale set of a pool; empty if it gives none."""
    runner = spec.choices.get("runner")
    return str(runner.get("scaleSetName") or "") if isinstance(runner, Mapping) else ""
