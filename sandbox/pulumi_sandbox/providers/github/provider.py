"""The sandbox's github provider: the rules of GitHub and of the provider, and GitHub's ids, URLs and times."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, ClassVar

from pulumi_sandbox.providers import bridged, sandbox_file
from pulumi_sandbox.providers.cloud import Cloud
from pulumi_sandbox.providers.diff import UPDATE, Change
from pulumi_sandbox.providers.github import repositories, types
from pulumi_sandbox.providers.github.organizations import RESTRICTIONS, Organizations, ignored_settings, plan_refusals
from pulumi_sandbox.providers.github.types import same_name
from pulumi_sandbox.providers.github.world import ExistingResources
from pulumi_sandbox.providers.inputs import text_of
from pulumi_sandbox.providers.resource import Refused, Resource
from pulumi_sandbox.providers.sandbox_file import SettingsError
from pulumi_sandbox.providers.values import UNKNOWN
from pulumi_sandbox.world.store import Record, now


def _token(name: str) -> str:
    return f"github:index/{name[0].lower()}{name[1:]}:{name}"


# The id of each type that components create or refer to, and the inputs whose change replaces a resource of it.
#
# Source of the ids: d.SetId and buildID in terraform-provider-github v6.13.0 (20728bb3, which pulumi-github 6.15.0
# wraps), github/resource_github_*.go. The others have GitHub's own id, which is `{number}`. A colon in the name of an
# environment becomes `??` (github/util.go, escapeIDPart).
#
# Source of the replacing inputs: ForceNew in the same files, with these special cases:
# - `repository` of a secret, variable or environment: diffRepository (util_diff.go) replaces unless the repository was
#   renamed. In the sandbox a repository cannot be renamed outside of a stack.
# - The repositories of an organization's secret: pulumi-github 6.15.0 (e46c2bbd), provider/resources.go.
# - A repository that is changed to a fork: the real provider keeps it (customdiff.ForceNewIfChange of a value that was
#   not empty), the sandbox replaces it.
_TYPES = {
    "ActionsEnvironmentSecret": ("{repository}:{environment}:{secretName}", "environment repository secretName"),
    "ActionsEnvironmentVariable": ("{repository}:{environment}:{variableName}", "environment repository variableName"),
    "ActionsOrganizationSecret": ("{secretName}", "secretName selectedRepositoryIds"),
    "ActionsOrganizationVariable": ("{variableName}", "variableName"),
    "ActionsRunnerGroup": ("{number}", ""),
    "ActionsSecret": ("{repository}:{secretName}", "repository secretName"),
    "ActionsVariable": ("{repository}:{variableName}", "repository variableName"),
    "DependabotSecret": ("{repository}:{secretName}", "repository secretName"),
    "Repository": ("{name}", "fork sourceOwner sourceRepo"),
    "RepositoryEnvironment": ("{repository}:{environment}", "environment repository"),
    "RepositoryRuleset": ("{number}", ""),
    "RepositoryWebhook": ("{number}", "repository"),
}
ID_FORMS = {_token(name): form for name, (form, _) in _TYPES.items()}
REPLACES = {_token(name): tuple(inputs.split()) for name, (_, inputs) in _TYPES.items()}

# Source: DeleteBeforeReplace in pulumi-github 6.15.0 (e46c2bbd), provider/resources.go.
DELETED_FIRST = types.ENVIRONMENT_SECRET
# Prefixes of GitHub's node ids, as in answers of its API. The documentation has only the form of the ids
# (docs.github.com/graphql/guides/using-global-node-ids).
NODES = {types.REPOSITORY: "R_kgDO", types.RULESET: "RRS_lACk"}
GET_REPOSITORY = "github:index/getRepository:getRepository"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
DIGITS = "0123456789"
# google/go-github prints times of these types in the format of Go's time.Time.String.
TIMED = (*types.SECRETS, *types.VARIABLES)


class Github(Cloud):
    """The provider of GitHub.

    Types in types.py are checked in depth. Those above have the ids of the real provider. For all other types, only the
    shape is checked.
    """

    package: ClassVar[str] = "github"
    coerces_scalars: ClassVar[bool] = True

    @property
    def owner(self) -> str:
        return str(self.lookups.config(self.context.config)["owner"])

    def configure(self, config: dict[str, Any]) -> None:
        try:
            _ = self.existing, self.organizations
        except SettingsError as error:
            raise Refused(str(error)) from None

    @cached_property
    def existing(self) -> ExistingResources:
        patterns = sandbox_file.existing_patterns(self.context.workspace.settings_file, "github")
        return ExistingResources(self.context.world, self.owner, patterns)

    @cached_property
    def organizations(self) -> Organizations:
        return Organizations.read(self.context.workspace.settings_file)

    @property
    def plan(self) -> str:
        return self.organizations.plan(self.owner)

    # -- Check --------------------------------------------------------------------------------------------------------

    def autoname(self, res: Resource) -> None:
        # pulumi-github, provider/resources.go: SetAutonaming(255, "-")
        bridged.autoname(res, self.shapes.shape(res.token))

    # -- Diff ---------------------------------------------------------------------------------------------------------

    def replaces(self, token: str, path: str) -> bool | None:
        return bridged.replaces(REPLACES, token, path)

    def same(self, token: str, path: str, old: Any, new: Any) -> bool:
        # schema.TypeSet: the order does not matter.
        if path != "selectedRepositoryIds" or not isinstance(old, list) or not isinstance(new, list):
            return False
        return all(isinstance(one, int | float) for one in (*old, *new)) and sorted(old) == sorted(new)

    def deletes_old_first(self, res: Resource) -> bool:
        return res.token == DELETED_FIRST or super().deletes_old_first(res)

    # -- Create, Update, Delete, Read ---------------------------------------------------------------------------------

    def forced_changes(self, res: Resource) -> Iterable[Change]:
        # The bridge compares the inputs with the state, which has the values that GitHub set.
        for name in RESTRICTIONS if res.token == types.RUNNER_GROUP else ():
            actual, requested = res.outputs.get(name), res.inputs.get(name)
            if (
                requested is not UNKNOWN
                and requested == (res.old_inputs or {}).get(name)
                and (actual or requested)
                and actual != requested
            ):
                yield Change((name,), UPDATE, actual, requested)

    def refusals(self, res: Resource) -> Iterable[str]:
        public = self.existing.is_public(f"{self.owner}/{text_of(res.inputs, 'repository')}")
        yield from plan_refusals(res.token, res.inputs, self.owner, self.plan, public=public)
        if res.old_inputs is None:
            yield from self.existing.name_in_use(res.token, res.inputs)
        yield from self.existing.missing_references(res.token, res.inputs)

    def overwrites(self, token: str) -> bool:
        # PUT requests: docs.github.com/en/rest/actions/secrets ("Create or update a repository secret"). The same
        # applies to environments.
        return token in types.SECRETS or token == types.ENVIRONMENT

    def identity(self, res: Resource) -> str:
        values = {name: value for name, value in res.inputs.items() if isinstance(value, str)}
        if "environment" in values:
            values["environment"] = values["environment"].replace(":", "??")
        return ID_FORMS.get(res.token, "{number}").format_map({**values, "number": _number(res)})

    def computed(self, res: Resource) -> dict[str, Any]:
        outputs = self.shapes.shape(res.token).outputs
        old_outputs, time = res.outputs, _go_time(now()) if res.token in TIMED else now()
        outputs_of_type: dict[str, Any] = {
            "etag": f'W/"{res.suffix(64)}"',
            "nodeId": old_outputs.get("nodeId") or _node(res),
            "createdAt": old_outputs.get("createdAt") or time,
            "updatedAt": time,
            "remoteUpdatedAt": time,
            "repositoryId": old_outputs.get("repositoryId") or self._repository_id(res),
        }
        match res.token:
            case types.REPOSITORY:
                outputs_of_type |= self._repository(res)
            case types.RULESET:
                outputs_of_type["rulesetId"] = int(res.id)
            case types.RUNNER_GROUP:
                address = f"https://api.github.com/orgs/{self.owner}/actions/runner-groups/{res.id}"
                outputs_of_type |= {
                    "default": False,
                    "inherited": False,
                    "runnersUrl": f"{address}/runners",
                    "selectedRepositoriesUrl": f"{address}/repositories",
                }
            case token if token in types.SECRETS:
                outputs_of_type["keyId"] = res.inputs.get("keyId") or str(self.lookups.values["publicKeyId"])
        outputs_of_type |= ignored_settings(res.token, res.inputs, self.plan)
        return {name: value for name, value in outputs_of_type.items() if name in outputs and value is not None}

    def emulates(self, token: str) -> bool:
        return token in types.EMULATED

    def locate(self, token: str, import_id: str) -> Record | None:
        # github/resource_github_repository_ruleset.go, Import: <repository>:<number>.
        repository, _, number = import_id.rpartition(":")
        if token == types.RULESET and repository:
            ruleset = super().locate(token, number)
            return ruleset if ruleset and same_name(text_of(ruleset.inputs, "repository"), repository) else None
        return super().locate(token, import_id)

    def listed(self, token: str, import_id: str) -> tuple[str, dict[str, Any]] | None:
        repository, _, environment = import_id.partition(":")
        path, inputs = f"{self.owner}/{repository}", {"name": repository}
        if token == types.ENVIRONMENT:
            environment = environment.replace("??", ":")
            path, inputs = f"{path}/environments/{environment}", {"repository": repository, "environment": environment}
        elif token != types.REPOSITORY:
            return None
        return (import_id, inputs) if self.existing.exists(path) else None

    def write_only(self, token: str) -> Collection[str]:
        # Read in every resource_github_*_secret.go sets only the times.
        return types.VALUES if token in types.SECRETS else ()

    # -- Lookups ------------------------------------------------------------------------------------------------------

    def invoke(self, token: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        result, secret = super().invoke(token, arguments)
        if token != GET_REPOSITORY or not result.get("fullName"):
            return result, secret
        full_name, rows = str(result["fullName"]), self.context.world.find(types.REPOSITORY)
        created = next((one for one in rows if same_name(text_of(one.outputs, "fullName"), full_name)), None)
        if created:
            function = self.shapes.function(token)
            names = (function.outputs if function else {}).keys() - {"id"}
            return result | {name: value for name, value in created.outputs.items() if name in names}, secret
        if self._unlisted(token, arguments, full_name):
            # terraform-provider-github v6.13.0, github/data_source_github_repository.go: an empty result, no error.
            return {}, ()
        if result.get("repoId") == self.lookups.values["firstRepositoryNumber"]:
            # The number depends on the name alone, so it is the same in every run.
            result["repoId"] = repositories.number(full_name, result["repoId"])
        self.existing.looked_up.append(repositories.remember(self.context.world, result))
        return result, secret

    def _unlisted(self, token: str, arguments: dict[str, Any], path: str) -> bool:
        """Return True if sandbox.yaml lists the repositories on GitHub, and this one is not in the list."""
        if not self.existing.patterns or self.existing.exists(path):
            return False
        return not self.lookups.answered_by_user(token, arguments, self.context.config)

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
        """Return the number of the repository of a secret or variable, or None if it is not known."""
        repository = self.existing.repository(f"{self.owner}/{text_of(res.inputs, 'repository')}")
        return repository.id if repository else None


def _number(res: Resource) -> str:
    return "7" + res.suffix(8, DIGITS)


def _node(res: Resource) -> str:
    return NODES.get(res.token, "N_kwDO") + res.suffix(6, LETTERS)


def _go_time(text: str) -> str:
    return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S +0000 UTC")
