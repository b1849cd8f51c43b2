"""The only reader of pulumi.Config: everything a stack file says, or one report of every mistake in it."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pulumi
from gpu_ci.errors import Problem, did_you_mean, report, unknown_key
from gpu_ci.github import plans
from gpu_ci.stack import clusters, pools, provider_secrets, quotas
from gpu_ci.stack.clusters import CLUSTERS
from gpu_ci.stack.hints import section, section_problems
from gpu_ci.stack.pools import POOLS, PoolSpec
from gpu_ci.stack.quotas import QUOTAS, Quotas
from pulumi.runtime import config as runtime_config

from infra import registration, requirements
from infra.pool import Pool
from infra.site import GITHUB, SITE, GithubOwner, Provider, Site
from infra.stack_file import stack_file

if TYPE_CHECKING:
    from gpu_ci.stack.cluster import Cluster

    from infra.github import Github

NAMESPACE = "gpu-ci"
PROJECT = "gcp:project"
KEYS = (PROJECT, SITE, GITHUB, CLUSTERS, QUOTAS, POOLS)
"""What the program reads of a stack file; what else stands there is for providers."""


@dataclass(frozen=True)
class Settings:
    """A stack file in which everything is in order; pools in the order of their names."""

    project: str
    site: Site
    pools: tuple[Pool, ...]
    quotas: Quotas
    github: Github | None = None
    clusters: Mapping[str, Cluster] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    """Every key of the stack file, the providers' too."""


class SettingsError(pulumi.RunError):
    """Every mistake of a stack file, as text: Pulumi shows a RunError without a traceback."""

    def __init__(self, file: str, problems: Sequence[Problem]) -> None:
        count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''} in {file}"
        super().__init__(f"{report(file, problems)}\n{count}; no pool was created or changed")
        self.problems = tuple(problems)


def load() -> Settings:
    """Read and check all of it. SettingsError tells everything that is wrong."""
    problems = _unknown_keys() + _plain_secrets()
    values = {path: _read(path, problems) for path in KEYS}
    refused = {problem.path for problem in problems}
    provider = {} if values[PROJECT] is None else {"project": values[PROJECT]}

    problems += [
        _misspelt(problem) for problem in section_problems(Provider, provider, "gcp:") if problem.path not in refused
    ]
    problems += section(Site, SITE, values[SITE])
    problems += _github_problems(values, refused)
    if POOLS in refused:
        choices: list[PoolSpec] = []
    else:
        choices, found = pools.check(values[POOLS], values[CLUSTERS], CLUSTERS not in refused)
        problems += [] if SITE in refused else requirements.missing_subnetworks(choices, values[SITE], found)
        problems += found
    problems += clusters.problems(values[CLUSTERS], choices)
    problems += requirements.missing_registration(choices, values[SITE], values[GITHUB], refused)
    problems += requirements.duplicate_scale_sets(choices)
    incompatible = requirements.incompatible(choices, values[SITE], values[GITHUB])
    # What has to go needs no mending first.
    problems = [problem for problem in problems if not requirements.is_superseded(problem, incompatible)] + incompatible
    demands = quotas.demands(pools.in_order(choices, problems))
    granted, found = quotas.check(values[QUOTAS], demands, str(values[PROJECT] or ""))
    problems += found
    if problems:
        raise SettingsError(stack_file(), problems)

    site = Site(**(values[SITE] or {}))
    github = _github(values[GITHUB])
    shared_wiring = {"project": values[PROJECT], **registration.wiring(site, github)}
    wired = tuple(_wired(spec, shared_wiring, site) for spec in choices)
    described = clusters.described(values[CLUSTERS])
    return Settings(values[PROJECT], site, wired, granted, github, described, tuple(_present()))


def _wired(spec: PoolSpec, shared_wiring: Mapping[str, Any], site: Site) -> Pool:
    model = spec.component.ARGS
    # What a cluster's pools share is made first, and takes the place of what stands in for it.
    known = spec.wiring() if "namespace" in model.WIRING else {}
    args = model(**spec.choices, **{**known, **site.wiring(shared_wiring, spec.region, model.WIRING)})
    return Pool(spec.name, spec.kind, spec.component, args)


def _github(value: Any) -> Github | None:
    """What is kept on GitHub. Its models bring Pulumi's GitHub package, half a second that only some stacks need."""
    if value is None:
        return None
    from infra.github import Github

    return Github(**value)


def _github_problems(values: Mapping[str, Any], refused: Collection[str]) -> list[Problem]:
    if values[GITHUB] is None:
        return []
    from infra.github import Github

    problems = section(Github, GITHUB, values[GITHUB])
    site = values[SITE]
    owner = site.get("github") if isinstance(site, Mapping) else None
    problems += plans.problems(values[GITHUB], owner.get("plan") if isinstance(owner, Mapping) else None)
    if SITE not in refused and not owner:
        expected = str(GithubOwner.model_fields["owner"].description)
        hint = f"pulumi config set --path '{SITE}.github.owner' …"
        problems.append(
            Problem(f"{SITE}.github.owner", f"is missing, and {GITHUB} is there", "nothing", expected, hint)
        )
    return problems


def _read(path: str, problems: list[Problem]) -> Any:
    """The value of a key, decoded; nothing when it is not there or may not be read."""
    namespace, _, key = path.partition(":")
    if runtime_config.is_config_secret(path):
        fault = "is a secret, but what is made of it can be read in the cloud and in the stack's outputs"
        # One secret value makes one of the whole key, and the engine does not tell which.
        again = "pulumi config set --plaintext"
        hint = f"{again} '{path}' …; where one value in it says secure, that one alone: {again} --path '{path}.…' …"
        problems.append(Problem(path, fault, expected="plain text", hint=hint))
        return None
    text = pulumi.Config(namespace).get(key)
    if not text:  # the engine hands over an empty text for a key without a value
        return None
    try:
        return json.loads(text) if path != PROJECT else text
    except json.JSONDecodeError:
        return text


def _unknown_keys() -> list[Problem]:
    """Keys of our own that nobody reads: most often a slip of the hand, or what belongs under the site."""
    known = [path for path in KEYS if path.startswith(f"{NAMESPACE}:")]
    site_keys = {f"{NAMESPACE}:{name}": f"{SITE}.{name}" for name in Site.choice_names()}
    found = []
    for path in _present():
        if path.startswith(f"{NAMESPACE}:") and path not in known:
            problem = unknown_key(path, path, known)
            found.append(replace(problem, hint=f"write it as {site_keys[path]}") if path in site_keys else problem)
    return found


def _plain_secrets() -> list[Problem]:
    """Keys of providers that hold a secret anybody who has the file can read."""
    texts = {path: pulumi.Config(path.partition(":")[0]).get(path.partition(":")[2]) for path in _present()}
    return provider_secrets.in_plain_text(texts, [path for path in texts if runtime_config.is_config_secret(path)])


def _present() -> list[str]:
    """Every key of the stack file, whoever reads it."""
    return sorted(runtime_config.CONFIG.get() or runtime_config.get_config_env())


def _misspelt(problem: Problem) -> Problem:
    """Where a key is missing, one of the stack file that looks like it; `gcp:` has keys of its own, which are many."""
    near = next((key for key in _present() if key not in KEYS and did_you_mean(key, [problem.path])), "")
    if problem.text != "is missing" or not near:
        return problem
    return replace(problem, hint=f"did you mean {problem.path} where it says {near}")
