"""Find orphans: differences between the world and the states of the stacks, each with the command that resolves it.

The world is the emulated cloud state. A state is what the engine stored about one stack. A provider may crash after it
created a resource and before it answered the engine. The resource is then in the world and in no state.
"""

from __future__ import annotations

import gzip
import json
import os
import shlex
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from pulumi_sandbox.serve_lock import serving_process
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.store import Record, World

# The packages whose resources are in the world. Other resources in a state belong to other plugins.
PACKAGES = frozenset({"aws", "gcp", "github", "kubernetes"})
STATE_SUFFIXES = (".json", ".json.gz")
VM = "gcp:compute/instance:Instance"


@dataclass(frozen=True)
class Orphan:
    """One difference. `adopt` and `remove` are commands.

    `adopt` is empty if no stack can import the resource. `remove` is empty while a running update may
    need the resource.
    """

    type: str
    id: str
    name: str
    urn: str
    stack: str
    problem: str
    adopt: str = ""
    remove: str = ""
    # A running update may be about to save the resource in its state.
    in_progress: bool = False

    def __str__(self) -> str:
        lines = [f"{self.type} {self.name or self.id}: {self.problem}", f"    id:     {self.id}"]
        if self.in_progress and self.stack:
            lines.append("    note:   an update of this stack is running and may be about to save it in the state")
        elif self.in_progress:
            lines.append("    note:   it may belong to an update that is running; check again after the update")
        if self.adopt:
            lines.append(f"    adopt:  {self.adopt}")
        if self.remove:
            lines.append(f"    {'remove:' if self.adopt or 'world remove' in self.remove else 'fix:   '} {self.remove}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class State:
    """The resources in the state of one stack."""

    project: str
    stack: str
    resources: list[dict[str, Any]] = field(default_factory=list)
    readable: bool = True


def states(backend: Path) -> list[State]:
    """Read every stack of a file backend: `stacks/<project>/<stack>.json`, and the older `stacks/<stack>.json`."""
    root = backend / ".pulumi" / "stacks"
    found = []
    for path in sorted(path for path in root.rglob("*.json*") if path.name.endswith(STATE_SUFFIXES)):
        name = path.name.removesuffix(".gz").removesuffix(".json")
        folder = path.parent.relative_to(root).as_posix()
        try:
            raw = path.read_bytes()
            stored = json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)
            deployment = stored.get("checkpoint", stored).get("latest") or {}
            found.append(State("" if folder == "." else folder, name, list(deployment.get("resources") or [])))
        except (OSError, ValueError, AttributeError):  # the engine reports a broken state itself
            found.append(State("" if folder == "." else folder, name, readable=False))
    return found


def running_updates(backend: Path) -> dict[str, datetime]:
    """Return the stacks with a running update: `project/stack` and its start time."""
    update_starts: dict[str, datetime] = {}
    root = backend / ".pulumi" / "locks"
    for path in root.rglob("*.json"):
        try:
            lock = json.loads(path.read_bytes())
            started_at = datetime.fromisoformat(lock["timestamp"])
            if lock.get("hostname") == socket.gethostname() and not alive(int(lock["pid"])):
                continue
        except (OSError, ValueError, KeyError, TypeError):
            continue
        *_, project, stack = path.parent.relative_to(root).parts if path.parent != root else ("", "")
        update_starts[f"{project}/{stack}"] = started_at
    return update_starts


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def find(workspace: Workspace) -> list[Orphan]:
    """Return the rows of the world that are in no state, and the resources of a state that are not in the world."""
    # The states are read before the rows. A resource that an update creates in between is then a row that is in no
    # state, and is marked as in progress.
    update_starts = running_updates(workspace.backend)
    stack_states = states(workspace.backend)
    rows: list[Record] = []
    if workspace.world.is_file():
        world = World(workspace.world)
        rows = world.find()
        world.close()
    cluster_of = cluster_of_providers(stack_states, rows)
    from_states = [
        orphan for state in stack_states for orphan in missing_in_world(state, rows, update_starts, cluster_of)
    ]
    # The VMs of a runner manager belong to no stack: the manager deletes them. Stopped VMs are its standby VMs.
    is_served = serving_process(workspace) is not None
    rows = [row for row in rows if not (row.type == VM and row.origin == "api" and (is_served or _is_stopped(row)))]
    return [*missing_in_states(rows, stack_states, update_starts, cluster_of), *from_states]


def _is_stopped(row: Record) -> bool:
    """Return True if the row is a stopped VM of a runner manager."""
    return row.outputs.get("status") == "TERMINATED" and "gpu-ci-manager" in (row.outputs.get("labels") or {})


def cluster_of_providers(stack_states: list[State], rows: list[Record]) -> dict[str, str]:
    """Return the cluster of each provider in the states.

    The cluster is read from the resources that the provider created, because the kubeconfig of the provider may be a
    secret. A provider without resources is left out.
    """
    cluster_of_row = {(row.type, row.id, row.urn): row.cluster for row in rows}
    cluster_of: dict[str, str] = {}
    for state in stack_states:
        for entry in state.resources:
            key = (entry.get("type"), entry.get("id"), entry.get("urn"))
            if key in cluster_of_row:
                cluster_of[str(entry.get("provider"))] = cluster_of_row[key]
    return cluster_of


def is_stored(entry: dict[str, Any]) -> bool:
    """Return True if the world holds the resource of an entry. `external` resources are only read."""
    package = str(entry.get("type", "")).partition(":")[0]
    return bool(entry.get("custom")) and package in PACKAGES and not entry.get("external")


def missing_in_world(
    state: State, rows: list[Record], update_starts: dict[str, datetime], cluster_of: dict[str, str]
) -> Iterator[Orphan]:
    existing = {(row.type, row.id, row.cluster) for row in rows} | {(row.type, row.id, None) for row in rows}
    for entry in state.resources:
        if (
            is_stored(entry)
            and (entry["type"], entry.get("id", ""), cluster_of.get(str(entry.get("provider")))) not in existing
        ):
            urn = entry["urn"]
            yield Orphan(
                type=entry["type"],
                id=entry.get("id", ""),
                name=urn.split("::", 3)[-1],
                urn=urn,
                stack=state.stack,
                problem=f"it is in the state of {state.stack}, but no longer exists",
                remove=command("refresh", "--stack", state.stack, "--yes", "--skip-preview", "--target", urn),
                in_progress=f"{state.project}/{state.stack}" in update_starts,
            )


REST_PREFIX = "github:rest/"
"""The prefix of types that only GitHub's REST API creates, such as workflow runs, jobs and runners."""


def is_patch(kind: str) -> bool:
    """Return True for a Kubernetes patch. A patch that a stack removed from its state leaves a row without a stack."""
    return kind.startswith("kubernetes:") and kind.endswith("Patch")


def missing_in_states(
    rows: list[Record], stack_states: list[State], update_starts: dict[str, datetime], cluster_of: dict[str, str]
) -> Iterator[Orphan]:
    in_states = {
        (entry.get("type"), entry.get("id"), cluster_of.get(str(entry.get("provider"))))
        for state in stack_states
        for entry in state.resources
    }
    state_of = {f"{state.project}/{state.stack}": state for state in stack_states}
    for row in rows:
        state = state_of.get(row.stack)
        is_in_states = {(row.type, row.id, row.cluster), (row.type, row.id, None)} & in_states
        if is_in_states or (state and not state.readable) or row.origin == "controller":
            continue
        if is_patch(row.type) or row.type.startswith(REST_PREFIX):
            continue
        started_at = update_starts.get(row.stack)
        # A resource created through the API names no stack. Any running update may have created it.
        may_be_of_update = row.origin == "api" and bool(update_starts)
        stack = row.stack.rpartition("/")[2]
        problem = f"it exists, but is not in the state of {stack}" if stack else "it exists, but no stack created it"
        if stack and state is None:
            problem = f"it exists, but its stack {stack} does not"
        yield Orphan(
            type=row.type,
            id=row.id,
            name=row.name,
            urn=row.urn,
            stack=stack,
            problem=problem,
            # The stack cannot import it if its state has a newer resource with the same URN.
            adopt=import_command(row, state)
            if state and all(entry["urn"] != row.urn for entry in state.resources)
            else "",
            remove="" if may_be_of_update else command("world", "remove", row.path),
            in_progress=may_be_of_update
            or (started_at is not None and datetime.fromisoformat(row.created) >= started_at),
        )


def import_command(row: Record, state: State, name: str = "") -> str:
    """Return the command that imports a row into its stack, under the parent in its URN."""
    parent, provider = parent_of(row, state), provider_of(row, state)
    return command(
        "import", row.type, name or row.name, row.id, "--stack", state.stack,
        *(["--parent", f"parent={parent}"] if parent else []),
        *(["--provider", f"provider={provider}"] if provider else []),
        "--protect=false", "--generate-code=false", "--yes",
    )  # fmt: skip


def provider_of(row: Record, state: State) -> str:
    """Return the explicit provider of the stack for the row's cluster, or an empty string for the default provider."""
    if not row.cluster:
        return ""
    providers = [entry for entry in state.resources if entry.get("type") == "pulumi:providers:kubernetes"]
    providers = [entry for entry in providers if not entry["urn"].rpartition("::")[2].startswith("default")]
    cluster_name = row.cluster.rpartition("/")[2]
    matching = [
        entry for entry in providers if cluster_name in str(entry.get("inputs", {}).get("kubeconfig"))
    ] or providers
    return str(matching[0]["urn"]) if len(matching) == 1 else ""


def parent_of(row: Record, state: State) -> str:
    """Return the component of a row. The URN has only its type, so the name is looked up in the state of the stack."""
    parts = row.urn.split("::", 3)
    component_type = parts[2].rpartition("$")[0] if len(parts) == 4 else ""
    if not component_type:
        return ""
    candidates = [entry["urn"] for entry in state.resources if entry["urn"].split("::", 3)[2] == component_type]
    matching = [urn for urn in candidates if is_named_after(row.name, urn)]
    if matching:
        return str(max(matching, key=len))
    # A program may name children without the name of their parent. But if all other children carry that name, this
    # row is not a child of the component.
    children = [entry["urn"] for entry in state.resources if entry.get("parent") in candidates]
    named_after = children and all(is_named_after(child.split("::", 3)[3], str(candidates[0])) for child in children)
    return str(candidates[0]) if len(candidates) == 1 and not named_after else ""


def is_named_after(name: str, parent: str) -> bool:
    """Return True if the name is the parent's name, or starts with it and a dash: `l4-group`, but not `l4b-group`."""
    parent_name = parent.split("::", 3)[3]
    return name == parent_name or name.startswith(f"{parent_name}-")


def command(*arguments: str) -> str:
    return shlex.join(["pulumi-sandbox", *arguments])
