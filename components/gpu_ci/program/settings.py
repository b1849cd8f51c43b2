"""Reads and checks the stack file for the Pulumi program. Only this module uses pulumi.Config."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pulumi
from pulumi.runtime import config as runtime_config

from gpu_ci.errors import Problem, report
from gpu_ci.stack import checks, clusters, images, provider_secrets
from gpu_ci.stack.checks import PROJECT
from gpu_ci.stack.clusters import CLUSTERS
from gpu_ci.stack.images import PipelineSpec
from gpu_ci.stack.lines import LineOf, no_line
from gpu_ci.stack.pools import PoolSpec
from gpu_ci.stack.quotas import Quotas
from gpu_ci.stack.site import GITHUB, MANAGER, SITE, Site

from .pools import Pipeline, Pool, registration
from .stack_file import stack_file, stack_lines

if TYPE_CHECKING:
    from gpu_ci.gcp.runner_manager import ManagerSettings
    from gpu_ci.kubernetes.cluster import Cluster
    from gpu_ci.stack.github import Github


@dataclass(frozen=True)
class Settings:
    """The settings of a valid stack file. The pools and the pipelines are sorted by name."""

    project: str
    site: Site
    pools: tuple[Pool, ...]
    quotas: Quotas
    github: Github | None = None
    clusters: Mapping[str, Cluster] = field(default_factory=dict)
    manager: ManagerSettings | None = None
    pipelines: tuple[Pipeline, ...] = ()
    keys: tuple[str, ...] = ()
    """All keys of the stack file, including those of providers."""


class SettingsError(pulumi.RunError):
    """An error with every problem of a stack file. Pulumi shows a RunError without a traceback."""

    def __init__(self, file: str, problems: Sequence[Problem], line_of: LineOf = no_line) -> None:
        count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''} in {file}"
        super().__init__(f"{report(file, problems, line_of)}\n{count}; no pool was created or changed")
        self.problems = tuple(problems)


def load() -> Settings:
    """Read and check the stack file. Raise SettingsError with every problem of the file."""
    present = _all_keys()
    problems = checks.unknown_keys(present) + _plain_secrets(present)
    values = {path: _read(path, problems) for path in checks.KEYS}
    checked = checks.check(values, {problem.path for problem in problems}, stack=pulumi.get_stack())
    problems += checked.problems
    if problems:
        raise SettingsError(stack_file(), problems, stack_lines(values))

    site = Site(**(values[SITE] or {}))
    github = _github(values[GITHUB])
    project = values[PROJECT] or ""  # a stack on AWS alone has none
    shared_wiring = {"project": project, **registration(site, github)}
    wired = tuple(_wired(spec, shared_wiring, site) for spec in checked.pools)
    described = clusters.described(values[CLUSTERS])
    manager = _manager(values[MANAGER])
    pipelines = tuple(_pipeline(spec, checked.pools, shared_wiring, site) for spec in checked.pipelines)
    return Settings(project, site, wired, checked.quotas, github, described, manager, pipelines, tuple(present))


def load_or_exit() -> Settings:
    """Load the settings, or end the program with the report of their problems.

    With exit code 32, Pulumi's Python language host adds no "unhandled error" below the report.
    """
    try:
        return load()
    except SettingsError as wrong:
        pulumi.log.error(str(wrong))
        sys.exit(32)


def _wired(spec: PoolSpec, shared_wiring: Mapping[str, Any], site: Site) -> Pool:
    # Pools on clusters get placeholders here. `clusters.with_cluster` replaces them with the outputs of the cluster.
    placeholders = spec.wiring() if spec.on_cluster else {}
    wiring = {**placeholders, **spec.model.wiring_of(site.wiring(shared_wiring, spec.region))}
    return Pool(spec.name, spec.kind, spec.component, spec.model(**spec.choices, **wiring), spec.region, spec.cluster)


def _pipeline(spec: PipelineSpec, pools: Sequence[PoolSpec], shared_wiring: Mapping[str, Any], site: Site) -> Pipeline:
    component: Any = spec.component
    model = component.ARGS
    # Pipelines on clusters get placeholders here. `clusters.pipelines_with_cluster` replaces them.
    placeholders = model.placeholder_wiring(spec.region, spec.choices) if spec.on_cluster else {}
    of_stack = {
        **site.wiring(shared_wiring, spec.region),
        "pools": [each.name for each in pools if each.cluster == spec.cluster],
        "pinned": sorted(set(images.pinned([(each.name, each.choices) for each in pools], component.PINS).values())),
    }
    args = model(**spec.choices, **{**placeholders, **spec.known_wiring, **model.wiring_of(of_stack)})
    return Pipeline(spec.name, spec.kind, component, args, spec.region, spec.cluster)


def _github(value: Any) -> Github | None:
    """Return the settings on GitHub. The import takes half a second, so stacks without these settings skip it."""
    if value is None:
        return None
    from gpu_ci.stack.github import Github

    return Github(**value)


def _manager(value: Any) -> ManagerSettings | None:
    """Return the settings of the runner manager."""
    if value is None:
        return None
    from gpu_ci.gcp.runner_manager import ManagerSettings

    return ManagerSettings(**value)


def _read(path: str, problems: list[Problem]) -> Any:
    """Return the decoded value of a key, or None if it is missing or secret. Add a problem for a secret value."""
    namespace, _, key = path.partition(":")
    if runtime_config.is_config_secret(path):
        fault = "is a secret, but resources and stack outputs show it in plain text"
        # One secret value makes the whole key secret. The engine does not report which value is the secret.
        again = "pulumi config set --plaintext"
        hint = f"{again} '{path}' …; if only one value of the key is secure: {again} --path '{path}.…' …"
        problems.append(Problem(path, fault, "a secret", "plain text", hint, rule="secret-value"))
        return None
    text = pulumi.Config(namespace).get(key)
    if not text:  # the engine passes an empty text for a key without a value
        return None
    try:
        return json.loads(text) if path != PROJECT else text
    except json.JSONDecodeError:
        return text


def _plain_secrets(present: Sequence[str]) -> list[Problem]:
    """Report keys of providers with a secret in plain text."""
    texts = {path: pulumi.Config(path.partition(":")[0]).get(path.partition(":")[2]) for path in present}
    return provider_secrets.in_plain_text(texts, [path for path in texts if runtime_config.is_config_secret(path)])


def _all_keys() -> list[str]:
    """Return all keys of the stack file, including those of providers."""
    return sorted(runtime_config.CONFIG.get() or runtime_config.get_config_env())
