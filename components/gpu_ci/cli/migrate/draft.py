"""The draft of a stack file: pools, shared settings, and comments on values that are missing or have no field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_catalog import Machine
from gpu_common.secret_patterns import redact

from gpu_ci.cli.init import repository
from gpu_ci.cli.init.repository import Repository, needed_apps
from gpu_ci.errors import in_yaml

MACHINES, NODES, GKE_NODES = "gce-runners", "eks-runners", "gke-runners"
_LEAST_DISK_GIB = 30


@dataclass
class Pool:
    """One pool of the draft.

    `skipped` is the reason why gpu-ci cannot have this pool. The draft then has only a comment about the pool.
    """

    name: str
    address: str
    was: str
    """The kind of runners that the pool replaces."""
    kind: str
    fields: dict[str, Any] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    """Fields that the user has to write, with the reason why the state has no value."""
    notes: dict[str, str] = field(default_factory=dict)
    """Settings of the state that have no field, with what takes their place."""
    skipped: str = ""
    runner_group: str = ""
    project: str = ""
    machine: Machine | None = None
    covers: list[str] = field(default_factory=list)
    """Addresses of the resources that the pool replaces."""

    def keep_disk_size(self, gib: int | None) -> None:
        """Take over the size of the boot disk, or note a size that no pool can have."""
        if gib and gib >= _LEAST_DISK_GIB:
            self.fields["diskGib"] = gib
        elif gib:
            self.notes["diskGib"] = f"was {gib}; the least is {_LEAST_DISK_GIB}"


@dataclass
class Cluster:
    """A cluster of the state."""

    fields: dict[str, Any] = field(default_factory=dict)
    comments: dict[str, str] = field(default_factory=dict)
    """Fields that the user has to write or check, with the reason."""
    project: str = ""
    """The Google Cloud project of the cluster; empty on other clouds."""
    unplaced: list[str] = field(default_factory=list)
    """Subnets of a cluster on AWS whose zone is not in the state."""


@dataclass
class RunnerGroup:
    """The runner group of the draft. `id` is its number at GitHub."""

    id: str
    name: str
    repositories: list[str] = field(default_factory=list)
    reason: str = ""
    """Why the repositories are unknown, or an empty text."""
    workflows: list[str] = field(default_factory=list)
    """The only workflows that may use the group. Without them, the import would open it to all workflows."""
    address: str = ""
    notes: list[str] = field(default_factory=list)


@dataclass
class Draft:
    """Everything that goes into the files."""

    stack: str
    pools: list[Pool] = field(default_factory=list)
    project: str = ""
    organization: str = ""
    subnetworks: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    clusters: dict[str, Cluster] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)
    """Addresses of clusters that the draft uses."""
    group: RunnerGroup | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def stack_file(self) -> str:
        return f"Pulumi.{self.stack}.yaml"

    @property
    def drafted(self) -> list[Pool]:
        """The pools without a reason to skip them."""
        return [pool for pool in self.pools if not pool.skipped]

    def program(self, name: str) -> dict[str, str]:
        """Return the other files of the project, as `gpu-ci init` writes them without workflows, by their paths."""
        pools = [repository.Pool(each.name, each.machine, "", each.kind) for each in self.drafted if each.machine]
        requirement = repository.requirement(pools, self.organization)
        project = Repository(name, self.stack, pools, requirement, project=self.project, organization=self.organization)
        left_out = {self.stack_file, *repository.WORKFLOWS}
        return {path: text for path, text in project.files() if path not in left_out}

    def imports(self) -> dict[str, Any]:
        """Return the resources for `pulumi import --file`, in the same place as the program creates them.

        The provider has the owner only: during the import, GITHUB_TOKEN logs in. The next update adds the App.
        """
        if not self.group or not self.organization:
            return {"resources": []}
        provider = f"github-{self.organization}"
        return {
            "resources": [
                {"type": "pulumi:providers:github", "name": provider, "inputs": {"owner": self.organization}},
                {"type": "gpu-ci:github:RunnerGroup", "name": "runners", "component": True},
                {
                    "type": "github:index/actionsRunnerGroup:ActionsRunnerGroup",
                    "name": "runners-group",
                    "id": self.group.id,
                    "parent": "runners",
                    "provider": provider,
                },
            ]
        }

    def text(self) -> str:
        """Return the stack file."""
        lines = [
            f"# The stack {self.stack}, drafted by gpu-ci migrate. Comments have what the state could not answer.",
            "# `gpu-ci check` reports what is left to write.",
            "config:",
        ]
        lines += [_comment(2, note) for note in self.notes]
        if self.project:
            lines += [f"  gcp:project: {in_yaml(self.project)}"]
        else:
            lines += [
                "  # gcp:project: the state names no Google Cloud project. It stores the keys of the GitHub Apps."
            ]
        lines += ["", "  gpu-ci:site:", *self._site(), *self._github(), *self._clusters(), "", "  gpu-ci:pools:"]
        for pool in self.pools:
            lines += _pool(pool)
        if not self.drafted:
            lines += ["    # No pool could be drafted."]
        return "\n".join(lines) + "\n"

    def _site(self) -> list[str]:
        lines = []
        if self.subnetworks:
            lines += ["    # The existing subnetworks. They need a Cloud NAT: machines have no public address."]
            lines += ["    subnetworks:", *_map(6, self.subnetworks)]
        lines += [f"    labels: {in_yaml(self.labels)}"]
        if not self.organization:
            return [
                *lines,
                "    # github: {owner: ...}: the state names no organization. Without it, no job can reach the pools.",
            ]
        kinds = {pool.kind for pool in self.drafted}
        lines += ["    github:", f"      owner: {in_yaml(self.organization)}"]
        if not self.project:
            return [*lines, "      # The GitHub Apps need gcp:project, which stores their keys."]
        lines += ["      # New GitHub Apps. `gpu-ci github-app create` creates them, and replaces the numbers."]
        for app in needed_apps(kinds):
            key = f"projects/{self.project}/secrets/{app.secret}"
            lines += [f"      {app.key}: {{id: {app.id}, installationId: {app.installation}, privateKey: {key}}}"]
        return lines

    def _github(self) -> list[str]:
        if not self.organization:
            return []
        lines = ["", "  gpu-ci:github:", "    runnerGroup:"]
        if not self.group:
            return [*lines, "      # repositories: the state has no runner group. Name those that may use the pools."]
        lines += [_comment(6, note) for note in self.group.notes]
        lines += [f"      groupName: {in_yaml(self.group.name)}"]
        if self.group.repositories:
            lines += [f"      repositories: {in_yaml(self.group.repositories)}"]
        if self.group.workflows:
            lines += [f"      selectedWorkflows: {in_yaml(self.group.workflows)}"]
        if self.group.reason:
            lines += [_comment(6, f"repositories: {self.group.reason}")]
        return lines

    def _clusters(self) -> list[str]:
        if not self.clusters:
            return []
        lines = ["", "  gpu-ci:clusters:"]
        for name, cluster in sorted(self.clusters.items()):
            lines += [f"    {in_yaml(name)}:"]
            for key, value in cluster.fields.items():
                lines += _field(6, key, value)
            if cluster.project and cluster.project != self.project:
                lines += _field(6, "project", cluster.project)
            lines += [_comment(6, f"{key}: {reason}") for key, reason in cluster.comments.items()]
        return lines


def _pool(pool: Pool) -> list[str]:
    lines = ["", _comment(4, f"{pool.was}: {pool.address}")]
    if pool.skipped:
        return [*lines, _comment(4, f"{pool.name}: not a pool, because {pool.skipped}")]
    lines += [f"    {in_yaml(pool.name)}:", f"      kind: {pool.kind}"]
    for name, value in pool.fields.items():
        lines += _field(6, name, value)
    lines += [_comment(6, f"{name}: write it; {reason}") for name, reason in pool.missing.items()]
    lines += [_comment(6, f"{name}: {reason}") for name, reason in pool.notes.items()]
    return lines


def _field(indent: int, name: str, value: Any) -> list[str]:
    """Return the lines of a field. These two fields have a line for each of their values."""
    if isinstance(value, Mapping) and name in ("runner", "subnets"):
        return [f"{' ' * indent}{name}:", *_map(indent + 2, value)]
    return [f"{' ' * indent}{name}: {in_yaml(value)}"]


def _map(indent: int, values: Mapping[str, Any]) -> list[str]:
    return [f"{' ' * indent}{in_yaml(key)}: {in_yaml(value)}" for key, value in values.items()]


def _comment(indent: int, text: str) -> str:
    """Return a comment on one line, because text of the state may have line breaks."""
    return f"{' ' * indent}# {redact(' '.join(text.split()))}"
