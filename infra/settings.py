"""The only reader of pulumi.Config: everything a stack file says, or one report of every mistake in it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pulumi
from gpu_ci.args import Args
from gpu_ci.component import Component
from gpu_ci.errors import Problem, did_you_mean, report, unknown_key
from gpu_ci.explain import join
from gpu_ci.stack import pools, quotas
from gpu_ci.stack.hints import examples_of, with_hint
from gpu_ci.stack.pools import POOLS, Choice
from gpu_ci.stack.quotas import QUOTAS, Quotas
from pulumi.runtime import config as runtime_config

from infra.site import Site

NAMESPACE = "gpu-ci"


@dataclass(frozen=True)
class Pool:
    """One pool, ready to be built: its kind's component and checked arguments, wired to the site."""

    name: str
    kind: str
    component: type[Component]
    args: Args


@dataclass(frozen=True)
class Settings:
    """A stack file in which everything is in order; pools in the order of their names."""

    site: Site
    pools: tuple[Pool, ...]
    quotas: Quotas


class SettingsError(pulumi.RunError):
    """Every mistake of a stack file, as text: Pulumi shows a RunError without a traceback."""

    def __init__(self, file: str, problems: Sequence[Problem]) -> None:
        count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''} in {file}"
        super().__init__(f"{report(file, problems)}\n{count}; no pool was created or changed")
        self.problems = tuple(problems)


def load() -> Settings:
    """Read and check all of it. SettingsError tells everything that is wrong."""
    problems = _unknown_keys()
    values = {path: _read(path, problems) for path in (*Site.KEYS.values(), QUOTAS, POOLS)}
    refused = {problem.path for problem in problems}

    given = {field: values[path] for field, path in Site.KEYS.items() if values[path] is not None}
    problems += [problem for problem in _site_problems(given) if problem.path not in refused]
    if POOLS in refused:
        choices: list[Choice] = []
    else:
        choices, found = pools.check(values[POOLS])
        problems += _unplaced(choices, given.get("subnetworks"), found) + found
    asked = quotas.demands((choice.name, choice.alone()) for choice in pools.in_order(choices, problems))
    granted, found = quotas.check(values[QUOTAS], asked, str(given.get("project", "")))
    problems += found
    if problems:
        raise SettingsError(f"Pulumi.{pulumi.get_stack()}.yaml", problems)

    site = Site(**given)
    return Settings(site, tuple(_wired(choice, site) for choice in choices), granted)


def _wired(choice: Choice, site: Site) -> Pool:
    args = choice.component.ARGS(**choice.choices, **site.wiring(choice.region, choice.component.ARGS.WIRING))
    return Pool(choice.name, choice.kind, choice.component, args)


def _read(path: str, problems: list[Problem]) -> Any:
    """The value of a key, decoded; nothing when it is not there or may not be read."""
    namespace, _, key = path.partition(":")
    if runtime_config.is_config_secret(path):
        fault = "is a secret, but what is made of it can be read in the cloud and in the stack's outputs"
        hint = f"write it in plain text: pulumi config rm '{path}', then set it without --secret"
        problems.append(Problem(path, fault, expected="plain text", hint=hint))
        return None
    text = pulumi.Config(namespace).get(key)
    if not text:  # the engine hands over an empty text for a key without a value
        return None
    try:
        return json.loads(text) if path != Site.KEYS["project"] else text
    except json.JSONDecodeError:
        return text


def _unknown_keys() -> list[Problem]:
    """Keys of our own that nobody reads: most often a slip of the hand."""
    known = [path for path in (*Site.KEYS.values(), QUOTAS, POOLS) if path.startswith(f"{NAMESPACE}:")]
    return [
        unknown_key(path, path, known) for path in _present() if path.startswith(f"{NAMESPACE}:") and path not in known
    ]


def _present() -> list[str]:
    """Every key of the stack file, whoever reads it."""
    return sorted(runtime_config.CONFIG.get() or runtime_config.get_config_env())


def _site_problems(given: dict[str, Any]) -> list[Problem]:
    """What is wrong with the surroundings, under the names the stack file has for them."""
    examples = {Site.KEYS[field]: value for field, value in examples_of(Site, Site.EXAMPLE).items()}
    found = []
    for problem in Site.choice_problems(given):
        field = next(field for field in Site.KEYS if problem.path.startswith(field))
        named = replace(problem, path=Site.KEYS[field] + problem.path[len(field) :])
        if problem.text == "is missing" and (near := _misspelt(named.path)):
            named = replace(named, hint=f"did you mean {named.path} where it says {near}")
        found.append(with_hint(named, examples))
    return found


def _misspelt(path: str) -> str:
    """A key of the stack file that looks like this one; `gcp:` has keys of its own, which nobody here knows."""
    return next((key for key in _present() if key not in Site.KEYS.values() and did_you_mean(key, [path])), "")


def _unplaced(choices: list[Choice], subnetworks: Any, found: list[Problem]) -> list[Problem]:
    """Regions that have a pool and no subnetwork, as far as the pools' zones are known to be right."""
    wrong = {problem.path for problem in found}
    missing: dict[str, list[str]] = {}
    joining = [choice for choice in choices if "subnetwork" in choice.component.ARGS.WIRING]
    for choice in joining:
        zones_fine = not any(path.startswith(f"{choice.path}.zones") for path in wrong)
        if isinstance(subnetworks, dict) and choice.cloud == "gcp" and zones_fine and choice.region not in subnetworks:
            missing.setdefault(choice.region, []).append(choice.name)
    path = Site.KEYS["subnetworks"]
    return [
        Problem(
            join(path, region),
            f"is missing, and {', '.join(names)} {'is' if len(names) == 1 else 'are'} in that region",
            got="nothing",
            expected=str(Site.model_fields["subnetworks"].description),
            hint=f"pulumi config set --path '{join(path, region)}' projects/…/regions/{region}/subnetworks/…",
        )
        for region, names in sorted(missing.items())
        if region
    ]
