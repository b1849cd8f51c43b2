"""A group, secrets and rules for two repositories; the environment changes one thing at a time."""

import os

import pulumi
import pulumi_github as github
from gpu_ci.github.actions_secrets import ActionsSecrets, ActionsSecretsArgs, OrganizationScope, RepositoryScope
from gpu_ci.github.repository_rules import RepositoryRules, RepositoryRulesArgs
from gpu_ci.github.runner_group import RunnerGroup, RunnerGroupArgs

kernels = github.Repository("kernels", name="kernels", visibility="private")
names = ["web", kernels.name, *os.environ.get("ALSO", "").split()]
planted = {name: pulumi.Output.secret(os.environ[name]) for name in ("FIRST", "SECOND")}

workflows = os.environ.get("WORKFLOWS", "").split()
group = RunnerGroup("gpu", RunnerGroupArgs(repositories=names, selected_workflows=workflows))
ActionsSecrets(
    "shared",
    ActionsSecretsArgs(
        scope=OrganizationScope(kind="organization", repositories=names), secrets=planted, variables={"REGION": "us"}
    ),
)
ActionsSecrets(
    "own",
    ActionsSecretsArgs(
        scope=RepositoryScope(kind="repository", repository=kernels.name), secrets={"SECOND": planted["SECOND"]}
    ),
)
RepositoryRules("main", RepositoryRulesArgs(repository=os.environ.get("RULED", "web")))
pulumi.export("group", group.group_name)
