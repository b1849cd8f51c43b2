"""Checks that a stack file has the other keys that its pools need: subnetworks, and the registration of runners.

A runner is registered at GitHub with the key of a GitHub App. On clusters, the controller registers the runners with an
App of `poolApps` or with `runnerApp`. For machines (Compute Engine VMs), the runner manager registers them with
`managerApp`. Without a manager, each machine registers its runner with `runnerApp`.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from gpu_common.scale_set_rules import PRIORITIES, wrong_labels

from ..errors import Problem, did_you_mean, in_yaml
from ..pool_kind import EXAMPLE_KIND
from ..secret_manager import aws_secret
from ..validation_errors import join
from .entries import Spec
from .manager import on_aws
from .pools import POOLS, PoolSpec, runner_labels
from .site import GITHUB, MANAGER, SITE, Site


def missing_subnetworks(choices: Sequence[Spec], site: Any, found: list[Problem]) -> list[Problem]:
    """Report regions that have machines but no subnetwork. Pools and pipelines with invalid zones are skipped."""
    subnetworks = _regions(site)
    wrong = {problem.path for problem in found}
    missing: dict[str, list[str]] = {}
    for spec in choices:
        places_valid = not any(path.startswith((f"{spec.path}.zones", f"{spec.path}.ladder")) for path in wrong)
        if subnetworks is None or not spec.model.wiring_of({"subnetwork": ""}) or not places_valid:
            continue
        for region in spec.regions:
            if region not in subnetworks:
                missing.setdefault(region, []).append(spec.name)
    return [_missing_subnetwork(region, names) for region, names in sorted(missing.items()) if region]


def _missing_subnetwork(region: str, names: Sequence[str]) -> Problem:
    path, network = join(f"{SITE}.subnetworks", region), join(f"{SITE}.networks", region)
    return Problem(
        path,
        f"is missing, and {', '.join(names)} {'is' if len(names) == 1 else 'are'} in that region",
        got="nothing",
        expected=str(Site.model_fields["subnetworks"].description),
        hint=f"pulumi config set --path '{path}' projects/…/regions/{region}/subnetworks/…; or let the stack create a "
        f"network: pulumi config set --path '{network}.ipRange' …",
        rule="missing",
    )


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

    Runners on clusters always register, as an App of `poolApps` or as `runnerApp`. Machines register if the stack file
    has a runner group. They must not use `app`, the App that administers the organization, so they need `managerApp` or
    `runnerApp`. With `manager`, the stack file has gpu-ci:manager, for which `missing_for_manager` reports a missing
    `managerApp`.
    """
    owner = site.get("github") if isinstance(site, Mapping) else None
    group = github.get("runnerGroup") if isinstance(github, Mapping) else None
    app, runner_app, manager_app, pool_apps = (
        owner.get(key) if isinstance(owner, Mapping) else None for key in ("app", "runnerApp", "managerApp", "poolApps")
    )
    pool_apps = pool_apps if isinstance(pool_apps, Mapping) else {}
    on_clusters = _registered_by("cluster", choices)
    # not_for_the_public reports a missing managerApp, for which runnerApp is no alternative.
    machines_register = app and group and not manager_app and not manager and not is_public(github)
    machines = _registered_by("machines", choices) if machines_register else []
    not_for_machines = "the key of app, which may change runner groups, secrets and rules, is not for machines"
    if machines and not on_clusters and not runner_app and not SITE.startswith(tuple(unread)):
        text = f"is missing, and the runners of {', '.join(machines)} need it: {not_for_machines}"
        return [Problem(f"{SITE}.github.managerApp", text, "nothing", _MANAGER_APP, WHICH_APP, "missing")]
    shape = (
        "{id: 1234567, installationId: 7654321, privateKey: projects/acme-ci/secrets/github-runner-app-key}, or with "
        "the ARN of a secret in AWS Secrets Manager"
    )
    needed = {
        f"{SITE}.github.owner": (owner, on_clusters, "the organization, such as acme", "such as owner: acme"),
        f"{SITE}.github.runnerApp": (
            runner_app,
            sorted({*on_clusters, *machines} - {*pool_apps}),
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
            problems.append(Problem(path, text, "nothing", expected, hint, "missing"))
    return problems + [
        Problem(
            join(f"{SITE}.github.poolApps", pool),
            "is not a pool on a cluster",
            repr(pool),
            f"one of {', '.join(on_clusters)}" if on_clusters else "a pool on a cluster",
            did_you_mean(str(pool), on_clusters) or "remove it",
            "unknown-pool",
        )
        for pool in pool_apps
        if pool not in on_clusters and POOLS not in unread
    ]


def _registered_by(what: str, choices: Iterable[PoolSpec]) -> list[str]:
    """Return the names of the pools whose runners their machines or the controller of their cluster register."""
    return [spec.name for spec in choices if what == spec.model.REGISTERED_BY]


def missing_for_manager(choices: list[PoolSpec], values: Mapping[str, Any], unread: Collection[str]) -> list[Problem]:
    """Report missing keys that the runner manager needs: its App, a runner group, a pool, and the secrets of pools."""
    if values.get(MANAGER) is None:
        return []
    site, github = values.get(SITE), values.get(GITHUB)
    owner = site.get("github") if isinstance(site, Mapping) else None
    given = owner if isinstance(owner, Mapping) else {}
    group = github.get("runnerGroup") if isinstance(github, Mapping) else None
    machines = _registered_by("machines", choices)
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
        POOLS: (machines, f"a pool of kind {EXAMPLE_KIND}", "docs/start/add-a-pool.md"),
        **{
            f"{spec.path}.{name}": (
                spec.choices.get(name),
                "the name of a secret in Secret Manager",
                f"such as {name}: projects/acme-ci/secrets/NAME",
            )
            for spec in choices
            for name in spec.model.SECRETS_OF_MANAGER
            if not on_aws(values[MANAGER])  # it serves none of these pools (_other_cloud)
        },
    }
    missing = [
        Problem(path, f"is missing, and {MANAGER} needs it", "nothing", expected, hint, rule="missing")
        for path, (value, expected, hint) in needed.items()
        if not value and not path.startswith(tuple(unread))
    ]
    problems = missing + (_other_managers(values[MANAGER], machines) if machines else [])
    problems += _no_scale_sets(choices, values[MANAGER])
    return problems + _other_cloud(choices, values[MANAGER], given.get("managerApp"))


def _no_scale_sets(choices: list[PoolSpec], manager: Any) -> list[Problem]:
    """Report what pools cannot have if the manager finds their jobs by runner scale sets."""
    if not isinstance(manager, Mapping) or manager.get("demand") != "scaleSets":
        return []
    labels = {spec.name: runner_labels(spec) for spec in choices if spec.model.REGISTERED_BY == "machines"}
    problems = []
    for spec in choices:
        if not (own := labels.get(spec.name)):
            continue
        # Equal labels are reported for any manager (pools.same_labels).
        others = [each for each in labels.items() if {*map(str.lower, each[1])} != {*map(str.lower, own)}]
        if wrong := wrong_labels(own, others):
            path = f"{spec.path}.runnerLabels"
            problems.append(
                Problem(path, wrong.text, in_yaml(own), "labels of a scale set", wrong.hint, "no-scale-set")
            )
        if spec.choices.get("priorities") is not None:
            wrong, path = PRIORITIES, f"{spec.path}.priorities"
            problems.append(Problem(path, wrong.text, "a map", "nothing here", wrong.hint, "no-scale-set"))
    return problems


def _other_cloud(choices: list[PoolSpec], manager: Any, app: Any) -> list[Problem]:
    """Report the pools and the key for which the manager has no credentials where it runs."""
    if not isinstance(manager, Mapping):
        return []
    aws = on_aws(manager)
    own, name = ("aws", "AWS") if aws else ("gcp", "Google Cloud")
    problems = [
        Problem(
            f"{spec.path}.kind",
            f"is served by the manager, which runs on {name} and has no credentials for these machines or for their "
            "mailbox",
            spec.kind,
            hint=f"create another stack for it, or run the manager yourself without {MANAGER}",
            rule="other-cloud",
        )
        for spec in choices
        if spec.model.REGISTERED_BY == "machines"
        and spec.cloud != own
        and (aws or not spec.model.uses_google(spec.choices))
    ]
    key = app.get("privateKey") if isinstance(app, Mapping) else None
    if isinstance(key, str) and bool(aws_secret(key)) is not aws:
        path = f"{SITE}.github.managerApp.privateKey"
        own, expected = "Secret Manager", "projects/<project>/secrets/<name>"
        if aws:
            own, expected = "AWS Secrets Manager", "arn:aws:secretsmanager:<region>:<account>:secret:<name>"
        text = f"is in another store than {own}, from which the runner manager reads its key"
        hint = f"store the key there, or correct {MANAGER}.region"
        problems.append(Problem(path, text, "a secret of the other cloud", expected, hint, "other-secret-store"))
    return problems


def _other_managers(manager: Any, machines: Collection[str]) -> list[Problem]:
    """Report lists of pools that are not a division of the pools among the managers."""
    others = manager.get("others") if isinstance(manager, Mapping) else None
    problems: list[Problem] = []
    manager_of: dict[str, str] = {}
    for name, pools in others.items() if isinstance(others, Mapping) else ():
        for pool in pools if isinstance(pools, list) else ():
            path, expected = f"{MANAGER}.others.{name}", f"one of {', '.join(sorted(machines))}"
            if pool not in machines:
                hint = did_you_mean(str(pool), machines) or f"name a pool of the kind {EXAMPLE_KIND}"
                text = "names a pool that this stack does not have"
                problems.append(Problem(path, text, str(pool), expected, hint, "unknown-pool"))
            elif pool in manager_of:
                text = f"names a pool that the manager {manager_of[pool]} serves"
                hint = "two managers would start machines for the same jobs; name the pool once"
                problems.append(Problem(path, text, str(pool), hint=hint, rule="pool-of-two-managers"))
            manager_of[str(pool)] = str(name)
        if pools == []:
            hint = "name a pool, or remove the manager"
            problems.append(Problem(f"{MANAGER}.others.{name}", "names no pool", "[]", hint=hint, rule="too-few"))
    if not problems and set(machines) <= manager_of.keys():
        hint = "leave out a pool; the first manager serves every pool that no list names"
        problems.append(Problem(f"{MANAGER}.others", "leaves no pool to the first manager", hint=hint, rule="too-many"))
    return problems


def registration(site: Any, github: Any, stack: str) -> dict[str, Any]:
    """Return the wiring with which runners register on GitHub. The values may be invalid.

    - On clusters, the program adds the App and its key.
    - With `managerApp`, the runner manager registers the runners of machines, and no machine can read a key.
    - With `runnerApp` alone, the machines register their runners.
    - Without an App or a runner group, machines register no runners. GitHub's group Default is never used, because by
      default all repositories may use it.
    """
    owner = site.get("github") if isinstance(site, Mapping) else None
    if not isinstance(owner, Mapping):
        return {}
    group = github.get("runnerGroup") if isinstance(github, Mapping) else None
    name = (group.get("groupName") if isinstance(group, Mapping) else None) or f"gpu-{stack}"
    wiring: dict[str, Any] = {"github_config_url": f"https://github.com/{owner.get('owner')}", "runner_group": name}
    own: dict[str, Any] = {"owner": owner.get("owner"), "runnerGroup": name}
    app = owner.get("runnerApp")
    if group and owner.get("managerApp"):
        wiring["github"] = own | ({"publicRepositories": True} if is_public(github) else {})
    elif group and isinstance(app, Mapping):
        number = str(app.get("installationId"))
        own |= {"appId": str(app.get("id")), "installationId": int(number) if number.isdecimal() else number}
        wiring["github"] = own | {"privateKey": app.get("privateKey")}
    return wiring


_NOT_PUBLIC = {
    "cluster": "shares the node and its kernel with other pods, and ARC gives a runner to any run",
    "": "runs builds as an account of the project, and no approval of a commit limits them",
}


def is_public(github: Any) -> bool:
    """Return True if public repositories may use the runner group."""
    group = github.get("runnerGroup") if isinstance(github, Mapping) else None
    return isinstance(group, Mapping) and group.get("publicRepositories") is True


def not_for_the_public(choices: Iterable[PoolSpec], site: Any, github: Any, unread: Collection[str]) -> list[Problem]:
    """Report what a stack cannot have if public repositories may use its runner group."""
    if not is_public(github):
        return []
    group = f"{GITHUB}.runnerGroup.publicRepositories"
    expected, hint = "a pool of machines", f"create another stack for it, or remove {group}"
    problems = [
        Problem(f"{spec.path}.kind", f"{text}, but {group} is true", spec.kind, expected, hint, "public-group")
        for spec in choices
        if (text := _NOT_PUBLIC.get(spec.model.REGISTERED_BY))
    ]
    owner = site.get("github") if isinstance(site, Mapping) else None
    if not SITE.startswith(tuple(unread)) and not (isinstance(owner, Mapping) and owner.get("managerApp")):
        text = f"is missing, and {group} needs it: only the runner manager reads approvals"
        path = f"{SITE}.github.managerApp"
        problems.append(Problem(path, text, "nothing", _MANAGER_APP, _MANAGER_EXAMPLE, "public-group"))
    return problems


def key_not_on_google(choices: Iterable[PoolSpec], site: Any, github: Any) -> list[Problem]:
    """Report the key of an App in AWS Secrets Manager that machines on Compute Engine must read."""
    owner = site.get("github") if isinstance(site, Mapping) else None
    app = owner.get("runnerApp") if isinstance(owner, Mapping) and not owner.get("managerApp") else None
    key = app.get("privateKey") if isinstance(app, Mapping) else None
    machines = _registered_by("machines", choices) if isinstance(github, Mapping) and github.get("runnerGroup") else []
    if not machines or not isinstance(key, str) or not aws_secret(key):
        return []
    text = f"is in AWS Secrets Manager, but the machines of {', '.join(machines)} read it from Secret Manager"
    hint = "store the key in Secret Manager, or give managerApp"
    path = f"{SITE}.github.runnerApp.privateKey"
    return [Problem(path, text, "an ARN", "projects/<project>/secrets/<name>", hint, "other-secret-store")]


def names_of_others(specs: Sequence[Spec], stack: str) -> list[Problem]:
    """Report entries whose machines or images another entry's builds could change, because of how their names start."""
    own = {spec.path: spec.component.own_names(spec.name, stack) for spec in specs}
    problems = []
    for spec, other in itertools.permutations(specs, 2):
        names = [f"{other.name}-", *itertools.chain(*own[other.path].values())]
        if any(name.startswith(start) for starts in own[spec.path].values() for start in starts for name in names):
            text = f"starts as the names that the builds of {spec.name} may change"
            hint = "give it a name that starts differently"
            problems.append(Problem(other.path, text, repr(other.name), hint=hint, rule="name-of-other-builds"))
    return problems


def duplicate_scale_sets(choices: list[PoolSpec]) -> list[Problem]:
    """Report pools of one cluster whose scale sets have the same name, because the second set would fail."""
    owners: dict[tuple[str, str], str] = {}
    problems = []
    on_clusters = [spec for spec in choices if spec.model.REGISTERED_BY == "cluster"]
    # A scale set with the name of its pool has no field that could be wrong. So these own their names first.
    for spec in sorted(on_clusters, key=lambda spec: bool(_scale_set_name(spec))):
        name = _scale_set_name(spec) or spec.name
        owner = owners.setdefault((str(spec.choices.get("clusterName")), name), spec.name)
        if owner != spec.name:
            path = f"{spec.path}.runner.scaleSetName"
            text = f"is the name of the scale set of {owner} on the same cluster"
            expected = "a name that no other pool has, for runs-on in workflows"
            hint = "remove it: the scale set then has the name of its pool"
            problems.append(Problem(path, text, repr(name), expected, hint, "duplicate"))
    return problems


def _scale_set_name(spec: PoolSpec) -> str:
    """Return the name that the stack file gives the scale set of a pool; empty if it gives none."""
    runner = spec.choices.get("runner")
    return str(runner.get("scaleSetName") or "") if isinstance(runner, Mapping) else ""
