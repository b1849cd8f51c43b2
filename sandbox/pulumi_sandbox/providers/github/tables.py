"""How pulumi-github identifies resources, and which changes replace one, with the source of each table."""

from __future__ import annotations

# d.SetId and buildID in terraform-provider-github v6.13.0 (20728bb3, which pulumi-github 6.15.0 wraps), in
# github/resource_github_*.go; `{number}` is GitHub's own id. In an environment's name a colon is written `??`
# (github/util.go, escapeIDPart).
ID_FORMS = {
    "github:index/actionsEnvironmentSecret:ActionsEnvironmentSecret": "{repository}:{environment}:{secretName}",
    "github:index/actionsOrganizationSecret:ActionsOrganizationSecret": "{secretName}",
    "github:index/actionsEnvironmentVariable:ActionsEnvironmentVariable": "{repository}:{environment}:{variableName}",
    "github:index/actionsOrganizationVariable:ActionsOrganizationVariable": "{variableName}",
    "github:index/actionsRepositoryPermissions:ActionsRepositoryPermissions": "{repository}",
    "github:index/actionsSecret:ActionsSecret": "{repository}:{secretName}",
    "github:index/actionsVariable:ActionsVariable": "{repository}:{variableName}",
    "github:index/branch:Branch": "{repository}:{branch}",
    "github:index/branchDefault:BranchDefault": "{repository}",
    "github:index/dependabotSecret:DependabotSecret": "{repository}:{secretName}",
    "github:index/issueLabel:IssueLabel": "{repository}:{name}",
    "github:index/membership:Membership": "{owner}:{username}",
    "github:index/repository:Repository": "{name}",
    "github:index/repositoryCollaborator:RepositoryCollaborator": "{repository}:{username}",
    "github:index/repositoryDeployKey:RepositoryDeployKey": "{repository}:{number}",
    "github:index/repositoryEnvironment:RepositoryEnvironment": "{repository}:{environment}",
    "github:index/teamMembership:TeamMembership": "{teamId}:{username}",
    "github:index/teamRepository:TeamRepository": "{teamId}:{repository}",
}

# ForceNew in the same files. `repository` of a secret, a variable or an environment: diffRepository (util_diff.go)
# replaces, unless the repository was merely renamed, which nobody can do outside of a stack here. The repositories of
# an organization's secret: pulumi-github 6.15.0 (e46c2bbd), provider/resources.go. A repository that becomes a fork
# after it was made is left as it is there, and replaced here (customdiff.ForceNewIfChange of what was not empty).
REPLACES = {
    "github:index/actionsEnvironmentSecret:ActionsEnvironmentSecret": ("environment", "repository", "secretName"),
    "github:index/actionsEnvironmentVariable:ActionsEnvironmentVariable": (
        "environment",
        "repository",
        "variableName",
    ),
    "github:index/actionsOrganizationSecret:ActionsOrganizationSecret": ("secretName", "selectedRepositoryIds"),
    "github:index/actionsOrganizationVariable:ActionsOrganizationVariable": ("variableName",),
    "github:index/actionsRepositoryPermissions:ActionsRepositoryPermissions": (),
    "github:index/actionsRunnerGroup:ActionsRunnerGroup": (),
    "github:index/actionsSecret:ActionsSecret": ("repository", "secretName"),
    "github:index/actionsVariable:ActionsVariable": ("repository", "variableName"),
    "github:index/branch:Branch": ("repository", "sourceBranch", "sourceSha"),
    "github:index/branchDefault:BranchDefault": ("repository",),
    "github:index/branchProtection:BranchProtection": ("repositoryId",),
    "github:index/dependabotSecret:DependabotSecret": ("repository", "secretName"),
    "github:index/issueLabel:IssueLabel": ("repository",),
    "github:index/membership:Membership": ("username",),
    "github:index/repository:Repository": ("fork", "sourceOwner", "sourceRepo"),
    "github:index/repositoryCollaborator:RepositoryCollaborator": ("permission", "repository", "username"),
    "github:index/repositoryDeployKey:RepositoryDeployKey": ("key", "readOnly", "repository", "title"),
    "github:index/repositoryEnvironment:RepositoryEnvironment": ("environment", "repository"),
    "github:index/repositoryRuleset:RepositoryRuleset": (),
    "github:index/repositoryWebhook:RepositoryWebhook": ("repository",),
    "github:index/team:Team": (),
    "github:index/teamMembership:TeamMembership": ("teamId", "username"),
    "github:index/teamRepository:TeamRepository": ("repository", "teamId"),
}

# DeleteBeforeReplace in pulumi-github 6.15.0 (e46c2bbd), provider/resources.go.
DELETED_FIRST = frozenset(
    {
        "github:index/actionsEnvironmentSecret:ActionsEnvironmentSecret",
        "github:index/repositoryAutolinkReference:RepositoryAutolinkReference",
        "github:index/repositoryCollaborator:RepositoryCollaborator",
        "github:index/repositoryDeployKey:RepositoryDeployKey",
    }
)
