"""Find differences between the world and the states of the stacks, each with the command that removes it.

A provider may crash after it created a resource and before it answered. The resource is then in no state, and the
engine cannot find it.
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
SERVED = frozenset({"aws", "gcp", "github", "kubernetes"})
ENDINGS = (".json", ".json.gz")
VM = "gcp:compute/instance:Instance"


@dataclass(frozen=True)
class Orphan:
    """One difference. `adopt` is empty if no stack can import the resource, `remove` while an update may need it."""

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
    for path in sorted(path for path in root.rglob("*.json*") if path.name.endswith(ENDINGS)):
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


def running(backend: Path) -> dict[str, datetime]:
    """Return the stacks with a running update: `project/stack` and its start time."""
    since: dict[str, datetime] = {}
    root = backend / ".pulumi" / "locks"
    for path in root.rglob("*.json"):
        try:
            lock = json.loads(path.read_bytes())
            began = datetime.fromisoformat(lock["timestamp"])
            if lock.get("hostname") == socket.gethostname() and not alive(int(lock["pid"])):
                continue
        except (OSError, ValueError, KeyError, TypeError):
            continue
        *_, project, stack = path.parent.relative_to(root).parts if path.parent != root else ("", "")
        since[f"{project}/{stack}"] = began
    return since


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
    since = running(workspace.backend)
    known = states(workspace.backend)
    rows: list[Record] = []
    if workspace.world.is_file():
        world = World(workspace.world)
        rows = world.find()
        world.close()
    spoken = clusters(known, rows)
    entries = [orphan for state in known for orphan in without_row(state, rows, since, spoken)]
    # The VMs of a runner manager belong to no stack: the manager deletes them. Stopped VMs are its standby VMs.
    serves = serving_process(workspace) is not None
    rows = [row for row in rows if not (row.type == VM and row.origin == "api" and (serves or _is_stopped(row)))]
    return [*without_state(rows, known, since, spoken), *entries]


def _is_stopped(row: Record) -> bool:
    """Return True if the row is a stopped VM of a runner manager."""
    return row.outputs.get("status") == "TERMINATED" and "gpu-ci-manager" in (row.outputs.get("labels") or {})


def clusters(known: list[State], rows: list[Record]) -> dict[str, str]:
    """Return the cluster of each provider in the states.

    The cluster is read from the resources that the provider created, because the kubeconfig of the provider may be a
    secret. A provider without resources is left out.
    """
    made = {(row.type, row.id, row.urn): row.cluster for row in rows}
    found: dict[str, str] = {}
    for state in known:
        for entry in state.resources:
            key = (entry.get("type"), entry.get("id"), entry.get("urn"))
            if key in made:
                found[str(entry.get("provider"))] = made[key]
    return found


def served(entry: dict[str, Any]) -> bool:
    """Return True if the world holds the resource of an entry. `external` resources are only read."""
    package = str(entry.get("type", "")).partition(":")[0]
    return bool(entry.get("custom")) and package in SERVED and not entry.get("external")


def without_row(
    state: State, rows: list[Record], since: dict[str, datetime], spoken: dict[str, str]
) -> Iterator[Orphan]:
    there = {(row.type, row.id, row.cluster) for row in rows} | {(row.type, row.id, None) for row in rows}
    for entry in state.resources:
        if served(entry) and (entry["type"], entry.get("id", ""), spoken.get(str(entry.get("provider")))) not in there:
            urn = entry["urn"]
            yield Orphan(
                type=entry["type"],
                id=entry.get("id", ""),
                name=urn.split("::", 3)[-1],
                urn=urn,
                stack=state.stack,
                problem=f"it is in the state of {state.stack}, but no longer exists",
                remove=command("refresh", "--stack", state.stack, "--yes", "--skip-preview", "--target", urn),
                in_progress=f"{state.project}/{state.stack}" in since,
            )


REST = "github:rest/"
"""The prefix of types that only GitHub's REST API creates, such as workflow runs, jobs and runners."""


def is_patch(kind: str) -> bool:
    """Return True for a Kubernetes patch. A patch that a stack removed from its state leaves a row without a stack."""
    return kind.startswith("kubernetes:") and kind.endswith("Patch")


def without_state(
    rows: list[Record], known: list[State], since: dict[str, datetime], spoken: dict[str, str]
) -> Iterator[Orphan]:
    taken = {
        (entry.get("type"), entry.get("id"), spoken.get(str(entry.get("provider"))))
        for state in known
        for entry in state.resources
    }
    by_name = {f"{state.project}/{state.stack}": state for state in known}
    for row in rows:
        state = by_name.get(row.stack)
        known_here = {(row.type, row.id, row.cluster), (row.type, row.id, None)} & taken
        if known_here or (state and not state.readable) or row.origin == "controller":
            continue
        if is_patch(row.type) or row.type.startswith(REST):
            continue
        began = since.get(row.stack)
        # A resource created through the API names no stack. Any running update may have created it.
        borrowed = row.origin == "api" and bool(since)
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
            adopt=adopting(row, state) if state and all(entry["urn"] != row.urn for entry in state.resources) else "",
            remove="" if borrowed else command("world", "remove", row.path),
            in_progress=borrowed or (began is not None and datetime.fromisoformat(row.created) >= began),
        )


def adopting(row: Record, state: State, name: str = "") -> str:
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
    own = [entry for entry in state.resources if entry.get("type") == "pulumi:providers:kubernetes"]
    own = [entry for entry in own if not entry["urn"].rpartition("::")[2].startswith("default")]
    named = row.cluster.rpartition("/")[2]
    fitting = [entry for entry in own if named in str(entry.get("inputs", {}).get("kubeconfig"))] or own
    return str(fitting[0]["urn"]) if len(fitting) == 1 else ""


def parent_of(row: Record, state: State) -> str:
    """Return the component of a row. The URN has only its type, so the name is looked up in the state of the stack."""
    parts = row.urn.split("::", 3)
    kind = parts[2].rpartition("$")[0] if len(parts) == 4 else ""
    if not kind:
        return ""
    candidates = [entry["urn"] for entry in state.resources if entry["urn"].split("::", 3)[2] == kind]
    fitting = [urn for urn in candidates if bears(row.name, urn)]
    if fitting:
        return str(max(fitting, key=len))
    # A program may name children without the name of their parent. But if all other children carry that name, this
    # row is not a child of the component.
    children = [entry["urn"] for entry in state.resources if entry.get("parent") in candidates]
    named_after = children and all(bears(child.split("::", 3)[3], str(candidates[0])) for child in children)
    return str(candidates[0]) if len(candidates) == 1 and not named_after else ""


def bears(name: str, parent: str) -> bool:
    """Return True if the name is the parent's name, or starts with it and a dash: `l4b-group` is not of `l4`."""
    own = parent.split("::", 3)[3]
    return name == own or name.startswith(f"{own}-")


def command(*arguments: str) -> str:
    return shlex.join(["pulumi-sandbox", *arguments])
