"""Tables of pulumi-github's resource ids and of the changes that replace a resource, each with its source."""

from __future__ import annotations

# Source: d.SetId and buildID in terraform-provider-github v6.13.0 (20728bb3, which pulumi-github 6.15.0 wraps),
# github/resource_github_*.go. `{number}` is GitHub's own id. A colon in the name of an environment becomes `??`
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

# Source: ForceNew in the same files, with these special cases:
# - `repository` of a secret, variable or environment: diffRepository (util_diff.go) replaces unless the repository was
#   renamed. In the sandbox a repository cannot be renamed outside of a stack.
# - The repositories of an organization's secret: pulumi-github 6.15.0 (e46c2bbd), provider/resources.go.
# - A repository that is changed to a fork: the real provider keeps it (customdiff.ForceNewIfChange of a value that was
#   not empty), the sandbox replaces it.
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

# Source: DeleteBeforeReplace in pulumi-github 6.15.0 (e46c2bbd), provider/resources.go.
DELETED_FIRST = frozenset(
    {
        "github:index/actionsEnvironmentSecret:ActionsEnvironmentSecret",
        "github:index/repositoryAutolinkReference:RepositoryAutolinkReference",
        "github:index/repositoryCollaborator:RepositoryCollaborator",
        "github:index/repositoryDeployKey:RepositoryDeployKey",
    }
)
