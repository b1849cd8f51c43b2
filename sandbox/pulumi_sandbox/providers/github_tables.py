"""How pulumi-github identifies resources, and which changes replace one, with the source of each table."""

from __future__ import annotations

# d.SetId and buildID in terraform-provider-github v6.13.0, github/resource_github_*.go; `{number}` is GitHub's own id.
ID_FORMS = {
    "github:index/actionsEnvironmentSecret:ActionsEnvironmentSecret": "{repository}:{environment}:{secretName}",
    "github:index/actionsOrganizationSecret:ActionsOrganizationSecret": "{secretName}",
    "github:index/actionsOrganizationVariable:ActionsOrganizationVariable": "{variableName}",
    "github:index/actionsRepositoryPermissions:ActionsRepositoryPermissions": "{repository}",
    "github:index/actionsSecret:ActionsSecret": "{repository}:{secretName}",
    "github:index/actionsVariable:ActionsVariable": "{repository}:{variableName}",
    "github:index/branch:Branch": "{repository}:{branch}",
    "github:index/branchDefault:BranchDefault": "{repository}",
    "github:index/issueLabel:IssueLabel": "{repository}:{name}",
    "github:index/membership:Membership": "{owner}:{username}",
    "github:index/repository:Repository": "{name}",
    "github:index/repositoryCollaborator:RepositoryCollaborator": "{repository}:{username}",
    "github:index/repositoryDeployKey:RepositoryDeployKey": "{repository}:{number}",
    "github:index/repositoryEnvironment:RepositoryEnvironment": "{repository}:{environment}",
    "github:index/teamMembership:TeamMembership": "{teamId}:{username}",
    "github:index/teamRepository:TeamRepository": "{teamId}:{repository}",
}

# ForceNew in the same files. `repository` of a secret or a variable: diffRepository (util_diff.go) replaces, unless the
# repository was merely renamed, which nobody can do outside of a stack here.
REPLACES = {
    "github:index/actionsEnvironmentSecret:ActionsEnvironmentSecret": ("environment", "repository", "secretName"),
    "github:index/actionsOrganizationSecret:ActionsOrganizationSecret": ("secretName",),
    "github:index/actionsOrganizationVariable:ActionsOrganizationVariable": ("variableName",),
    "github:index/actionsRepositoryPermissions:ActionsRepositoryPermissions": (),
    "github:index/actionsRunnerGroup:ActionsRunnerGroup": (),
    "github:index/actionsSecret:ActionsSecret": ("repository", "secretName"),
    "github:index/actionsVariable:ActionsVariable": ("repository", "variableName"),
    "github:index/branch:Branch": ("repository", "sourceBranch", "sourceSha"),
    "github:index/branchDefault:BranchDefault": ("repository",),
    "github:index/branchProtection:BranchProtection": ("repositoryId",),
    "github:index/issueLabel:IssueLabel": ("repository",),
    "github:index/membership:Membership": ("username",),
    "github:index/repository:Repository": (),
    "github:index/repositoryCollaborator:RepositoryCollaborator": ("permission", "repository", "username"),
    "github:index/repositoryDeployKey:RepositoryDeployKey": ("key", "readOnly", "repository", "title"),
    "github:index/repositoryEnvironment:RepositoryEnvironment": ("environment", "repository"),
    "github:index/repositoryWebhook:RepositoryWebhook": ("repository",),
    "github:index/team:Team": (),
    "github:index/teamMembership:TeamMembership": ("teamId", "username"),
    "github:index/teamRepository:TeamRepository": ("repository", "teamId"),
}
