"""The files of a new repository: what the user chose, and the templates that are filled with it."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from typing import Any

from gpu_catalog import Machine

from gpu_ci import extras, naming
from gpu_ci.cli import new_files
from gpu_ci.cli.github_app.apps import DUTIES
from gpu_ci.github_trust import variables
from gpu_ci.kinds import ComponentInfo

TEMPLATES = files(__package__) / "templates"
# GitHub's own expressions are ${{ … }}.
_MARKS_IN_WORKFLOWS = {
    "block_start_string": "<%", "block_end_string": "%>", "variable_start_string": "<<",
    "variable_end_string": ">>", "comment_start_string": "<#", "comment_end_string": "#>",
}  # fmt: skip
_COMMIT_AT_GITHUB = re.compile(
    r"git\+(?:https://|ssh://git@)github\.com/(?P<repository>[\w.-]+/[\w.-]+?)(?:\.git)?@(?P<commit>[0-9a-f]{40})"
)


@dataclass(frozen=True)
class App:
    """A GitHub App of the stack file, with numbers that the user replaces.

    The permissions are those of docs/guides/github.md.
    """

    key: str
    id: int
    installation: int
    secret: str
    permissions: Mapping[str, str]

    @property
    def duty(self) -> str:
        return DUTIES[self.key]


_RUNNERS = {"organization_self_hosted_runners": "write"}
_ADMIN = {**_RUNNERS, "secrets": "write", "actions_variables": "write", "administration": "write"}
ADMIN_APP = App("app", 1, 11, "github-admin-app-key", _ADMIN)
RUNNER_APP = App("runnerApp", 2, 12, "github-runner-app-key", _RUNNERS)
MANAGER_APP = App("managerApp", 3, 13, "github-manager-app-key", {**_RUNNERS, "actions": "write"})

# The default time limit of a job (docs.github.com/en/actions/reference/workflows-and-actions/workflow-syntax,
# jobs.<job_id>.timeout-minutes: 360).
FLEX_START_SEC = 6 * 3600


@dataclass(frozen=True)
class Pool:
    """A pool that the user asked for."""

    name: str
    machine: Machine
    market: str
    info: ComponentInfo
    """The component of the pool's kind."""
    zones: tuple[str, ...] = ()
    subnets: Mapping[str, str] = field(default_factory=dict)
    """The subnets of a pool on EC2 by zone."""
    cluster: str = ""
    """The name of the cluster; empty for a pool without one."""
    runner_size: Mapping[str, int] = field(default_factory=dict)
    """The fields of the runner that make it fit on a small node."""
    label: str = ""
    """The label of the runners, if another stack has a pool of this name; empty for the default, the pool's name."""
    max: int = 2

    @property
    def kind(self) -> str:
        return self.info.kind

    @property
    def on_cluster(self) -> str:
        """The kind of the pool's cluster; empty for a pool without one."""
        return self.info.on_cluster

    @property
    def machine_fields(self) -> dict[str, Any]:
        """The fields that choose the machine. They depend on its cloud."""
        if self.subnets:
            return {"machineType": self.machine.machine_type, "zones": list(self.subnets), "subnets": self.subnets}
        if self.machine.cloud == "aws":
            return {"instanceTypes": [self.machine.machine_type]}
        accelerator = {"guestAccelerator": self._accelerator} if self.machine.attached else {}
        return {"machineType": self.machine.machine_type, **accelerator, "zones": self.zones}

    @property
    def run_limit_sec(self) -> int:
        """The time limit of a machine, which flex-start requires; otherwise 0."""
        return FLEX_START_SEC if self.market == "flex-start" else 0

    @property
    def _accelerator(self) -> dict[str, Any]:
        count = {"count": self.machine.api_gpu_count} if self.machine.api_gpu_count > 1 else {}
        return {"type": self.machine.accelerator, **count}


@dataclass(frozen=True)
class Repository:
    """What the user chose for the new repository."""

    name: str
    stack: str
    pools: Sequence[Pool]
    requirement: str
    project: str = ""
    aws_account: str = ""
    """The account whose AWS Secrets Manager has the keys of the Apps; empty if Secret Manager has them."""
    region: str = ""
    organization: str = ""
    plan: str | None = None
    """The organization's GitHub plan, if the user gave it."""
    repositories: Sequence[str] = ()
    clusters: Mapping[str, str] = field(default_factory=dict)
    """The names of the existing clusters, by their kind."""
    shared: Collection[str] = ()
    """The names of the clusters on which another stack of the folder has pools."""
    location: str = ""
    """The location of the GKE cluster."""
    subnets: Mapping[str, str] = field(default_factory=dict)
    """The subnets of the EKS cluster, or of the pools on EC2, by zone."""
    aws_region: str = ""
    runner_image: str = ""
    registered: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The fields of Apps that exist already, by the key of the App."""

    @cached_property
    def machines(self) -> list[Pool]:
        """The pools of machines without a cluster."""
        return [pool for pool in self.pools if not pool.on_cluster]

    @property
    def on_google(self) -> list[Pool]:
        """The pools on Compute Engine."""
        return [pool for pool in self.machines if pool.machine.cloud == "gcp"]

    @cached_property
    def nodes(self) -> list[Pool]:
        """The pools on clusters."""
        return [pool for pool in self.pools if pool.on_cluster]

    @property
    def apps(self) -> list[App]:
        """The GitHub Apps that the pools need, none without an organization."""
        needed = [ADMIN_APP, *([RUNNER_APP] if self.nodes else []), *([MANAGER_APP] if self.machines else [])]
        return needed if self.organization else []

    @property
    def new_apps(self) -> list[App]:
        """The GitHub Apps that do not exist yet."""
        return [app for app in self.apps if app.key not in self.registered]

    def fields_of(self, app: App) -> Mapping[str, Any]:
        """Return the fields of an App in the stack file."""
        key = f"projects/{self.project}/secrets/{app.secret}"
        if self.aws_account:
            from gpu_ci.aws.resource_names import partition  # stacks on Google Cloud do not need it

            place = f"{partition(self.aws_region)}:secretsmanager:{self.aws_region}:{self.aws_account}"
            key = f"arn:{place}:secret:{app.secret}"
        return self.registered.get(app.key) or {"id": app.id, "installationId": app.installation, "privateKey": key}

    @property
    def stack_file(self) -> str:
        return f"Pulumi.{self.stack}.yaml"

    @property
    def slug(self) -> str:
        """The stack's name as part of the id of a job of GitHub Actions."""
        return re.sub("[^A-Za-z0-9_-]", "-", self.stack)

    @property
    def namespace(self) -> str:
        """The namespace of the runners on a shared cluster."""
        return naming.fit(f"gpu-ci-{self.stack}", 63)

    @cached_property
    def actions(self) -> dict[str, str]:
        """The repository and the commit of the actions of gpu-ci. Empty if its address is not a commit at GitHub."""
        found = _COMMIT_AT_GITHUB.fullmatch(self.requirement.partition(" @ ")[2])
        return found.groupdict() if found else {}

    @property
    def variables(self) -> dict[str, str]:
        """The inputs of the reusable workflow deploy-stack, each with the variable of GitHub that has its value."""
        unused = set() if self.aws_region else {"aws-role"}
        unused |= {"google-provider", "google-service-account"} if self.aws_account else set()
        return {name: value for name, value in variables(self.stack).items() if name not in unused}

    def files(self) -> dict[str, str]:
        """Return the text of each file of the repository."""
        derived = (
            "machines", "on_google", "nodes", "apps", "new_apps", "fields_of", "slug", "namespace", "actions",
            "variables",
        )  # fmt: skip
        values = {name: getattr(self, name) for name in (*self.__dataclass_fields__, *derived)}
        blocks: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True}
        found = new_files.render(TEMPLATES / "files", values, ".j2", **blocks)
        if self.actions:
            blocks |= _MARKS_IN_WORKFLOWS
            found |= new_files.render(TEMPLATES / "workflows", values, ".j2", **blocks)
        return found


def requirement(pools: Sequence[Pool], organization: str, aws_account: str, source: str = "") -> str:
    """Return the line of requirements.txt for this package, with the extras that the pools need.

    Args:
        pools: The pools of the stack.
        organization: The GitHub organization, or an empty text.
        aws_account: The account that keeps the keys of the Apps, or an empty text if Google Cloud keeps them.
        source: Where pip finds the package, such as git+https://…; by default the source of the running gpu-ci.
    """
    needed = {"cli", "preview", "sandbox", *(extra for pool in pools for extra in pool.info.extras)}
    if organization:
        needed |= {"github"} | (set() if aws_account else {"gcp"})
        needed |= {"manager"} if any(not pool.on_cluster for pool in pools) else set()
    source = source or extras.source()
    name = f"gpu-ci[{','.join(sorted(needed))}]"
    return f"{name} @ {source}" if source else f"{name}=={importlib.metadata.version('gpu-ci')}"
