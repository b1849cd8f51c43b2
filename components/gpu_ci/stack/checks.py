"""Checks a whole stack file: every key that the program reads, and the dependencies between keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_common.suggest import closest

from .. import extras
from ..errors import Problem, nearest
from ..github import plans
from ..validation_errors import without_misspelt
from . import clusters, images, pools, quotas, requirements
from .clusters import CLUSTERS
from .entries import needed_extras
from .hints import section, section_problems
from .images import IMAGES, PipelineSpec
from .pools import POOLS, PoolSpec
from .quotas import QUOTAS, Quotas
from .site import GITHUB, MANAGER, SITE, GithubOwner, Provider, Site

PROJECT = "gcp:project"
KEYS = (PROJECT, SITE, GITHUB, MANAGER, CLUSTERS, IMAGES, QUOTAS, POOLS)
"""The keys of a stack file that the program reads. The other keys configure providers."""

_NAMESPACE = "gpu-ci"
_OF_PACKAGE = tuple(key for key in KEYS if key.startswith(f"{_NAMESPACE}:"))
_SLIP = 0.8
"""The similarity of a name with one wrong letter in five (difflib's ratio)."""


@dataclass(frozen=True)
class Checked:
    """The pools, quotas and image pipelines of a stack file, and every problem of the file."""

    pools: list[PoolSpec]
    quotas: Quotas
    problems: list[Problem]
    pipelines: list[PipelineSpec]


def check(
    values: Mapping[str, Any], present: Collection[str], unread: Collection[str] = (), *, complete: bool = True
) -> Checked:
    """Check a stack file.

    Args:
        values: The decoded value of each of KEYS. The value of a missing key, and of a key in `unread`, is None.
        present: Every key of the file.
        unread: The keys whose values are secret and cannot be read. The caller reports them.
        complete: True if the file must have the project, subnetworks and registration that its pools need. False for
        the file of another program, which may set them in code.
    """
    # The value of a misspelt key is not known here, and the caller reports the key.
    unread = {*unread, *misspelt_keys(present).values()}
    project, site, github = values[PROJECT], values[SITE], values[GITHUB]
    project_needed = complete or project is not None
    problems = _project_problems(project) if project_needed and PROJECT not in unread else []
    problems += section(Site, SITE, site)
    # The hint of one missing package names all of them, so that one installation is enough.
    needed = needed_extras(pools.FAMILY, values[POOLS]) | needed_extras(images.FAMILY, values[IMAGES])
    needed |= {"github"} if github is not None else set()
    problems += _with_package(GITHUB, needed, lambda: _github_problems(github, site, unread))
    problems += _with_package(MANAGER, needed, lambda: _manager_problems(values[MANAGER]))
    # Without a map of clusters, every pool on a cluster would have a problem with the same cause.
    has_clusters = CLUSTERS not in unread and isinstance(values[CLUSTERS], Mapping | None)
    choices: list[PoolSpec] = []
    found: list[Problem] = []
    if POOLS not in unread:
        registration = requirements.managed_registration(site, github)
        choices, found = pools.check(values[POOLS], values[CLUSTERS], has_clusters, registration, needed)
    pipelines, of_images = images.check(values[IMAGES], values[CLUSTERS], has_clusters, needed)
    if complete and SITE not in unread:
        problems += requirements.missing_subnetworks([*choices, *pipelines], site, problems + found + of_images)
    problems += found
    problems += _with_package(CLUSTERS, needed, lambda: clusters.problems(values[CLUSTERS], choices))
    problems += of_images
    if complete:
        has_manager = values[MANAGER] is not None
        problems += requirements.missing_registration(choices, site, github, unread, manager=has_manager)
    problems += requirements.missing_for_manager(choices, values, unread)
    problems += requirements.duplicate_scale_sets(choices)
    problems = without_misspelt(requirements.add_incompatible(problems, choices, site, github))
    valid = list(pools.valid_pools(choices, problems))
    granted, found = quotas.check(
        values[QUOTAS], quotas.demands(valid), str(project or ""), quotas.ladder_demands(valid)
    )
    return Checked(choices, granted, problems + found, pipelines)


def _with_package(path: str, needed: Collection[str], find: Callable[[], Sequence[Problem]]) -> Sequence[Problem]:
    """Return the problems of a key, or one problem if the package that its check imports is not installed."""
    try:
        return find()
    except ModuleNotFoundError as error:
        if not (hint := extras.hint(error.name or "", needed)):
            raise
        return [Problem(path, f"needs {error.name}", hint=hint)]


def unknown_keys(present: Collection[str]) -> list[Problem]:
    """Report keys that the program does not read: misspelt ones, and fields of gpu-ci:site outside of it."""
    misspelt = misspelt_keys(present)
    site_keys = {f"{_NAMESPACE}:{name}": f"{SITE}.{name}" for name in Site.choice_names()}
    found = []
    for path in sorted(present):
        if path in KEYS or not (path in misspelt or _is_of_package(path)):
            continue
        name = path.rpartition(":")[2]
        meant = misspelt.get(path) or _meant(name, _OF_PACKAGE)
        if name == _NAMESPACE:
            hint = f"write each key below it with this namespace, such as {POOLS}"
        elif path in site_keys:
            hint = f"write it as {site_keys[path]}"
        else:
            hint = f"did you mean {meant}" if meant else "remove it"
        expected = PROJECT if meant == PROJECT else f"one of {', '.join(_OF_PACKAGE)}"
        found.append(Problem(path, "unknown key", repr(path), expected, hint))
    return found


def misspelt_keys(present: Collection[str]) -> dict[str, str]:
    """Return each misspelt key of the file, with the key of KEYS that it stands for and that the file does not have."""
    missing = [key for key in KEYS if key not in present]
    found: dict[str, str] = {}
    for key in sorted(set(present).difference(KEYS)):
        namespace, _, name = key.rpartition(":")
        if name == _NAMESPACE:  # a map with all keys
            meant = POOLS if POOLS in missing else ""
        elif _is_of_package(key):
            meant = _meant(name, [each for each in missing if each in _OF_PACKAGE])
        else:
            meant = next((each for each in missing if _is_slip(namespace, name, each)), "")
        if meant and meant not in found.values():
            found[key] = meant
    return found


def _meant(name: str, keys: Collection[str]) -> str:
    """Return the key with the most similar name, or an empty text."""
    names = {key.partition(":")[2]: key for key in keys}
    return names.get(nearest(name, names), "")


def _is_of_package(key: str) -> bool:
    """Return True for a key in this package's namespace, also if the namespace is written as gpuci or GPU_CI."""
    namespace, colon, _ = key.partition(":")
    return bool(colon) and re.sub("[^a-z]", "", namespace.lower()) == "gpuci"


def _is_slip(namespace: str, name: str, known: str) -> bool:
    """Return True if a key is the known one with a slip in its namespace or in its name, or without a namespace.

    Other programs have keys in other namespaces, and the providers have other keys. So only one of the two may differ.
    Any stack needs pools, so a stack without them may have them in any namespace: `pulumi config set pools` writes them
    into the namespace of the project.
    """
    known_namespace, _, known_name = known.partition(":")
    if name == known_name:
        swapped = sorted(namespace) == sorted(known_namespace)
        return not namespace or known == POOLS or swapped or bool(closest(namespace, [known_namespace], _SLIP))
    return namespace == known_namespace and bool(closest(name, [known_name], _SLIP))


def _project_problems(project: Any) -> list[Problem]:
    return section_problems(Provider, {} if project is None else {"project": project}, "gcp:")


def _manager_problems(manager: Any) -> Sequence[Problem]:
    if manager is None:
        return []
    from ..gcp.runner_manager import ManagerChoices  # loads Pulumi's Google package, which only some stacks need

    return section(ManagerChoices, MANAGER, manager)


def _github_problems(github: Any, site: Any, unread: Collection[str]) -> Sequence[Problem]:
    if github is None:
        return []
    from .github import Github  # loads Pulumi's GitHub package, half a second that only some stacks need

    problems = section(Github, GITHUB, github)
    owner = site.get("github") if isinstance(site, Mapping) else None
    problems += plans.problems(github, owner.get("plan") if isinstance(owner, Mapping) else None)
    if SITE not in unread and not owner:
        expected = str(GithubOwner.model_fields["owner"].description)
        hint = f"pulumi config set --path '{SITE}.github.owner' …"
        problems.append(
            Problem(f"{SITE}.github.owner", f"is missing, but {GITHUB} needs it", "nothing", expected, hint)
        )
    return problems
