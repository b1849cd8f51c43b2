"""The files of a new repository: what the user chose, and the templates that are filled with it."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from typing import Any

import jinja2
from gpu_catalog import Machine

from gpu_ci.errors import in_yaml

# File in the repository -> its template.
TEMPLATES = {
    "Pulumi.yaml": "Pulumi.yaml.j2",
    "__main__.py": "__main__.py.j2",
    "plugin/PulumiPlugin.yaml": "plugin/PulumiPlugin.yaml.j2",
    "plugin/__main__.py": "plugin/__main__.py.j2",
    "requirements.txt": "requirements.txt.j2",
    ".gitignore": "gitignore.j2",
    "sandbox.yaml": "sandbox.yaml.j2",
    "Pulumi.{stack}.yaml": "stack.yaml.j2",
}


@dataclass(frozen=True)
class App:
    """A GitHub App of the stack file, with numbers that the user replaces.

    The permissions are those of docs/guides/github.md.
    """

    key: str
    id: int
    installation: int
    secret: str
    purpose: str
    permissions: Mapping[str, str]


ADMIN_APP = App(
    "app",
    1,
    11,
    "github-admin-app-key",
    "app creates the runner group.",
    {
        "organization_self_hosted_runners": "write",
        "secrets": "write",
        "actions_variables": "write",
        "administration": "write",
    },
)
RUNNER_APP = App(
    "runnerApp",
    2,
    12,
    "github-runner-app-key",
    "runnerApp registers the runners of clusters.",
    {"organization_self_hosted_runners": "write"},
)
MANAGER_APP = App(
    "managerApp",
    3,
    13,
    "github-manager-app-key",
    "managerApp reads the queue of jobs, and registers the runners of machines.",
    {"organization_self_hosted_runners": "write", "actions": "write"},
)


def needed_apps(has_machines: bool, has_nodes: bool) -> list[App]:
    """Return the GitHub Apps of a stack with pools on Compute Engine, on EKS, or both."""
    return [ADMIN_APP, *([RUNNER_APP] if has_nodes else []), *([MANAGER_APP] if has_machines else [])]


@dataclass(frozen=True)
class Pool:
    """A pool that the user asked for."""

    name: str
    machine: Machine
    market: str
    zones: tuple[str, ...] = ()
    max: int = 2

    @property
    def machine_type(self) -> str:
        return self.machine.machine_type

    @property
    def accelerator(self) -> dict[str, Any]:
        """The field guestAccelerator. It is empty for a machine type that has GPUs of its own."""
        if not self.machine.attached:
            return {}
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
    region: str = ""
    organization: str = ""
    repositories: Sequence[str] = ()
    cluster: str = ""
    aws_region: str = ""
    subnets: Mapping[str, str] = field(default_factory=dict)
    runner_image: str = ""

    @cached_property
    def machines(self) -> list[Pool]:
        """The pools on Compute Engine."""
        return [pool for pool in self.pools if pool.machine.cloud == "gcp"]

    @cached_property
    def nodes(self) -> list[Pool]:
        """The pools on EKS."""
        return [pool for pool in self.pools if pool.machine.cloud == "aws"]

    @property
    def apps(self) -> list[App]:
        """The GitHub Apps that the pools need, none without an organization."""
        return needed_apps(bool(self.machines), bool(self.nodes)) if self.organization else []

    @property
    def stack_file(self) -> str:
        return f"Pulumi.{self.stack}.yaml"

    def files(self) -> Iterator[tuple[str, str]]:
        """Return each file of the repository with its text."""
        environment = jinja2.Environment(
            loader=jinja2.FunctionLoader(_template),
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            autoescape=False,  # noqa: S701 - the files are YAML and Python; the filter `yaml` quotes values
        )
        environment.filters["yaml"] = in_yaml
        values = {name: getattr(self, name) for name in (*self.__dataclass_fields__, "machines", "nodes", "apps")}
        for path, template in TEMPLATES.items():
            yield path.format(stack=self.stack), environment.get_template(template).render(values)


def _template(name: str) -> str:
    return (files(__package__) / "templates" / name).read_text(encoding="utf-8")


def requirement(pools: Sequence[Pool], organization: str, source: str = "") -> str:
    """Return the line of requirements.txt for this package, with the extras that the pools need.

    Args:
        pools: The pools of the stack.
        organization: The GitHub organization, or an empty text.
        source: Where pip finds the package, such as git+https://…; by default the source of the running gpu-ci.
    """
    clouds = {pool.machine.cloud for pool in pools}
    extras = {"cli", "sandbox"}
    extras |= {"gcp"} if "gcp" in clouds or organization else set()  # the keys of Apps are in Secret Manager
    extras |= {"aws", "kubernetes"} if "aws" in clouds else set()
    extras |= {"github"} if organization else set()
    source = source or _own_source()
    name = f"gpu-ci[{','.join(sorted(extras))}]"
    return f"{name} @ {source}" if source else f"{name}=={importlib.metadata.version('gpu-ci')}"


def _own_source() -> str:
    """Return the address that this package was installed from, or an empty text if pip took it from an index.

    packaging.python.org/en/latest/specifications/direct-url
    """
    text = importlib.metadata.distribution("gpu-ci").read_text("direct_url.json")
    if not text:
        return ""
    found = json.loads(text)
    if "vcs_info" in found:
        return f"{found['vcs_info']['vcs']}+{found['url']}@{found['vcs_info']['commit_id']}"
    return str(found["url"])
