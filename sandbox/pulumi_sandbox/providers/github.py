"""The offline github provider: GitHub's ids and addresses over the shapes of the SDK."""

from __future__ import annotations

from typing import Any, ClassVar

from pulumi_sandbox.providers import bridged
from pulumi_sandbox.providers.cloud import Cloud, Resource
from pulumi_sandbox.providers.github_tables import ID_FORMS, REPLACES
from pulumi_sandbox.world import now

# Prefixes of GitHub's node ids (docs.github.com/graphql/guides/using-global-node-ids gives the form, not the prefixes;
# these are the ones it answers with).
NODES = {
    "github:index/repository:Repository": "R_kgDO",
    "github:index/team:Team": "T_kwDO",
    "github:index/branchProtection:BranchProtection": "BPR_kwDO",
}
NODE_IS_ID = frozenset({"github:index/branchProtection:BranchProtection"})
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
DIGITS = "0123456789"


class Github(Cloud):
    """Checked by shape; ids and outputs as GitHub forms them for the types of github_tables."""

    package: ClassVar[str] = "github"
    coerces_scalars: ClassVar[bool] = True

    @property
    def owner(self) -> str:
        return str(self.lookups.config(self.context.config)["owner"])

    def autoname(self, res: Resource) -> None:
        # pulumi-github, provider/resources.go: SetAutonaming(255, "-")
        bridged.autoname(res, self.shapes.shape(res.token))

    def replaces(self, token: str, path: str) -> bool | None:
        return bridged.replaces(REPLACES, token, path)

    def identity(self, res: Resource) -> str:
        number = _number(res)
        if res.token in ID_FORMS:
            known = {name: value for name, value in res.inputs.items() if isinstance(value, str)}
            return ID_FORMS[res.token].format_map({**known, "owner": self.owner, "number": number})
        return _node(res) if res.token in NODE_IS_ID else number

    def computed(self, res: Resource) -> dict[str, Any]:
        outputs = self.shapes.shape(res.token).outputs
        before = res.outputs
        found: dict[str, Any] = {
            "etag": f'W/"{res.suffix(64)}"',
            "nodeId": before.get("nodeId") or _node(res),
            "createdAt": before.get("createdAt") or now(),
            "updatedAt": now(),
            "remoteUpdatedAt": now(),
            "repositoryId": before.get("repositoryId") or self._repository_id(res),
        }
        match res.token:
            case "github:index/repository:Repository":
                found |= self._repository(res)
            case "github:index/team:Team":
                name = res.inputs.get("name") or ""
                found |= {"slug": str(name).lower().replace(" ", "-"), "membersCount": before.get("membersCount") or 0}
            case "github:index/actionsRunnerGroup:ActionsRunnerGroup":
                address = f"https://api.github.com/orgs/{self.owner}/actions/runner-groups/{res.id}"
                found |= {
                    "default": False,
                    "inherited": False,
                    "runnersUrl": f"{address}/runners",
                    "selectedRepositoriesUrl": f"{address}/repositories",
                }
        return {name: value for name, value in found.items() if name in outputs and value is not None}

    def _repository(self, res: Resource) -> dict[str, Any]:
        name = res.inputs.get("name") or res.id
        path = f"{self.owner}/{name}"
        visibility = res.inputs.get("visibility") or ("private" if res.inputs.get("private") else "public")
        return {
            "fullName": path,
            "repoId": res.outputs.get("repoId") or int(_number(res)),
            "htmlUrl": f"https://github.com/{path}",
            "httpCloneUrl": f"https://github.com/{path}.git",
            "gitCloneUrl": f"git://github.com/{path}.git",
            "sshCloneUrl": f"git@github.com:{path}.git",
            "svnUrl": f"https://github.com/{path}",
            "defaultBranch": res.inputs.get("defaultBranch") or res.outputs.get("defaultBranch") or "main",
            "primaryLanguage": res.outputs.get("primaryLanguage") or "",
            "visibility": visibility,
            "private": visibility == "private",
        }

    def _repository_id(self, res: Resource) -> int | None:
        """The number of the repository a secret or a variable belongs to, where a stack made it."""
        name = res.inputs.get("repository")
        if not isinstance(name, str):
            return None
        made = res.world.get("github:index/repository:Repository", name)
        return made.outputs.get("repoId") if made else None


def _number(res: Resource) -> str:
    return "7" + res.suffix(8, DIGITS)


def _node(res: Resource) -> str:
    return NODES.get(res.token, "N_kwDO") + res.suffix(6, LETTERS)
