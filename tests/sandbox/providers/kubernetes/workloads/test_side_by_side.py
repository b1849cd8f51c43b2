"""Pods of one Job that run at once have nodes of their own, and names for each other."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.kubernetes.scheduling.scheduler import POD
from pulumi_sandbox.providers.kubernetes.workloads import jobs
from pulumi_sandbox.providers.readiness import NotReady

from tests.sandbox.providers.kubernetes.conftest import JOB, Cluster, archive, check_job

CONFIG_MAP, SERVICE = "kubernetes:core/v1:ConfigMap", "kubernetes:core/v1:Service"
TERM = {"labelSelector": {"matchLabels": {"app": "check"}}, "topologyKey": "kubernetes.io/hostname"}
APART = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}
TWO = ("first", "second")
# Says which of the names it was given are there, until all of them are or its time is over.
PROGRAM = """
import os, socket, sys, time
wanted = [name.replace("*", os.environ["JOB"]) for name in os.environ["NAMES"].split(",")]
until = time.monotonic() + float(os.environ.get("SEC", "30"))
seen = set()
while time.monotonic() < until and len(seen) < len(wanted):
    for name in wanted:
        try:
            seen.add((name, socket.getaddrinfo(name, None)[0][4][0]))
        except socket.gaierror as error:
            assert error.errno == socket.EAI_NONAME, error
    time.sleep(0.1)
index = os.environ["JOB_COMPLETION_INDEX"]
print(index, "saw", len(seen), "of", len(wanted), "at", len({address for _, address in seen}), flush=True)
time.sleep(float(os.environ.get("STAY", "1.5")))
sys.exit(0 if len(seen) == len(wanted) else 4)
"""


@pytest.fixture
def ready(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(jobs, "NEW_NODE_SEC", 0.0)
    meta = {"name": "check", "namespace": "default"}
    cluster.up(CONFIG_MAP, "check", {"metadata": meta, "binaryData": {"check.pyz": archive(PROGRAM)}})
    listed = ", ".join(f"{{name: {name}, allocatable: {{cpu: 8}}}}" for name in TWO)
    cluster.settings(f"guest: {{}}\nvalues: {{kubernetes: {{nodes: [{listed}]}}}}\n")
    return cluster


def named(cluster: Cluster, cluster_ip: str = "None", **selector: str) -> None:
    ports = [] if cluster_ip == "None" else [{"port": 80}]
    spec = {"clusterIP": cluster_ip, "selector": {"app": "check", **selector}, "ports": ports}
    cluster.up(SERVICE, "peers", {"metadata": {"name": "peers", "namespace": "default"}, "spec": spec})


def pair(names: str = "*-0.peers,*-1.peers", **environment: str) -> dict[str, Any]:
    """Two pods that keep off each other and look for names, in which * is the Job's."""
    given = check_job({"NAMES": names, **environment}, completionMode="Indexed", completions=2, parallelism=2)
    template = given["spec"]["template"]
    template["metadata"] = {"labels": {"app": "check"}}
    template["spec"] |= {"affinity": APART, "subdomain": "peers"}
    job = {"fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/job-name']"}}
    template["spec"]["containers"][0]["env"].append({"name": "JOB", "valueFrom": job})
    return given


def gpu_lines(cluster: Cluster) -> list[str]:
    return sorted(text for _, text in cluster.messages if " saw " in text)


def test_pods_that_run_at_once_find_each_other_and_are_on_nodes_of_their_own(ready: Cluster) -> None:
    named(ready)
    ready.up(JOB, "smoke", pair("*-0.peers,*-1.peers,*-0.peers.default.svc.cluster.local.,*-1.peers.default"))
    assert gpu_lines(ready) == ["0 saw 4 of 4 at 2", "1 saw 4 of 4 at 2"]
    pods = ready.world.find(POD)
    assert sorted(str(row.inputs["spec"]["nodeName"]) for row in pods) == sorted(TWO)
    assert sorted(str(row.inputs["spec"]["hostname"]) for row in pods) == ["smoke-0", "smoke-1"]


@pytest.mark.parametrize(("cluster_ip", "selector"), [("10.96.0.9", {}), ("None", {"app": "another"})])
def test_a_service_that_is_not_headless_or_selects_others_names_nobody(
    ready: Cluster, cluster_ip: str, selector: dict[str, str]
) -> None:
    named(ready, cluster_ip, **selector)
    with pytest.raises(NotReady):
        ready.up(JOB, "smoke", pair(SEC="0.5", STAY="0"))
    assert gpu_lines(ready)[0].endswith("saw 0 of 2 at 0")
