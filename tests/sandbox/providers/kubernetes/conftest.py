"""A kubernetes provider with a world of its own, and objects that every rule accepts."""

from __future__ import annotations

import base64
import copy
import io
import itertools
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from pulumi_sandbox.providers.kubernetes.provider import Kubernetes
from pulumi_sandbox.providers.lifecycle import Lifecycle
from pulumi_sandbox.providers.resource import Resource
from pulumi_sandbox.providers.sdk.shapes import Shapes
from pulumi_sandbox.providers.values import NO_SECRETS, Decoded, Secrets

from tests.sandbox.providers.clouds import Bench

SHAPES = Shapes("kubernetes")
JOB = "kubernetes:batch/v1:Job"
GPU = "nvidia.com/gpu"

POD: dict[str, Any] = {
    "restartPolicy": "Never",
    "containers": [{"name": "smoke", "image": "python:3.12", "resources": {"limits": {GPU: 1}}}],
}


def job(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "smoke", "namespace": "default"},
        "spec": {"template": {"spec": copy.deepcopy(POD)}, **spec},
    }


def changed(given: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy with another value at a path of names and numbers; `...` takes what is there away."""
    given = copy.deepcopy(given)
    steps: list[Any] = [int(one) if one.isdigit() else one for one in path.split("/")]
    at: Any = given
    for here, after in itertools.pairwise(steps):
        if isinstance(at, dict):
            at = at.setdefault(here, [] if isinstance(after, int) else {})
        else:
            if here == len(at):
                at.append({})
            at = at[here]
    if value is ...:
        del at[steps[-1]]
    elif isinstance(at, list) and steps[-1] == len(at):
        at.append(value)
    else:
        at[steps[-1]] = value
    return given


# A program in a ConfigMap of a stack: a zip that python3 runs. It prints its node and index, and writes its termination
# log. Its environment has its exit code.
PROGRAM = """
import os, sys, time
log = sys.argv[sys.argv.index("--termination-log") + 1] if "--termination-log" in sys.argv else ""
print("on", os.environ.get("NODE_NAME"), "index", os.environ.get("JOB_COMPLETION_INDEX"), flush=True)
time.sleep(float(os.environ.get("SLEEP", "0")))
code = int(os.environ.get("CODE_" + os.environ.get("JOB_COMPLETION_INDEX", ""), os.environ.get("CODE", "0")))
if log:
    open(log, "w").write(os.environ.get("WORDS", "GPU 0 computes wrong" if code else "pass"))
sys.exit(code)
"""


def archive(program: str = PROGRAM) -> str:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as zipped:
        zipped.writestr("__main__.py", program)
    return base64.b64encode(buffer.getvalue()).decode()


def check_job(environment: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """A Job whose container runs the program of the ConfigMap `check`."""
    given = job(backoffLimit=0, **spec)
    container = {
        "name": "smoke",
        "image": "python:3.12",
        "command": ["python3", "/opt/check/check.pyz", "--termination-log", "/dev/termination-log"],
        "env": [
            {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            *({"name": name, "value": value} for name, value in (environment or {}).items()),
        ],
        "volumeMounts": [{"name": "check", "mountPath": "/opt/check"}],
    }
    pod = given["spec"]["template"]["spec"]
    pod |= {"containers": [container], "volumes": [{"name": "check", "configMap": {"name": "check"}}]}
    return given


class Cluster(Bench):
    """Calls the provider's hooks, and keeps its messages."""

    messages: list[tuple[str, str]]
    lifecycle: Lifecycle

    def settings(self, text: str) -> None:
        """Another sandbox.yaml, as a provider that starts would find it."""
        (self.folder / "sandbox.yaml").write_text(text)
        self.cloud.__dict__.pop("lookups", None)

    def up(
        self, token: str, name: str, inputs: dict[str, Any], secrets: Secrets = NO_SECRETS, timeout: float = 0.0
    ) -> Resource:
        """Check and Create through the protocol's own steps; raises Refused."""
        res = self.resource(
            token, name, inputs, log=lambda text, severity="info": self.messages.append((severity, text))
        )
        res.secrets, res.timeout = secrets, timeout
        self.cloud.autoname(res)
        assert [f"{one.path}: {one}" for one in self.cloud.rules(res)] == []
        self.lifecycle.create(res)
        return res

    def change(self, made: Resource, inputs: dict[str, Any]) -> Resource:
        """Check and Update of what `up` made."""
        res = self.resource(
            made.token,
            made.name,
            inputs,
            id=made.id,
            old_inputs=made.inputs,
            outputs=made.outputs,
            log=lambda text, severity="info": self.messages.append((severity, text)),
        )
        self.cloud.autoname(res)
        self.lifecycle.update(res, Decoded(made.outputs))
        return res

    def problems(self, token: str, inputs: dict[str, Any]) -> list[str]:
        """Return the problems of Check, as `path: text`."""
        kind = token.rsplit(":", 1)[-1]
        version = token.split(":")[1].removeprefix("core/")
        given = {"apiVersion": version, "kind": kind, **inputs}
        return [f"{one.path}: {one.text}" for one in self.cloud.rules(self.resource(token, "it", given))]


def kubeconfig(name: str, region: str = "us-east-1", server: str = "", flag: str = "--cluster-name") -> str:
    """One as for a cluster of EKS, its token asked for by name."""
    words = [*(["--region", region] if region else []), "eks", "get-token", flag, name]
    return json.dumps(
        {
            "clusters": [{"name": "c", "cluster": {"server": server or f"https://{name}.example"}}],
            "users": [{"name": "u", "user": {"exec": {"command": "aws", "args": words}} if name else {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )


def on(folder: Path, **config: Any) -> Cluster:
    """A provider over the world in this folder; two of them share it."""
    cloud = Kubernetes()
    cloud.shapes = SHAPES
    bench = Cluster(cloud, folder, config)
    bench.messages = []
    bench.lifecycle = Lifecycle(cloud, cloud.context)
    return bench


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return on(tmp_path)
