"""Checks a whole stack file: every key that the program reads, and the dependencies between keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .. import extras
from ..errors import Problem, did_you_mean
from ..github import plans
from ..validation_errors import join
from . import clusters, images, pools, quotas, requirements
from .clusters import CLUSTERS
from .hints import problems_of, section
from .images import IMAGES, PipelineSpec
from .pools import POOLS, PoolSpec
from .quotas import QUOTAS, Quotas
from .site import GITHUB, MANAGER, SITE, GithubOwner, Provider, Site

PROJECT = "gcp:project"
KEYS = (PROJECT, SITE, GITHUB, MANAGER, CLUSTERS, IMAGES, QUOTAS, POOLS)
"""The keys of a stack file that the program reads. The other keys configure providers."""

_NAMESPACE = "gpu-ci:"


@dataclass(frozen=True)
class Checked:
    """The pools, quotas and image pipelines of a stack file, and every problem of the file."""

    pools: list[PoolSpec]
    quotas: Quotas
    problems: list[Problem]
    pipelines: list[PipelineSpec]


def check(values: Mapping[str, Any], unread: Collection[str] = (), *, stack: str, complete: bool = True) -> Checked:
    """Check a stack file.

    Args:
        values: The decoded value of each of KEYS. The value of a missing key, and of a key in `unread`, is None.
        unread: The keys whose values are secret and cannot be read. The caller reports them.
        stack: The name of the stack, which is a part of names.
        complete: True if the file must have the project, subnetworks and registration that its pools need. False for
        the file of another program, which may set them in code.
    """
    project, site, github = values[PROJECT], values[SITE], values[GITHUB]
    problems = section(Site, SITE, site)
    problems += _with_package(GITHUB, lambda: _github_problems(github, site, unread))
    problems += _with_package(MANAGER, lambda: _manager_problems(values[MANAGER]))
    # Without a map of clusters, every pool on a cluster would have a problem with the same cause.
    has_clusters = CLUSTERS not in unread and isinstance(values[CLUSTERS], Mapping | None)
    choices: list[PoolSpec] = []
    found: list[Problem] = []
    if POOLS not in unread:
        registration = requirements.managed_registration(site, github)
        choices, found = pools.check(values[POOLS], values[CLUSTERS], has_clusters, registration)
    pipelines, of_images = images.check(values[IMAGES], values[CLUSTERS], has_clusters)
    specs: list[PoolSpec | PipelineSpec] = [*choices, *pipelines]
    only_aws = bool(specs) and values[MANAGER] is None and all(spec.cloud == "aws" for spec in specs)
    google_secrets = [path for key in KEYS for path in _google_secrets(values[key], key)]
    project_needed = project is not None or (complete and not (only_aws and not google_secrets))
    if project_needed and PROJECT not in unread:
        of_project = _project_problems(project)
        hint = "keep the secrets in AWS Secrets Manager, and the stack needs no project (docs/guides/eks.md)"
        if only_aws and project is None:
            text = f"is missing, and secrets in Secret Manager need it: {', '.join(google_secrets)}"
            of_project = [replace(each, text=text, hint=hint) for each in of_project]
        problems = of_project + problems
    if complete and SITE not in unread:
        problems += requirements.missing_subnetworks(specs, site, problems + found + of_images)
    problems += found
    problems += _with_package(CLUSTERS, lambda: clusters.problems(values[CLUSTERS], choices))
    problems += of_images
    if complete:
        has_manager = values[MANAGER] is not None
        problems += requirements.missing_registration(choices, site, github, unread, manager=has_manager)
    problems += requirements.missing_for_manager(choices, values, unread)
    problems += requirements.duplicate_scale_sets(choices)
    problems += requirements.names_of_others(specs, stack)
    problems += requirements.incompatible(choices, site, github)
    valid = list(pools.valid_pools(choices, problems))
    granted, found = quotas.check(
        values[QUOTAS], quotas.demands(valid), str(project or ""), quotas.ladder_demands(valid)
    )
    return Checked(choices, granted, problems + found, pipelines)


def _google_secrets(value: Any, path: str) -> Iterator[str]:
    """Yield the paths of the names of secrets in Secret Manager."""
    steps: Any = value if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else {}
    for step, each in dict(steps).items():
        yield from _google_secrets(each, join(path, step if isinstance(step, int) else str(step)))
    if isinstance(value, str) and re.match(r"projects/[^/]+/secrets/", value):
        yield path


def _with_package(path: str, find: Callable[[], Sequence[Problem]]) -> Sequence[Problem]:
    """Return the problems of a key, or one problem if the package that its check imports is not installed."""
    try:
        return find()
    except ModuleNotFoundError as error:
        if not (hint := extras.hint(error.name or "")):
            raise
        return [Problem(path, f"needs {error.name}", hint=hint, rule="package-missing")]


def unknown_keys(present: Collection[str]) -> list[Problem]:
    """Report keys of this package's namespace that the program does not read."""
    known = [key for key in KEYS if key.startswith(_NAMESPACE)]
    return [
        Problem(
            key,
            "unknown key",
            repr(key),
            f"one of {', '.join(known)}",
            did_you_mean(key, known) or "remove it",
            "unknown-field",
        )
        for key in sorted(present)
        if key.startswith(_NAMESPACE) and key not in known
    ]


def _project_problems(project: Any) -> list[Problem]:
    found = problems_of(Provider, Provider.EXAMPLE, {} if project is None else {"project": project})
    return [replace(each, path=PROJECT) for each in found]


def _manager_problems(manager: Any) -> Sequence[Problem]:
    if manager is None:
        return []
    from ..gcp.runner_manager import ManagerSettings  # loads Pulumi's Google package, which only some stacks need

    return section(ManagerSettings, MANAGER, manager)


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
            Problem(
                f"{SITE}.github.owner", f"is missing, but {GITHUB} needs it", "nothing", expected, hint, rule="missing"
            )
        )
    return problems
