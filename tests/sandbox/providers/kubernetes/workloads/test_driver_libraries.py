"""A container on Container-Optimized OS that does not find the driver's libraries."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from pulumi_sandbox.providers.kubernetes.scheduling.scheduler import POD
from pulumi_sandbox.providers.kubernetes.workloads import jobs
from pulumi_sandbox.providers.readiness import NotReady

from tests.sandbox.providers.kubernetes.conftest import GPU, JOB, Cluster, archive, check_job
from tests.sandbox.providers.kubernetes.scheduling.test_gke_nodes import SPEC, pool

# Ends with 4 if the driver cannot be opened. The computer that runs it may have no driver, so a fake one is there.
PROGRAM = """
import ctypes, os, sys
class Driver:
    pass
real = ctypes.CDLL
try:
    ctypes.CDLL("libcuda.so.1")
except OSError as error:
    print(error, flush=True)
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") == ""
    sys.exit(4 if hidden else 5)
sys.exit(0)
"""
FAKE = """
import ctypes
_real = ctypes.CDLL
def load(name, *arguments, **options):
    return object() if name == "libcuda.so.1" else _real(name, *arguments, **options)
ctypes.CDLL = load
"""
PATH = "/usr/local/nvidia/lib64"
NO_LIBRARIES = f"smoke finds no libcuda.so.1: GKE mounts the driver at {PATH}, which is not in LD_LIBRARY_PATH"


@pytest.fixture
def gke(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A cluster with a GPU pool, whose containers have a sitecustomize module of their own, with a driver."""
    monkeypatch.setattr(jobs, "NEW_NODE_SEC", 0.0)
    packages = cluster.folder / "packages"
    packages.mkdir()
    (packages / "sitecustomize.py").write_text(FAKE)
    image = "{match: 'cuda:11*', ldLibraryPath: '/usr/local/nvidia/lib:/usr/local/nvidia/lib64'}"
    cluster.settings(
        f"guest: {{environment: {{PYTHONPATH: '{packages}'}}}}\nvalues: {{kubernetes: {{images: [{image}]}}}}\n"
    )
    meta = {"name": "check", "namespace": "default"}
    data = {"check.pyz": archive(PROGRAM)}
    cluster.up("kubernetes:core/v1:ConfigMap", "check", {"metadata": meta, "binaryData": data})
    return cluster


def gpu_job(environment: dict[str, str] | None = None, image: str = "python:3.12", gpus: int = 1) -> dict[str, Any]:
    given = check_job(environment)
    spec = given["spec"]["template"]["spec"]
    spec |= {"tolerations": SPEC["tolerations"], "nodeSelector": SPEC["nodeSelector"]}
    spec["containers"][0] |= {"image": image, **({"resources": {"limits": {GPU: gpus}}} if gpus else {})}
    return given


def exit_code(cluster: Cluster, given: dict[str, Any]) -> int:
    """Run a Job, and return the exit code of its container."""
    with contextlib.suppress(NotReady):
        cluster.up(JOB, "smoke", given)
    [pod] = cluster.world.find(POD)
    [state] = pod.outputs["status"]["containerStatuses"]
    return int(state["state"]["terminated"]["exitCode"])


CASES: dict[str, tuple[dict[str, Any], int]] = {
    "no variable": (gpu_job(), 4),
    "another folder": (gpu_job({"LD_LIBRARY_PATH": "/usr/local/cuda/lib64"}), 4),
    "the folder": (gpu_job({"LD_LIBRARY_PATH": PATH}), 0),
    "the folder among others": (gpu_job({"LD_LIBRARY_PATH": f"/opt/lib:{PATH}/"}), 0),
    "an image that has it": (gpu_job(image="cuda:11.4"), 0),
    "an image whose variable the container replaces": (gpu_job({"LD_LIBRARY_PATH": "/opt/lib"}, "cuda:11.4"), 4),
    "no GPU": (gpu_job(gpus=0), 0),
}


@pytest.mark.parametrize(("given", "code"), CASES.values(), ids=CASES)
def test_a_container_with_a_gpu_needs_the_folder_of_the_driver_in_its_loaders_path(
    gke: Cluster, given: dict[str, Any], code: int
) -> None:
    pool(gke)
    assert exit_code(gke, given) == code
    said = [text for _, text in gke.messages if "libcuda" in text]
    error = "libcuda.so.1: cannot open shared object file: No such file or directory"
    assert said == ([NO_LIBRARIES, error] if code else [])
