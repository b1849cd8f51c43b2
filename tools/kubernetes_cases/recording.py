"""Record the objects that Kubernetes' own validation tests check.

The tests are those of k8s.io/kubernetes in the version of tools/kubernetes/go.mod. Each validation package is copied
with its tests into a module of its own. In the copy, each function of FUNCTIONS writes its arguments to a file.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

MODULE = "k8s.io/kubernetes"
RECORD = Path(__file__).parent / "record"
PINNED = Path(__file__).parents[1] / "kubernetes"
# The module of the copies needs other lines in its go.mod. The versions stay those of tools/kubernetes.
ENVIRONMENT = {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false -mod=mod", "GOWORK": "off"}
# The functions that an API server calls for a new and for a changed object, for the kinds of our components and of ARC.
FUNCTIONS = {
    "core": (
        "ConfigMap", "ConfigMapUpdate", "Namespace", "NamespaceUpdate", "PersistentVolumeClaim",
        "PersistentVolumeClaimUpdate", "PodCreate", "PodUpdate", "ResourceQuota", "ResourceQuotaUpdate", "Secret",
        "SecretUpdate", "ServiceAccount", "ServiceCreate", "ServiceUpdate",
    ),
    "apps": ("DaemonSet", "DaemonSetUpdate", "Deployment", "DeploymentUpdate"),
    "batch": ("Job", "JobUpdate"),
    "networking": ("NetworkPolicy", "NetworkPolicyUpdate"),
    "rbac": (
        "ClusterRole", "ClusterRoleBinding", "ClusterRoleBindingUpdate", "ClusterRoleUpdate", "Role", "RoleBinding",
        "RoleBindingUpdate", "RoleUpdate",
    ),
}  # fmt: skip
# Kinds without a namespace.
CLUSTER_WIDE = ("ClusterRole", "ClusterRoleBinding", "Namespace")
# The API server sets these fields itself, or takes no change of them from a program.
SERVER_FIELDS = (
    "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields",
    "resourceVersion", "uid",
)  # fmt: skip
# The labels that the API server adds to the pods of a Job (pkg/registry/batch/job/strategy.go, generateSelector).
GENERATED = ("batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name")
# Parts of messages about the cluster instead of the object, and what the object needs.
ENVIRONMENTAL = {
    "provided port is": "the cluster has no such node port for Services",
    "no PriorityClass with name": "the cluster has no such PriorityClass",
    "error looking up service account": "the cluster has no such ServiceAccount",
    "only dynamically provisioned pvc can be resized": "the cluster has no StorageClass that allows the expansion",
}


@dataclass(frozen=True)
class Case:
    """An object of a test, and the object that it replaces if the test is about an update."""

    test: str
    accepted: bool
    """Whether the validation of the test accepts the object. Tests set their own feature gates, and no defaults."""
    new: dict[str, Any]
    old: dict[str, Any] | None = None
    status: dict[str, Any] | None = None
    """The status of the old object if it is a claim with a volume."""
    answer: tuple[str, ...] = ()
    """The problems that the API server reports; none if it accepts the object."""
    old_refused: str = ""
    """The message of the API server if it refuses the old object, so that it cannot be asked about the update."""

    @property
    def server_accepts(self) -> bool:
        return not self.answer

    @property
    def excluded(self) -> str:
        """Return why the answer of the API server is not about the object itself."""
        if self.old_refused:
            return "the API server refuses the object before the update"
        if self.old and not self.status and any("for bound claims" in one for one in self.answer):
            return "the claim has no volume yet; in the sandbox, every claim has one"
        for text, reason in ENVIRONMENTAL.items():
            if any(text in one for one in self.answer):
                return reason
        return ""

    @property
    def kind(self) -> str:
        return str(self.new["kind"])

    @property
    def operation(self) -> str:
        return "update" if self.old else "create"


def record(go: str, folder: Path) -> list[Case]:
    """Run the tests in an empty folder, and return each different case once."""
    output = folder / "cases.jsonl"
    environment = {**os.environ, **ENVIRONMENT, "CASES": str(output)}
    source = Path(_output([go, "list", "-C", PINNED, "-m", "-f", "{{.Dir}}", MODULE], environment))
    _write_module(source, folder)
    _output(
        [go, "test", "-C", folder, "-p", "1", "-trimpath", "-count=1", *(f"./{one}" for one in FUNCTIONS)], environment
    )
    # Equal objects of several tests are kept once, and Go runs the cases of a test in a random order.
    found = sorted(output.read_text(encoding="utf-8").splitlines())
    # Go iterates over its maps in a random order.
    return sorted(
        cases(json.loads(line) for line in found),
        key=lambda one: (one.kind, one.operation, one.test, json.dumps(asdict(one), sort_keys=True)),
    )


def cases(rows: Iterator[dict[str, Any]]) -> Iterator[Case]:
    """Yield the cases that a program can send: with one name, which an update does not change."""
    seen = set()
    for row in rows:
        *old, new = (as_sent(one) for one in row["objects"])
        status = row["objects"][0].get("status", {}) if old else {}
        bound = _without_nulls(status) if status.get("phase") == "Bound" else None
        key = json.dumps([old, new, bound], sort_keys=True)
        names = {_identity(one) for one in (*old, new)}
        if key not in seen and len(names) == 1 and names.pop()[0]:
            seen.add(key)
            yield Case(row["test"], row["accepted"], new, old[0] if old else None, bound)


def as_sent(given: dict[str, Any]) -> dict[str, Any]:
    """Return an object as a program sends it: without status, empty fields and fields that the API server sets."""
    sent: dict[str, Any] = _without_nulls({name: value for name, value in given.items() if name != "status"})
    metadata = {name: value for name, value in (sent.get("metadata") or {}).items() if name not in SERVER_FIELDS}
    if given["kind"] not in CLUSTER_WIDE:
        metadata.setdefault("namespace", "default")
    if given["kind"] == "Job":
        _remove_generated_selector(sent["spec"])
    return {**sent, "metadata": metadata}


def _remove_generated_selector(spec: dict[str, Any]) -> None:
    """Remove the selector of a Job and its labels if they have the form that the API server generates."""
    labels = spec["template"].get("metadata", {}).get("labels", {})
    generated = {name: labels.get(name) for name in GENERATED}
    selected = spec.get("selector", {}).get("matchLabels", {})
    if not spec.get("manualSelector") and None not in generated.values() and selected.items() <= generated.items():
        spec.pop("selector", None)
        for name in GENERATED:
            del labels[name]


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value


def _identity(given: dict[str, Any]) -> tuple[str, str]:
    metadata = given["metadata"]
    return str(metadata.get("name") or ""), str(metadata.get("namespace") or "")


def _write_module(source: Path, folder: Path) -> None:
    text = (PINNED / "go.mod").read_text(encoding="utf-8")
    text = re.sub(r"^tool \(.*?^\)\n", "", text, flags=re.MULTILINE | re.DOTALL)
    (folder / "go.mod").write_text(re.sub(r"^module .*", "module cases", text, flags=re.MULTILINE), encoding="utf-8")
    shutil.copyfile(PINNED / "go.sum", folder / "go.sum")
    shutil.copytree(RECORD, folder / "record")
    for group, names in FUNCTIONS.items():
        (folder / group).mkdir()
        for one in (source / "pkg" / "apis" / group / "validation").glob("*.go"):
            text = one.read_text(encoding="utf-8")
            (folder / group / one.name).write_text(
                recorded(text, names) if one.name == "validation.go" else text, encoding="utf-8"
            )


def recorded(source: str, names: tuple[str, ...]) -> str:
    """Return the source of a validation package in which the named functions record their arguments."""
    for name in names:
        function = re.search(rf"^func Validate{name}\((.*)\) field\.ErrorList {{$", source, re.MULTILINE)
        if function is None:
            raise ValueError(f"{MODULE}: no function Validate{name}(...) field.ErrorList")
        arguments = [one.split()[0] for one in function[1].split(", ")]
        # The functions take the new object first.
        objects = [one for one in reversed(arguments) if one != "opts"]
        wrapper = (
            f"func Validate{name}({function[1]}) field.ErrorList {{\n"
            f"\tproblems := checked{name}({', '.join(arguments)})\n"
            f"\trecord.Case(problems, {', '.join(objects)})\n"
            "\treturn problems\n}\n\n"
        )
        source = source.replace(function[0], f"{wrapper}func checked{name}({function[1]}) field.ErrorList {{", 1)
    return source.replace("import (\n", 'import (\n\t"cases/record"\n', 1)


def _output(command: list[str | Path], environment: dict[str, str]) -> str:
    ended = subprocess.run(["nice", "-n", "19", *command], env=environment, capture_output=True, text=True, check=False)
    if ended.returncode:
        texts = (f"`{' '.join(map(str, command))}` exits with {ended.returncode}", ended.stdout, ended.stderr)
        raise RuntimeError("\n".join(texts))
    return ended.stdout.strip()
