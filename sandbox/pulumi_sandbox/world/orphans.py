"""Finds what the world and the stacks' states do not agree on, each with the command that puts it right.

A provider that dies between making a resource and answering leaves one that no state knows. The engine cannot find it.
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

# The packages whose resources are in the world; all others in a state are of other plugins.
SERVED = frozenset({"aws", "gcp", "github", "kubernetes"})
ENDINGS = (".json", ".json.gz")
VM = "gcp:compute/instance:Instance"


@dataclass(frozen=True)
class Orphan:
    """One disagreement. `adopt` is empty where there is nothing to adopt it into, `remove` while a run may need it."""

    type: str
    id: str
    name: str
    urn: str
    stack: str
    problem: str
    adopt: str = ""
    remove: str = ""
    # A run that still goes on may be about to write it down.
    in_progress: bool = False

    def __str__(self) -> str:
        lines = [f"{self.type} {self.name or self.id}: {self.problem}", f"    id:     {self.id}"]
        if self.in_progress and self.stack:
            lines.append("    note:   an update of this stack is running and may be about to write it down")
        elif self.in_progress:
            lines.append("    note:   an update is running and it may belong to that one; look again when it has ended")
        if self.adopt:
            lines.append(f"    adopt:  {self.adopt}")
        if self.remove:
            lines.append(f"    {'remove:' if self.adopt or 'world remove' in self.remove else 'mend:  '} {self.remove}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class State:
    """What one stack's state says."""

    project: str
    stack: str
    resources: list[dict[str, Any]] = field(default_factory=list)
    readable: bool = True


def states(backend: Path) -> list[State]:
    """Every stack of a file backend: `stacks/<project>/<stack>.json`, and the older `stacks/<stack>.json`."""
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
        except (OSError, ValueError, AttributeError):  # the engine tells about a broken state itself
            found.append(State("" if folder == "." else folder, name, readable=False))
    return found


def running(backend: Path) -> dict[str, datetime]:
    """The stacks that an update works on right now, `project/stack` -> since when."""
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
    """Everything the world has and no state knows, and everything a state has and the world does not."""
    # States before rows: what a running update makes in between is then a row no state knows, and marked as such.
    since = running(workspace.backend)
    known = states(workspace.backend)
    rows: list[Record] = []
    if workspace.world.is_file():
        world = World(workspace.world)
        rows = world.find()
        world.close()
    spoken = clusters(known, rows)
    entries = [orphan for state in known for orphan in without_row(state, rows, since, spoken)]
    # The machines of a runner manager belong to no stack, and the manager deletes them. Those on standby wait for it.
    serves = serving_process(workspace) is not None
    rows = [row for row in rows if not (row.type == VM and row.origin == "api" and (serves or _is_stopped(row)))]
    return [*without_state(rows, known, since, spoken), *entries]


def _is_stopped(row: Record) -> bool:
    """Whether it is a machine of a runner manager that is off."""
    return row.outputs.get("status") == "TERMINATED" and "gpu-ci-manager" in (row.outputs.get("labels") or {})


def clusters(known: list[State], rows: list[Record]) -> dict[str, str]:
    """The cluster each provider of the states speaks with, as what was made with it tells: its own kubeconfig may be a
    secret. A provider that made nothing is not among them."""
    made = {(row.type, row.id, row.urn): row.cluster for row in rows}
    found: dict[str, str] = {}
    for state in known:
        for entry in state.resources:
            key = (entry.get("type"), entry.get("id"), entry.get("urn"))
            if key in made:
                found[str(entry.get("provider"))] = made[key]
    return found


def served(entry: dict[str, Any]) -> bool:
    """Whether an entry of a state is of a resource that the world holds (`external` ones are only read)."""
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
                problem=f"the state of {state.stack} has it, and it does not exist any more",
                remove=command("refresh", "--stack", state.stack, "--yes", "--skip-preview", "--target", urn),
                in_progress=f"{state.project}/{state.stack}" in since,
            )


REST = "github:rest/"
"""The types of what GitHub's REST API makes and no resource of a stack describes: workflow runs, jobs, runners."""


def is_patch(kind: str) -> bool:
    """A patch of Kubernetes is no object of its own: what is left of one that a stack let go of belongs to no stack."""
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
        # What an update makes through the API bears no stack's name, so it may be any running one's.
        borrowed = row.origin == "api" and bool(since)
        stack = row.stack.rpartition("/")[2]
        problem = (
            f"it exists, and the state of {stack} does not know it" if stack else "it exists, and no stack made it"
        )
        if stack and state is None:
            problem = f"it exists, and its stack {stack} is gone"
        yield Orphan(
            type=row.type,
            id=row.id,
            name=row.name,
            urn=row.urn,
            stack=stack,
            problem=problem,
            # A second one of the same name cannot be taken in: the stack has made itself another.
            adopt=adopting(row, state) if state and all(entry["urn"] != row.urn for entry in state.resources) else "",
            remove="" if borrowed else command("world", "remove", row.path),
            in_progress=borrowed or (began is not None and datetime.fromisoformat(row.created) >= began),
        )


def adopting(row: Record, state: State, name: str = "") -> str:
    """The command that takes a row over into its stack, under the parent it was made for."""
    parent, provider = parent_of(row, state), provider_of(row, state)
    return command(
        "import", row.type, name or row.name, row.id, "--stack", state.stack,
        *(["--parent", f"parent={parent}"] if parent else []),
        *(["--provider", f"provider={provider}"] if provider else []),
        "--protect=false", "--generate-code=false", "--yes",
    )  # fmt: skip


def provider_of(row: Record, state: State) -> str:
    """The stack's own provider for a row's cluster; the default one speaks with what this machine's kubeconfig has."""
    if not row.cluster:
        return ""
    own = [entry for entry in state.resources if entry.get("type") == "pulumi:providers:kubernetes"]
    own = [entry for entry in own if not entry["urn"].rpartition("::")[2].startswith("default")]
    named = row.cluster.rpartition("/")[2]
    fitting = [entry for entry in own if named in str(entry.get("inputs", {}).get("kubeconfig"))] or own
    return str(fitting[0]["urn"]) if len(fitting) == 1 else ""


def parent_of(row: Record, state: State) -> str:
    """The component a row was made in; a URN names its type, so its name is found among those of the stack."""
    parts = row.urn.split("::", 3)
    kind = parts[2].rpartition("$")[0] if len(parts) == 4 else ""
    if not kind:
        return ""
    candidates = [entry["urn"] for entry in state.resources if entry["urn"].split("::", 3)[2] == kind]
    fitting = [urn for urn in candidates if bears(row.name, urn)]
    if fitting:
        return str(max(fitting, key=len))
    # A program may name children without their parent, but one whose others bear its name has not made this one.
    children = [entry["urn"] for entry in state.resources if entry.get("parent") in candidates]
    named_after = children and all(bears(child.split("::", 3)[3], str(candidates[0])) for child in children)
    return str(candidates[0]) if len(candidates) == 1 and not named_after else ""


def bears(name: str, parent: str) -> bool:
    """Whether a name is that of the parent's URN, or begins with it and a dash: `l4b-group` is not of `l4`."""
    own = parent.split("::", 3)[3]
    return name == own or name.startswith(f"{own}-")


def command(*arguments: str) -> str:
    return shlex.join(["pulumi-sandbox", *arguments])
