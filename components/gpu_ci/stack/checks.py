"""Checks a whole stack file: every key that the program reads, and the dependencies between keys."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .. import extras
from ..errors import Problem, did_you_mean, unknown_key
from ..github import plans
from . import clusters, pools, quotas, requirements
from .clusters import CLUSTERS
from .hints import section, section_problems
from .pools import POOLS, PoolSpec
from .quotas import QUOTAS, Quotas
from .site import GITHUB, MANAGER, SITE, GithubOwner, Provider, Site

PROJECT = "gcp:project"
KEYS = (PROJECT, SITE, GITHUB, MANAGER, CLUSTERS, QUOTAS, POOLS)
"""The keys of a stack file that the program reads. The other keys configure providers."""

_NAMESPACE = "gpu-ci:"


@dataclass(frozen=True)
class Checked:
    """The pools and quotas of a stack file, and every problem of the file."""

    pools: list[PoolSpec]
    quotas: Quotas
    problems: list[Problem]


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
    project, site, github = values[PROJECT], values[SITE], values[GITHUB]
    project_needed = complete or project is not None
    problems = _project_problems(project, present) if project_needed and PROJECT not in unread else []
    problems += section(Site, SITE, site)
    # The hint of one missing package names all of them, so that one installation is enough.
    needed = pools.needed_extras(values[POOLS]) | ({"github"} if github is not None else set())
    problems += _with_package(GITHUB, needed, lambda: _github_problems(github, site, unread))
    problems += _with_package(MANAGER, needed, lambda: _manager_problems(values[MANAGER]))
    choices: list[PoolSpec] = []
    if POOLS not in unread:
        registration = requirements.managed_registration(site, github)
        choices, found = pools.check(values[POOLS], values[CLUSTERS], CLUSTERS not in unread, registration, needed)
        problems += requirements.missing_subnetworks(choices, site, found) if complete and SITE not in unread else []
        problems += found
    problems += _with_package(CLUSTERS, needed, lambda: clusters.problems(values[CLUSTERS], choices))
    problems += requirements.missing_registration(choices, site, github, unread) if complete else []
    problems += requirements.missing_for_manager(choices, values, unread)
    problems += requirements.duplicate_scale_sets(choices)
    problems = requirements.add_incompatible(problems, choices, site, github)
    valid = list(pools.valid_pools(choices, problems))
    granted, found = quotas.check(
        values[QUOTAS], quotas.demands(valid), str(project or ""), quotas.ladder_demands(valid)
    )
    return Checked(choices, granted, problems + found)


def _with_package(path: str, needed: Collection[str], find: Callable[[], Sequence[Problem]]) -> Sequence[Problem]:
    """Return the problems of a key, or one problem if the package that its check imports is not installed."""
    try:
        return find()
    except ModuleNotFoundError as error:
        if not (hint := extras.hint(error.name or "", needed)):
            raise
        return [Problem(path, f"needs {error.name}", hint=hint)]


def unknown_keys(present: Collection[str]) -> list[Problem]:
    """Report keys that start with gpu-ci: but do not exist, such as misspelt keys and fields of gpu-ci:site."""
    known = [path for path in KEYS if path.startswith(_NAMESPACE)]
    site_keys = {f"{_NAMESPACE}{name}": f"{SITE}.{name}" for name in Site.choice_names()}
    found = []
    for path in sorted(present):
        if path.startswith(_NAMESPACE) and path not in known:
            problem = unknown_key(path, path, known)
            found.append(replace(problem, hint=f"write it as {site_keys[path]}") if path in site_keys else problem)
    return found


def _project_problems(project: Any, present: Collection[str]) -> list[Problem]:
    given = {} if project is None else {"project": project}
    return [_misspelt(problem, present) for problem in section_problems(Provider, given, "gcp:")]


def _misspelt(problem: Problem, present: Collection[str]) -> Problem:
    """Return the problem of a missing key with a hint that names a similar key of the file, if there is one."""
    near = next((key for key in sorted(present) if key not in KEYS and did_you_mean(key, [problem.path])), "")
    if problem.text != "is missing" or not near:
        return problem
    return replace(problem, hint=f"did you mean {problem.path} where it says {near}")


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
