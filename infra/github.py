"""What pools and their jobs need on GitHub: a runner group, secrets by reference, and rules of repositories."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import pulumi
import pulumi_github as github
from gpu_ci import naming
from gpu_ci.args import Args, Redacted
from gpu_ci.errors import at_path, invalid, raise_problems
from gpu_ci.gcp.resource_names import SecretName
from gpu_ci.github.actions_secrets import ActionsSecrets, ActionsSecretsArgs
from gpu_ci.github.names import KeysOnce, SettingName
from gpu_ci.github.repository_rules import RepositoryRules, RepositoryRulesArgs
from gpu_ci.github.runner_group import RunnerGroup, RunnerGroupArgs
from pydantic import AfterValidator, Field, field_validator

from infra.secret_values import values_of
from infra.site import GITHUB, SITE, GithubApp, Site
from infra.stack_file import stack_file

# What of a scope says where a secret is kept: an organization keeps a name once, whichever repositories may have it.
_PLACE = {"kind", "repository", "environment"}
_KEY = f"{SITE}.github.app.privateKey"


def _name(value: str) -> str:
    """One that becomes part of resources' names."""
    if not re.fullmatch(naming.PATTERN, value):
        raise invalid("the name has a form that is not accepted", expected=naming.FORM, safe_hint="such as kernels")
    return value


_Name = Annotated[str, AfterValidator(_name)]


class SecretsByReference(ActionsSecretsArgs):
    """Secrets and variables of a place on GitHub; where a secret lies is said here, and never what it is."""

    WIRING: ClassVar[frozenset[str]] = frozenset()

    secrets: Annotated[dict[SettingName, SecretName], KeysOnce] = Field(  # type: ignore[assignment]
        default={},
        validate_default=True,
        description="name on GitHub to the secret of Secret Manager its value lies in, as "
        "projects/<project>/secrets/<name>; the newest version is taken",
    )


class Github(Args):
    """What is kept on GitHub."""

    EXAMPLE: ClassVar[dict[str, Any]] = {
        "runnerGroup": RunnerGroup.EXAMPLE,
        "secrets": {"kernels": {"scope": {"kind": "repository", "repository": "kernels"}}},
        "rules": {"kernels": RepositoryRules.EXAMPLE},
    }

    runner_group: RunnerGroupArgs | None = Field(
        default=None, description="the group runners of this stack register into; named gpu-<stack> by default"
    )
    # A value that stands here by mistake, a line too high say, may be the secret itself.
    secrets: Annotated[dict[_Name, SecretsByReference], Redacted()] = Field(
        default={}, description="by a name of your own, secrets and variables of a repository, environment or more"
    )
    rules: dict[_Name, RepositoryRulesArgs] = Field(
        default={}, description="by a name of your own, what holds for the default branch of a repository"
    )

    @field_validator("secrets")
    @classmethod
    def _each_kept_once(cls, value: dict[str, SecretsByReference]) -> dict[str, SecretsByReference]:
        """Two entries that keep the same secret would take it from each other."""
        owners: dict[tuple[str, ...], str] = {}
        problems = []
        for name, args in value.items():
            place = tuple(str(part).lower() for part in args.scope.model_dump(include=_PLACE).values())
            for sort in ("secrets", "variables"):
                for key in getattr(args, sort):
                    first = owners.setdefault((*place, sort, key.upper()), name)
                    if first != name:
                        error = invalid(
                            f"is kept by {first} already; case does not count", hint="remove one of the two"
                        )
                        problems.append(at_path(error, "a name", name, sort, key))
        raise_problems(problems)
        return value


def build(github_settings: Github | None, site: Site) -> dict[str, Any]:
    """Make it, as whoever the site says acts there, and tell what came of it; nothing where nothing is asked for."""
    if github_settings is None or site.github is None:
        return {}
    owner, app = site.github.owner, site.github.app
    values = values_of(_references(github_settings, app))
    # One for each owner: what is taken away from the old one is asked of the old one.
    provider = github.Provider(f"github-{owner}", owner=owner, app_auth=_app(app, values) if app else None)
    options = pulumi.ResourceOptions(providers=[provider], transformations=[_belonging_to(owner)])
    found: dict[str, Any] = {"owner": owner}
    if github_settings.runner_group:
        args = github_settings.runner_group
        if args.group_name is None:
            args = args.model_copy(update={"group_name": f"gpu-{pulumi.get_stack()}"})
        args.set_source(stack_file(), f"{GITHUB}.runnerGroup")
        found["runnerGroup"] = RunnerGroup("runners", args, options).group_name
    places = {
        name: _secrets(name, args, values, options).place for name, args in sorted(github_settings.secrets.items())
    }
    rulesets = {
        name: RepositoryRules(name, args, options).ruleset_id for name, args in sorted(github_settings.rules.items())
    }
    return found | {name: made for name, made in (("secrets", places), ("rules", rulesets)) if made}


def _belonging_to(owner: str) -> pulumi.ResourceTransformation:
    """Have everything made anew for another owner, and taken away from this one.

    The engine replaces nothing because of another provider: they would stay where they are, and the state would call
    them the other owner's.
    """

    def change(resource: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        if not resource.type_.startswith("github:"):
            return None
        options = pulumi.ResourceOptions.merge(
            resource.opts, pulumi.ResourceOptions(replacement_trigger=owner, delete_before_replace=True)
        )
        return pulumi.ResourceTransformationResult(resource.props, options)

    return change


def _references(github_settings: Github, app: GithubApp | None) -> dict[str, str]:
    """Every secret that is named, by its place in the stack file."""
    named = {
        f"{GITHUB}.secrets.{name}.secrets.{key}": reference
        for name, args in sorted(github_settings.secrets.items())
        for key, reference in args.secrets.items()
    }
    return {_KEY: app.private_key, **named} if app else named


def _secrets(
    name: str, args: SecretsByReference, values: Mapping[str, pulumi.Output[str]], options: pulumi.ResourceOptions
) -> ActionsSecrets:
    place = f"{GITHUB}.secrets.{name}"
    own = {key: values[f"{place}.secrets.{key}"] for key in args.secrets}
    made = ActionsSecretsArgs(scope=args.scope, secrets=own, variables=args.variables)
    made.set_source(stack_file(), place)
    return ActionsSecrets(name, made, options)


def _app(app: GithubApp, values: Mapping[str, pulumi.Output[str]]) -> github.ProviderAppAuthArgs:
    return github.ProviderAppAuthArgs(id=app.id, installation_id=app.installation_id, pem_file=values[_KEY])
