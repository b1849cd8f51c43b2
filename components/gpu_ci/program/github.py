"""Creates the settings of a stack on GitHub: a runner group, secrets, variables, and rules of repositories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_github as github

from gpu_ci.github.actions_secrets import ActionsSecrets, ActionsSecretsArgs
from gpu_ci.github.repository_rules import RepositoryRules
from gpu_ci.github.runner_group import RunnerGroup
from gpu_ci.stack.github import Github, SecretsByReference
from gpu_ci.stack.site import GITHUB, SITE, GithubApp, Site

from .stack_file import stack_file, values_of

_KEY = f"{SITE}.github.app.privateKey"


def build(github_settings: Github | None, site: Site) -> tuple[dict[str, Any], pulumi.ResourceOptions | None]:
    """Create the settings with the site's GitHub App. Return their outputs, and the options of more such resources."""
    if site.github is None:
        return {}, None
    owner, app = site.github.owner, site.github.app
    github_settings = github_settings or Github()
    values = values_of(_references(github_settings, app))
    # The provider's name contains the owner. If the owner changes, the old provider stays until it has deleted the old
    # resources.
    provider = github.Provider(f"github-{owner}", owner=owner, app_auth=_app(app, values) if app else None)
    options = pulumi.ResourceOptions(providers=[provider], transformations=[_replace_with_owner(owner)])
    outputs: dict[str, Any] = {"owner": owner}
    if github_settings.runner_group:
        args = github_settings.runner_group
        if args.group_name is None:
            args = args.model_copy(update={"group_name": f"gpu-{pulumi.get_stack()}"})
        args.set_source(stack_file(), f"{GITHUB}.runnerGroup")
        outputs["runnerGroup"] = RunnerGroup("runners", args, options).group_name
    places = {
        name: _secrets(name, args, values, options).place for name, args in sorted(github_settings.secrets.items())
    }
    rulesets = {
        name: RepositoryRules(name, args, options).ruleset_id for name, args in sorted(github_settings.rules.items())
    }
    return outputs | {name: made for name, made in (("secrets", places), ("rules", rulesets)) if made}, options


def _replace_with_owner(owner: str) -> pulumi.ResourceTransformation:
    """Return a transformation that replaces all GitHub resources if the owner changes.

    A change of the provider alone does not replace a resource. Without the transformation, the resources would stay in
    the old organization, but the state would have them under the new organization.
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
    """Return every reference to a secret by its path in the stack file."""
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
    made = ActionsSecretsArgs(scope=args.scope, secrets=own, variables=args.variables, transform=args.transform)
    made.set_source(stack_file(), place)
    return ActionsSecrets(name, made, options)


def _app(app: GithubApp, values: Mapping[str, pulumi.Output[str]]) -> github.ProviderAppAuthArgs:
    return github.ProviderAppAuthArgs(id=app.id, installation_id=app.installation_id, pem_file=values[_KEY])
