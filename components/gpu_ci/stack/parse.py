"""Reads a stack file once: its typed settings, every problem, and the late inputs of its entries.

A late input is a value that only a deployment has: the subnetwork of a network that the stack creates, the facts of a
cluster, the created runner group. It is OPEN in the arguments of an entry.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from .. import extras
from ..errors import Problem, did_you_mean
from ..github import plans
from ..pool_args import PoolArgs
from ..validation_errors import join
from . import clusters, images, pools, provider_secrets, quotas, requirements, teams
from .clusters import CLUSTERS
from .entries import Spec, check_entries
from .hints import section, with_hints
from .images import IMAGES
from .lines import LineOf, no_line
from .manager import ManagerSettings, on_aws
from .pools import POOLS, PoolSpec
from .quotas import QUOTAS, Quotas
from .site import GITHUB, MANAGER, SITE, GithubOwner, Provider, Site
from .teams import TEAMS, Team

if TYPE_CHECKING:
    from ..kubernetes.cluster import Cluster
    from .github import Github
    from .notebooks import NotebookEntry

PROJECT = "gcp:project"
NOTEBOOKS = "gpu-ci:notebooks"
KEYS = (PROJECT, SITE, GITHUB, MANAGER, TEAMS, CLUSTERS, IMAGES, QUOTAS, POOLS, NOTEBOOKS)
"""The keys of a stack file that the program reads. The other keys configure providers."""

_NAMESPACE = "gpu-ci:"
_T = TypeVar("_T")


@dataclass(frozen=True)
class Stack:
    """A stack file. Each key is parsed once, when it is first needed, because some keys load the packages of a cloud.

    An attribute of a key with problems has a default: None, an empty value, or entries without arguments.
    """

    name: str
    """The name of the file, for messages."""
    stack: str
    """The name of the stack, which is a part of names."""
    config: Mapping[str, Any]
    """The value of each key, also of the keys of providers. A value may be text in JSON."""
    secrets: Collection[str] = ()
    """The keys with an encrypted value. The program cannot use them."""
    line_of: LineOf = no_line
    """The function that returns the line of a path such as `gpu-ci:pools.l4`."""

    @property
    def complete(self) -> bool:
        """True if the file must have the project, subnetworks and registration that its pools need."""
        return True

    @cached_property
    def values(self) -> dict[str, Any]:
        """The decoded value of each of KEYS. It is None for a missing key, and for a secret."""
        return {key: None if key in self.secrets else decoded(key, self.config.get(key)) for key in KEYS}

    def at(self, path: str) -> Any:
        """Return the value at a dotted path, such as gpu-ci:site.github.owner, or None."""
        key, *names = path.split(".")
        value = self.values[key]
        for name in names:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value

    @property
    def project(self) -> str:
        """The Google Cloud project; empty if the file does not name one in plain text."""
        return self.values[PROJECT] or ""

    @property
    def site(self) -> Site:
        return self._site[0] or Site()

    @property
    def github(self) -> Github | None:
        return self._github[0]

    @property
    def manager(self) -> ManagerSettings | None:
        return self._manager[0]

    @property
    def teams(self) -> dict[str, Team]:
        """The teams by name."""
        return self._teams[0]

    @property
    def problems_of_teams(self) -> list[Problem]:
        """Every problem of the teams, or that the key is a secret."""
        return self._secret(TEAMS) or self._teams[1]

    @property
    def clusters(self) -> dict[str, Cluster]:
        """The clusters by name."""
        return self._clusters[0] or {}

    @property
    def specs(self) -> list[PoolSpec]:
        """The pools of a known kind, sorted by name."""
        return self._pools[0]

    @property
    def pipelines(self) -> list[Spec]:
        """The image pipelines of a known kind, sorted by name."""
        return self._pipelines[0]

    @property
    def notebooks(self) -> dict[str, NotebookEntry]:
        """The notebook pipelines by name."""
        return self._notebooks[0] or {}

    @cached_property
    def pools(self) -> list[tuple[str, PoolArgs]]:
        """Name and arguments of each pool whose fields have no problem."""
        return pools.valid_pools(self.specs, self.problems_of_pools)

    @property
    def problems_of_pools(self) -> list[Problem]:
        """Every problem of the pools' fields, or that the key is a secret."""
        return self._secret(POOLS) or self._pools[1]

    @property
    def problems_of_pipelines(self) -> list[Problem]:
        """Every problem of the fields of image pipelines, or that the key is a secret."""
        return self._secret(IMAGES) or self._pipelines[1]

    @property
    def problems_of_limits(self) -> list[Problem]:
        """Every mistake in the limits, or that the key is a secret."""
        return self._secret(QUOTAS) or [*self.quotas.mistakes]

    @property
    def quotas(self) -> Quotas:
        """The limits, compared with the needs of the pools without a problem."""
        return self._quotas[0]

    @property
    def problems(self) -> list[Problem]:
        """Every problem of the file."""
        return self._problems + self._quotas[1]

    @cached_property
    def _problems(self) -> list[Problem]:
        """Every problem, except those of quotas, which depend on the pools without a problem."""
        site, github = self.values[SITE], self.values[GITHUB]
        specs: list[Spec] = [*self.specs, *self.pipelines]
        of_entries = self._pools[1] + self._pipelines[1]
        problems = unknown_keys(self.config) + provider_secrets.in_plain_text(self.config, self.secrets) + self._secrets
        problems += self._project_problems() + self._site[1] + self._github[1] + self._manager[1] + self._teams[1]
        if self.complete and SITE not in self.secrets:
            problems += requirements.missing_subnetworks(specs, site, problems + of_entries)
        problems += self._pools[1] + self._clusters[1] + self._pipelines[1] + self._notebooks[1]
        if self.complete:
            has_manager = self.values[MANAGER] is not None
            problems += requirements.missing_registration(self.specs, site, github, self.secrets, manager=has_manager)
        problems += requirements.missing_for_manager(self.specs, self.values, self.secrets)
        problems += requirements.not_for_the_public(self.specs, site, github, self.secrets)
        problems += requirements.duplicate_scale_sets(self.specs)
        problems += requirements.names_of_others(specs, self.stack)
        problems += requirements.key_not_on_google(self.specs, site, github)
        # The wiring of an entry can be wrong although each key by itself is not, such as too many labels for AWS.
        return problems or [each for spec in specs if spec.args is None for each in spec.problems_of_wiring]

    def _secret(self, key: str) -> list[Problem]:
        """The problem of a key that is a secret, or no problem."""
        return [each for each in self._secrets if each.path == key]

    @property
    def _secrets(self) -> list[Problem]:
        """A problem for each key of KEYS that is a secret. One secret value makes the whole key a secret."""
        text = "is a secret, but resources and stack outputs show it in plain text"
        again = "pulumi config set --plaintext"
        return [
            # The engine does not report which value of the key is the secret.
            Problem(
                key,
                text,
                "a secret",
                "plain text",
                f"{again} '{key}' …; if only one value of the key is secure: {again} --path '{key}.…' …",
                rule="secret-value",
            )
            for key in KEYS
            if key in self.secrets
        ]

    @cached_property
    def _site(self) -> tuple[Site | None, list[Problem]]:
        return section(Site, SITE, self.values[SITE])

    @cached_property
    def _github(self) -> tuple[Github | None, list[Problem]]:
        return _with_package(GITHUB, self._parsed_github)

    @cached_property
    def _manager(self) -> tuple[ManagerSettings | None, list[Problem]]:
        return section(ManagerSettings, MANAGER, self.values[MANAGER])

    @cached_property
    def _teams(self) -> tuple[dict[str, Team], list[Problem]]:
        return teams.check(None if TEAMS in self.secrets else self.values[TEAMS])

    @cached_property
    def _clusters(self) -> tuple[dict[str, Cluster] | None, list[Problem]]:
        return _with_package(CLUSTERS, lambda: clusters.check(self.values[CLUSTERS], self.specs))

    @cached_property
    def _pools(self) -> tuple[list[PoolSpec], list[Problem]]:
        if POOLS in self.secrets:
            return [], []
        given, of_clusters = self.values[POOLS], self.values[CLUSTERS]
        if none := pools.missing(given):
            return [], none
        specs, problems = check_entries(pools.FAMILY, PoolSpec, given, of_clusters, self._has_clusters, self._wiring)
        return specs, problems + pools.same_labels(specs) + pools.problems_of_kinds(specs)

    @cached_property
    def _pipelines(self) -> tuple[list[Spec], list[Problem]]:
        given, of_clusters = self.values[IMAGES], self.values[CLUSTERS]
        if given is None:
            return [], []
        return check_entries(images.FAMILY, Spec, given, of_clusters, self._has_clusters, self._wiring_of_pipeline)

    @cached_property
    def _notebooks(self) -> tuple[dict[str, NotebookEntry] | None, list[Problem]]:
        return _with_package(NOTEBOOKS, self._parsed_notebooks)

    @cached_property
    def _quotas(self) -> tuple[Quotas, list[Problem]]:
        valid = pools.valid_pools(self.specs, self._problems)
        return quotas.check(self.values[QUOTAS], quotas.demands(valid), self.project, quotas.ladder_demands(valid))

    @property
    def _has_clusters(self) -> bool:
        """False without a map of clusters. Every pool on a cluster would then have a problem with the same cause."""
        return CLUSTERS not in self.secrets and isinstance(self.values[CLUSTERS], Mapping | None)

    def _wiring(self, spec: Spec) -> dict[str, Any]:
        registration = requirements.registration(self.values[SITE], self.values[GITHUB], self.stack)
        return self.site.wiring(self.project, spec.regions) | registration

    def _wiring_of_pipeline(self, spec: Spec) -> dict[str, Any]:
        component: Any = spec.component
        pinned = images.pinned([(each.name, each.choices) for each in self.specs], component.PINS)
        return {
            **self._wiring(spec),
            "pools": [each.name for each in self.specs if each.cluster == spec.cluster],
            "pinned": sorted(set(pinned.values())),
        }

    def _project_problems(self) -> list[Problem]:
        project, specs = self.values[PROJECT], [*self.specs, *self.pipelines]
        manager = self.values[MANAGER]
        on_google = manager is not None and not on_aws(manager)
        only_aws = bool(specs) and not on_google and not any(spec.uses_google for spec in specs)
        google_secrets = [path for key in KEYS for path in _google_secrets(self.values[key], key)]
        # Without any pool, nothing says which cloud it needs, and the missing pool is a problem of its own.
        no_pools = POOLS not in self.secrets and bool(pools.missing(self.values[POOLS]))
        nothing = no_pools and not specs and not on_google
        needed = project is not None or (self.complete and not (nothing or (only_aws and not google_secrets)))
        if not needed or PROJECT in self.secrets:
            return []
        _, found = Provider.parse({} if project is None else {"project": project})
        found = [replace(each, path=PROJECT) for each in with_hints(found, Provider, Provider.EXAMPLE)]
        if only_aws and project is None:
            text = f"is missing, and secrets in Secret Manager need it: {', '.join(google_secrets)}"
            hint = "store them in AWS Secrets Manager, without a project (docs/start/bootstrap.md#aws-alone)"
            found = [replace(each, text=text, hint=hint) for each in found]
        return found

    def _parsed_notebooks(self) -> tuple[dict[str, NotebookEntry], list[Problem]]:
        if self.values[NOTEBOOKS] is None:
            return {}, []
        from . import notebooks  # loads Pulumi's Kubernetes package

        return notebooks.check(NOTEBOOKS, self.values[NOTEBOOKS], self.specs, self.values[POOLS], self.clusters)

    def _parsed_github(self) -> tuple[Github | None, list[Problem]]:
        github = self.values[GITHUB]
        if github is None:
            return None, []
        from .github import Github  # loads Pulumi's GitHub package, half a second that only some stacks need

        args, problems = section(Github, GITHUB, github)
        problems += plans.problems(github, self.at(f"{SITE}.github.plan"))
        if SITE not in self.secrets and not self.at(f"{SITE}.github"):
            path, expected = f"{SITE}.github.owner", str(GithubOwner.model_fields["owner"].description)
            hint = f"pulumi config set --path '{path}' …"
            problems.append(Problem(path, f"is missing, but {GITHUB} needs it", "nothing", expected, hint, "missing"))
        return args, problems


def decoded(key: str, value: Any) -> Any:
    """Return a value as the Pulumi program gets it: JSON text, as `pulumi config set` writes it, is decoded."""
    if key == PROJECT:  # a provider's key, which is text
        return value if isinstance(value, str | None) else json.dumps(value)
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value) if value else None
    except (ValueError, RecursionError):  # no JSON, a number that is too long, or lists without an end
        return value


def _google_secrets(value: Any, path: str) -> Iterator[str]:
    """Yield the paths of the names of secrets in Secret Manager."""
    steps: Any = value if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else {}
    for step, each in dict(steps).items():
        yield from _google_secrets(each, join(path, step if isinstance(step, int) else str(step)))
    if isinstance(value, str) and re.match(r"projects/[^/]+/secrets/", value):
        yield path


def _with_package(path: str, parse: Callable[[], tuple[_T | None, list[Problem]]]) -> tuple[_T | None, list[Problem]]:
    """Return the result for a key, or one problem if the package that its model imports is not installed."""
    try:
        return parse()
    except ModuleNotFoundError as error:
        if not (hint := extras.hint(error.name or "")):
            raise
        return None, [Problem(path, f"needs {error.name}", hint=hint, rule="package-missing")]


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
