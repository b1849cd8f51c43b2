"""The models of gpu-ci:site: project, subnetworks, networks, labels and the organization on GitHub."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    TypeAdapter,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError, ValidationError

from ..args import OPEN, Args, Redacted, StrictBool
from ..errors import at_path, invalid, nearest, raise_problems
from ..gcp.network_choices import NetworkChoices, network_region
from ..gcp.regions import COMPUTE
from ..gcp.resource_names import REGION, ZONE, Project, Subnetwork
from ..github.plans import Plan
from ..labels import Labels
from ..secret_manager import StackSecret

SITE, GITHUB, MANAGER = "gpu-ci:site", "gpu-ci:github", "gpu-ci:manager"
"""The keys of a stack file for the site, for settings on GitHub, and for the runner manager."""

_LINK = TypeAdapter[str](Subnetwork)

# YAML reads an id as a number, but GitHub's provider requires text.
Number = Annotated[
    str,
    Field(pattern=r"^[1-9][0-9]{0,18}$"),
    BeforeValidator(lambda value: str(value) if isinstance(value, int) and not isinstance(value, bool) else value),
    WithJsonSchema({"type": ["integer", "string"], "pattern": "^[1-9][0-9]{0,18}$", "minimum": 1}),
]


def _region(name: str) -> str:
    if not re.fullmatch(REGION, name):
        near = nearest(name, COMPUTE)
        hint = "such as us-central1" if not near else f"a region has no letter at its end, such as {near}"
        raise invalid(
            "is not a region",
            "not-a-region",
            hint=hint if re.fullmatch(ZONE, name) or not near else f"did you mean {near}",
        )
    return name


class Provider(Args):
    """The keys of Pulumi's gcp provider that the program reads."""

    EXAMPLE: ClassVar[dict[str, Any]] = {"project": "acme-ci"}

    project: Project = Field(
        description="the id (not the number) of the pools' Google Cloud project: 6 to 30 lower-case letters, digits "
        "and dashes, beginning with a letter",
    )


class GithubApp(Args):
    """A GitHub App, with the name of the secret that holds its private key."""

    id: Number = Field(description="the App's id, a number shown on its settings page", examples=[123456])
    installation_id: Number = Field(
        description="the number of the App's installation in the organization", examples=[12345678]
    )
    private_key: StackSecret = Field(
        description="the secret with the App's private key: projects/<project>/secrets/<name> in Secret Manager, or "
        "the ARN of a secret in AWS Secrets Manager, which machines and a runner manager on Google Cloud cannot read",
        examples=["projects/acme-ci/secrets/github-app-key"],
    )


# The fields with Apps, in the order of the model. Each field needs a separate App, because the key of an App grants all
# permissions of the App.
_APPS = ("app", "runner_app", "manager_app")


class GithubOwner(Args):
    """The organization on GitHub and the GitHub Apps of the stack."""

    owner: Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9-]{0,37}[A-Za-z0-9])?$")] = Field(
        description="the organization, such as acme"
    )
    plan: Plan | None = Field(
        default=None,
        examples=["team"],
        description="GitHub plan of the organization: free, team or enterprise (Enterprise Cloud). A feature of "
        "gpu-ci:github that the plan lacks is then an error. By default the preview names the plan that each feature "
        "needs",
    )
    app: Annotated[GithubApp | None, Redacted()] = Field(
        default=None,
        examples=[{"id": 123456, "installationId": 12345678, "privateKey": "projects/acme-ci/secrets/github-app-key"}],
        description="the GitHub App that the stack uses to create runner groups, secrets and rules; by default the "
        "owner of GITHUB_TOKEN",
    )
    runner_app: Annotated[GithubApp | None, Redacted()] = Field(
        default=None,
        examples=[
            {"id": 234567, "installationId": 23456789, "privateKey": "projects/acme-ci/secrets/github-runner-app-key"}
        ],
        description="the GitHub App that registers the runners of clusters and, without managerApp, of machines. Its "
        "only permission is Self-hosted runners: read and write. Clusters and machines can read its key, so it must "
        "not be the same App as app",
    )
    manager_app: Annotated[GithubApp | None, Redacted()] = Field(
        default=None,
        description="the GitHub App of the runner manager, with Self-hosted runners: read and write and Actions: read "
        "and write. The manager registers the runners of machines, and no machine can read a key. It must not be the "
        "same App as runnerApp. Without managerApp, the stack has no output `manager`, and machines register their "
        "runners with runnerApp",
    )
    pool_apps: Annotated[dict[str, GithubApp], Redacted()] = Field(
        default={},
        examples=[{"l4": {"id": 345678, "installationId": 34567890, "privateKey": "projects/acme-ci/secrets/l4-key"}}],
        description="the GitHub App that registers the runners of a pool on a cluster instead of runnerApp, by the "
        "name of the pool, with the same permission. Jobs of a pool with containerMode kubernetes or "
        "kubernetes-novolume can read the key",
    )

    @field_validator(*_APPS)
    @classmethod
    def _an_app_of_its_own(cls, value: GithubApp | None, info: ValidationInfo) -> GithubApp | None:
        others = _APPS[: _APPS.index(str(info.field_name))]
        _differs(value, {to_camel(name): info.data.get(name) for name in others})
        return value

    @field_validator("pool_apps")
    @classmethod
    def _apps_of_their_own(cls, values: dict[str, GithubApp], info: ValidationInfo) -> dict[str, GithubApp]:
        others = {to_camel(name): info.data.get(name) for name in _APPS}
        for pool, app in values.items():
            _differs(app, others, pool)
            others[f"poolApps.{pool}"] = app
        return values

    @property
    def cluster_apps(self) -> dict[str, GithubApp]:
        """The Apps that register runners on clusters, by their paths."""
        shared = {"runnerApp": self.runner_app} if self.runner_app else {}
        return {**shared, **{f"poolApps.{pool}": app for pool, app in self.pool_apps.items()}}


def _differs(app: GithubApp | None, others: Mapping[str, GithubApp | None], *path: str) -> None:
    """Raise an error, at this path, for an App that is also one of the others."""
    for name, other in others.items():
        for field, what in (("id", "App"), ("installation_id", "installation"), ("private_key", "key")):
            if app and other and getattr(app, field) == getattr(other, field):
                problem = invalid(
                    f"is also the {what} of {name}",
                    "shared-app",
                    expected="a separate GitHub App with a separate key",
                    safe_hint="create another GitHub App (docs/guides/github.md, Apps and their permissions)",
                )
                raise_problems([at_path(problem, "a GitHub App", *path, to_camel(field))])


def app_entries(github: Any) -> dict[str, Any]:
    """Return the entries of gpu-ci:site.github that are Apps, by their paths. They may be invalid."""
    given: Mapping[str, Any] = github if isinstance(github, Mapping) else {}
    pools = given.get("poolApps")
    found = {key: given.get(key) for key in map(to_camel, _APPS)}
    found |= {f"poolApps.{pool}": app for pool, app in pools.items()} if isinstance(pools, Mapping) else {}
    return {path: app for path, app in found.items() if isinstance(app, Mapping)}


class Site(Args):
    """The networks, labels and GitHub organization that all pools of a stack use."""

    EXAMPLE: ClassVar[dict[str, Any]] = {
        "subnetworks": {"us-central1": "projects/acme-ci/regions/us-central1/subnetworks/ci"},
        "networks": {"europe-west4": {"ipRange": "10.10.0.0/20"}},
        "labels": {"team": "platform"},
        "github": {"owner": "acme"},
    }

    subnetworks: dict[str, str] = Field(
        default={},
        description="an existing subnetwork for the machines of each region, as "
        "projects/<project>/regions/<region>/subnetworks/<name>",
    )
    networks: dict[Annotated[str, AfterValidator(_region), AfterValidator(network_region)], NetworkChoices] = Field(
        default={},
        validate_default=True,
        description="for each region without an entry in subnetworks, the network that the stack creates: no "
        "incoming connections, and Cloud NAT for outgoing ones",
    )
    labels: Labels = Field(default={}, description="Google labels for every resource that supports labels")
    github: GithubOwner | None = Field(default=None, description="the organization on GitHub and its GitHub Apps")
    bootstrap_roles: StrictBool = Field(
        default=False,
        description="whether the stack uses the custom roles that bootstrap/ made in the project; by default, it "
        "creates roles, which the deployer of bootstrap/ may not",
    )

    @field_validator("subnetworks", mode="before")
    @classmethod
    def _subnetworks(cls, values: Any) -> Any:
        return _each(values, _subnetwork)

    @field_validator("networks")
    @classmethod
    def _networks(cls, values: dict[str, NetworkChoices], info: ValidationInfo) -> dict[str, NetworkChoices]:
        given = info.data.get("subnetworks", {})
        error = invalid(
            "has a subnetwork already, under subnetworks", "network-and-subnetwork", hint="remove one of the two"
        )
        raise_problems([at_path(error, "a map", region) for region in values if region in given])
        return values

    def wiring(self, project: str, regions: Sequence[str]) -> dict[str, Any]:
        """Return the arguments that the site gives an entry. A kind takes those that it has.

        The subnetwork of a region is OPEN if the stack creates its network, or if the stack file has none.

        Args:
            project: The project; empty if it is not known.
            regions: The regions of the entry. The first is its own region.
        """
        subnetworks = {**dict.fromkeys((*regions, *self.networks), OPEN), **self.subnetworks}
        return {
            **({"project": project} if project else {}),
            "labels": dict(self.labels),
            "tags": dict(self.labels),
            "bootstrap_roles": self.bootstrap_roles,
            "subnetwork": subnetworks[regions[0]],
            "ladder_subnetworks": subnetworks,
        }


def _each(values: Any, check: Callable[[str, str], list[tuple[PydanticCustomError, str]]]) -> Any:
    """Check all entries of a map, and raise one error with all problems.

    `check` returns the problems of an entry, each with the wrong key or value.
    """
    if not isinstance(values, dict):
        return values
    problems = []
    for key, value in values.items():
        wrong = check(key, value) if isinstance(value, str) else [(invalid("must be text", "wrong-type"), value)]
        problems += [at_path(problem, got, key) for problem, got in wrong]
    raise_problems(problems)
    return values


def _subnetwork(region: str, link: str) -> list[tuple[PydanticCustomError, str]]:
    """Return the problems of one entry, each with the wrong key or value."""
    wrong = []
    try:
        _region(region)
    except PydanticCustomError as problem:
        wrong.append((problem, region))
    try:
        _LINK.validate_python(link)
    except ValidationError:
        return [*wrong, (invalid("is not a subnetwork's path", "not-a-subnetwork"), link)]
    *_, actual, _, _ = link.split("/")
    if not wrong and actual != region:
        return [
            (
                invalid(f"is a subnetwork of another region, {actual}", "other-region", hint=f"put it under {actual}"),
                link,
            )
        ]
    return wrong
