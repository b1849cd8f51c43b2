"""Notebook pipelines of a stack file: what they get of their pool and cluster, and what is created around them."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from pulumi.runtime import rpc
from pulumi_sandbox.providers.kubernetes.tekton.listener import evaluate

from tests.gpu_ci.harness import Deployment, Row
from tests.gpu_ci.program import gke
from tests.gpu_ci.program.stack import ON_CLUSTER, config
from tests.gpu_ci.program.test_clusters import A10G
from tests.gpu_ci.program.test_program import ALL_CALLS, GET_CLUSTER, STACK, gke_cluster, run

pytestmark = pytest.mark.usefixtures("short_definitions")

IMAGE = f"ghcr.io/acme/notebook:1@sha256:{'a1' * 32}"
SECRETS = {name: f"projects/example-ci/secrets/{name}" for name in ("webhook", "key", "slack", "ghcr")}
ENTRY: dict[str, Any] = {
    "pool": "l4",
    "image": IMAGE,
    "repositories": ["kernels", "Detector"],
    "storage": {"kind": "bucket", "url": "gs://acme-notebooks/ci"},
    "access": {"kind": "ingress", "host": "notebooks.acme.dev", "ingressClassName": "nginx", "tlsSecret": "tls"},
    "webhookSecret": SECRETS["webhook"],
    "github": {"id": 19, "installationId": 20, "privateKey": SECRETS["key"]},
    "notify": {"url": SECRETS["slack"]},
    "imagePullSecrets": ["ghcr"],
}
LOGIN = {"name": "ghcr", "registry": "ghcr.io", "username": "bot", "password": SECRETS["ghcr"]}
PROJECT = {"gcp:organizations/getProject:getProject": lambda _: {"number": "123456789012"}}
POOLS = {"workloadIdentityConfigs": [{"workloadPool": "example-ci.svc.id.goog"}]}
CALLS = {**ALL_CALLS, **PROJECT, GET_CLUSTER: lambda asked: gke_cluster(asked, **POOLS)}


def on_gke(cluster: Any = None, **changes: Any) -> dict[str, Any]:
    entry = {key: value for key, value in {**ENTRY, **changes}.items() if value is not None}
    shared = {"tekton": {}, "imagePullSecrets": [LOGIN], **(cluster or {})}
    values: dict[str, Any] = gke.stack(cluster=shared, notebooks={"analysis": entry})
    return values


@cache
def deployed() -> Deployment:
    return run(on_gke(), calls=CALLS)


@cache
def on_eks() -> Deployment:
    clusters = {"ci": {**ON_CLUSTER["gpu-ci:clusters"]["ci"], "tekton": {"historyLimit": 20}}}
    changes = {"pool": "a10g", "storage": {"kind": "bucket", "url": "s3://acme-notebooks/ci/"}, "maxGpus": 3}
    entry = {**ENTRY, **changes, "access": None, "github": None, "notify": None, "imagePullSecrets": []}
    around = {**ON_CLUSTER, "gpu-ci:clusters": clusters, "gpu-ci:notebooks": {"analysis": entry}}
    return run(config({"a10g": A10G}) | around, calls=CALLS)


def row(name: str, found: Deployment | None = None) -> Row:
    [one] = [each for each in (found or deployed()).rows if each.name == name]
    return one


def plain(value: Any) -> Any:
    """Return a value without the wrapping of secrets."""
    if isinstance(value, dict):
        return plain(value["value"]) if rpc._special_sig_key in value else {key: plain(value[key]) for key in value}
    return value


def task(name: str) -> dict[str, Any]:
    step: dict[str, Any] = row(f"analysis-{name}").inputs["spec"]["steps"][0]
    return step


def test_tekton_is_created_once_and_is_ready_before_the_pipeline() -> None:
    tekton = row("gpu-tekton-config")
    assert tekton.inputs["metadata"] == {"name": "config", "annotations": {"pulumi.com/waitFor": "condition=Ready"}}
    assert row("gpu-tekton-release").urn in tekton.request.dependencies
    for name in ("analysis-pods-namespace", "analysis-pipeline", "analysis-eventlistener"):
        assert tekton.urn in row(name).request.dependencies, name
    unmanaged = run(on_gke({"managed": False}), calls=CALLS)
    assert [each.name for each in unmanaged.rows if "tekton" in each.name] == []
    assert [each.name for each in unmanaged.rows if each.type.endswith(":EventListener")] == ["analysis-eventlistener"]


def test_the_settings_of_tekton() -> None:
    spec = row("ci-tekton-config", on_eks()).inputs["spec"]
    assert spec["pipeline"] == {"coschedule": "disabled", "set-security-context": True}
    assert (spec["chain"], spec["result"]) == ({"disabled": True}, {"disabled": True, "is_external_db": False})
    assert spec["pruner"] == {"disabled": True}
    limits = {"enforcedConfigLevel": "global", "ttlSecondsAfterFinished": 604800, "historyLimit": 20}
    assert spec["tektonpruner"] == {"disabled": False, "global-config": limits}
    assert row("ci-tekton-release", on_eks()).inputs["values"]["operator"] == {"autoInstallComponents": False}
    defined = [each for each in deployed().rows if each.name.startswith("gpu-tekton-") and "Definition" in each.type]
    assert len(defined) == 13
    assert all(each.request.retainOnDelete for each in defined)
    assert {each.urn for each in defined} <= set(row("gpu-tekton-release").request.dependencies)


def test_a_pipeline_waits_for_the_check_of_its_pool() -> None:
    for name in ("analysis-pods-namespace", "analysis-execute"):
        assert row("l4-smoke-job").urn in row(name).request.dependencies, name


def test_the_pool_gives_labels_variables_and_gpus() -> None:
    assert {"name": "LD_LIBRARY_PATH", "value": "/usr/local/nvidia/lib64"} in task("execute")["env"]
    assert task("execute")["computeResources"]["limits"]["nvidia.com/gpu"] == "1"
    [template] = row("analysis-triggertemplate").inputs["spec"]["resourcetemplates"]
    [execute] = template["spec"]["taskRunSpecs"]
    assert execute["podTemplate"]["nodeSelector"] == {"gpu-ci-pool": "l4", "nvidia.com/gpu.present": "true"}
    assert row("analysis-pods-quota").inputs["spec"]["hard"] == {"requests.nvidia.com/gpu": "1"}
    assert row("analysis-pods-quota", on_eks()).inputs["spec"]["hard"] == {"requests.nvidia.com/gpu": "3"}


def test_tasks_come_before_the_pipeline_and_the_listener_last() -> None:
    tasks = [each.urn for each in deployed().rows if each.type.endswith(":Task")]
    assert len(tasks) == 6
    assert set(tasks) <= set(row("analysis-pipeline").request.dependencies)
    assert all(row("analysis-tasks").urn in row(name).request.dependencies for name in ("analysis-test",))
    needed = ("pipeline", "triggertemplate", "binding", "cluster-binding", "webhook", "run", "pods-deny")
    assert {row(f"analysis-{name}").urn for name in needed} <= set(row("analysis-eventlistener").request.dependencies)
    assert row("analysis-eventlistener").inputs["metadata"]["annotations"] == {"pulumi.com/waitFor": "condition=Ready"}


def test_the_run_account_has_no_right_and_no_token_and_the_listener_few_rights() -> None:
    assert row("analysis-run").inputs["automountServiceAccountToken"] is False
    bound = [
        subject for name in ("binding", "cluster-binding") for subject in row(f"analysis-{name}").inputs["subjects"]
    ]
    assert {each["name"] for each in bound} == {"analysis-listener"}
    read = ["get", "list", "watch"]
    kinds = ["eventlisteners", "interceptors", "triggerbindings", "triggers", "triggertemplates"]
    assert row("analysis-role").inputs["rules"] == [
        {"apiGroups": ["triggers.tekton.dev"], "resources": kinds, "verbs": read},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": read},
        {"apiGroups": ["tekton.dev"], "resources": ["pipelineruns"], "verbs": ["create"]},
    ]
    wide = ["clusterinterceptors", "clustertriggerbindings"]
    assert row("analysis-cluster-role").inputs["rules"] == [
        {"apiGroups": ["triggers.tekton.dev"], "resources": wide, "verbs": read}
    ]


def test_secrets_are_only_in_secrets_and_on_both_sides_of_the_webhook() -> None:
    data = {
        each.name: plain(each.inputs["stringData"])
        for each in deployed().rows
        if each.type == "kubernetes:core/v1:Secret"
    }
    held = {name: f"what {path} holds" for name, path in SECRETS.items()}
    assert data["analysis-webhook"] == {"secret": held["webhook"]}
    assert data["analysis-github"] == {"id": "19", "installationId": "20", "privateKey": held["key"]}
    assert data["analysis-notify"] == {"url": held["slack"]}
    assert "ghcr.io" in data["analysis-pods-pull-ghcr"][".dockerconfigjson"]
    for repository in ("kernels", "Detector"):
        hook = row(f"analysis-webhook-{repository.lower()}")
        assert hook.inputs["repository"] == repository
        assert plain(hook.inputs["configuration"]) == {
            "url": "https://notebooks.acme.dev/",
            "contentType": "json",
            "insecureSsl": False,
            "secret": held["webhook"],
        }
        assert row("analysis-eventlistener").urn in hook.request.dependencies
    rest = [each.inputs for each in deployed().rows if not each.type.endswith((":Secret", ":RepositoryWebhook"))]
    assert [value for value in held.values() if value in json.dumps(rest)] == []


def test_tasks_that_run_code_of_a_repository_read_no_secret_and_have_no_token() -> None:
    tests = {"repository": "kernels-tests", "revision": "v1"}
    found = run(on_gke(tests=tests), calls=CALLS)
    read = {}
    for each in found.rows:
        if each.type.endswith(":Task"):
            [step] = each.inputs["spec"]["steps"]
            sources = [one["valueFrom"]["secretKeyRef"]["name"] for one in step["env"] if "valueFrom" in one]
            read[step["name"]] = set(sources)
            assert "envFrom" not in step
            assert {"secret", "projected"}.isdisjoint(key for one in each.inputs["spec"]["volumes"] for key in one)
    github, notify = "analysis-github", "analysis-notify"
    with_secrets = {"prepare": {github}, "fetch-tests": {github}, "publish": {github, notify}}
    without: dict[str, set[str]] = {name: set() for name in ("execute", "convert", "test", "verdict")}
    assert read == {**without, **with_secrets}
    [template] = row("analysis-triggertemplate", found).inputs["spec"]["resourcetemplates"]
    assert template["spec"]["taskRunTemplate"]["podTemplate"]["automountServiceAccountToken"] is False


def test_a_lost_node_repeats_a_task_and_a_bad_notebook_none() -> None:
    tasks = {each["name"]: each for each in row("analysis-pipeline").inputs["spec"]["tasks"]}
    assert {name for name, each in tasks.items() if each.get("retries") == 1} == tasks.keys() - {"verdict"}
    assert tasks["execute"]["timeout"] == "100m"  # 60 of the notebook, 30 in the queue, 10 to start
    assert "retries" not in row("analysis-pipeline").inputs["spec"]["finally"][0]
    [template] = row("analysis-triggertemplate").inputs["spec"]["resourcetemplates"]
    assert template["spec"]["timeouts"] == {"pipeline": "120m", "tasks": "110m", "finally": "10m"}


def cel(found: Deployment) -> tuple[str, str]:
    """Return the filter of the listener, and the expression for the name of a run."""
    [trigger] = plain(row("analysis-eventlistener", found).inputs["spec"])["triggers"]
    params = {each["name"]: each["value"] for one in trigger["interceptors"] for each in one["params"]}
    return params["filter"], params["overlays"][0]["expression"]


def pushed(**changes: Any) -> dict[str, Any]:
    repository = {"id": 123_450_050, "name": "Kernels", "full_name": "acme/Kernels", "default_branch": "main"}
    body = {"ref": "refs/heads/main", "deleted": False, "after": "0123456789abcdef" * 2, "repository": repository}
    return {"body": {**body, **changes, "repository": {**repository, **changes.get("repository", {})}}}


@pytest.mark.parametrize(
    ("choices", "push", "starts"),
    [
        ({}, {}, True),
        ({}, {"repository": {"full_name": "acme/detector"}}, True),
        ({}, {"repository": {"full_name": "fork/kernels"}}, False),
        ({}, {"repository": {"full_name": "acme/kernels2"}}, False),
        ({}, {"deleted": True}, False),
        ({}, {"ref": "refs/heads/other"}, False),
        ({}, {"ref": "refs/tags/main"}, False),
        ({"branches": ["release/1"]}, {}, False),
        ({"branches": ["main", "release/1"]}, {"ref": "refs/heads/release/1"}, True),
        ({"rolloutPercent": 50}, {}, False),
        ({"rolloutPercent": 51}, {}, True),
    ],
)
def test_pushes_of_the_listed_repositories_and_branches_start_a_run(
    choices: dict[str, Any], push: dict[str, Any], starts: bool
) -> None:
    found, _ = cel(run(on_gke(**choices), calls=CALLS) if choices else deployed())
    assert evaluate(found, pushed(**push)) is starts


def test_the_name_of_a_run_fits_into_a_label() -> None:
    _, name = cel(deployed())
    assert evaluate(name, pushed()) == "run-kernels-0123456789ab"
    long = evaluate(name, pushed(repository={"name": "A_b.c" + "x" * 95}))
    assert long == f"run-a-b-c{'x' * 31}-0123456789ab"
    assert len(long) <= 63


def test_the_ingress_leads_to_the_service_of_the_listener() -> None:
    spec = row("analysis-ingress").inputs["spec"]
    backend = {"service": {"name": "el-analysis", "port": {"number": 8080}}}
    assert spec == {
        "ingressClassName": "nginx",
        "rules": [
            {
                "host": "notebooks.acme.dev",
                "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]},
            }
        ],
        "tls": [{"hosts": ["notebooks.acme.dev"], "secretName": "tls"}],
    }


def test_a_gateway_gets_a_route_and_a_claim_no_grant() -> None:
    access = {"kind": "gateway", "host": "n.acme.dev", "gateway": "external", "gatewayNamespace": "gateways"}
    storage = {"kind": "claim", "storageClass": "standard-rwx"}
    found = run(on_gke(access=access, storage=storage), calls=CALLS)
    assert row("analysis-route", found).inputs["spec"] == {
        "parentRefs": [{"name": "external", "namespace": "gateways"}],
        "hostnames": ["n.acme.dev"],
        "rules": [{"backendRefs": [{"name": "el-analysis", "port": 8080}]}],
    }
    claim = row("analysis-storage", found).inputs["spec"]
    assert (claim["accessModes"], claim["resources"]) == (["ReadWriteMany"], {"requests": {"storage": "1024Gi"}})
    assert [each.name for each in found.rows if "BucketIAM" in each.type or each.name == "analysis-credentials"] == []


def test_the_network_is_open_for_pushes_the_interceptors_and_credentials_alone() -> None:
    pods = {"matchLabels": {"app.kubernetes.io/managed-by": "EventListener", "eventlistener": "analysis"}}
    pushes = row("analysis-pushes").inputs["spec"]
    assert pushes == {
        "podSelector": pods,
        "policyTypes": ["Ingress"],
        "ingress": [{"ports": [{"protocol": "TCP", "port": 8080}]}],
    }
    listener = row("analysis-listener-egress").inputs["spec"]
    interceptors, api = listener["egress"]
    assert interceptors["ports"] == [{"protocol": "TCP", "port": 8443}]
    assert "169.254.0.0/16" in api["to"][0]["ipBlock"]["except"]
    for found, servers in (
        (deployed(), {"169.254.169.252/32": 988, "169.254.169.254/32": 80}),
        (on_eks(), {"169.254.170.23/32": 80}),
    ):
        spec = row("analysis-credentials", found).inputs["spec"]
        assert spec["podSelector"] == {"matchLabels": {"tekton.dev/pipeline": "analysis"}}
        opened = {each["to"][0]["ipBlock"]["cidr"]: each["ports"][0]["port"] for each in spec["egress"]}
        assert opened == servers
    assert [each.name for each in on_eks().rows if each.name == "analysis-pushes"] == []


def test_gke_grants_the_bucket_to_the_account_of_kubernetes() -> None:
    grant = row("analysis-run-bucket").inputs
    subject = "subject/ns/analysis/sa/analysis-run"
    pools = "principal://iam.googleapis.com/projects/123456789012/locations/global/workloadIdentityPools"
    assert grant == {
        "bucket": "acme-notebooks",
        "role": "roles/storage.objectUser",
        "member": f"{pools}/example-ci.svc.id.goog/{subject}",
    }
    assert row("analysis-run-bucket").urn in row("analysis-eventlistener").request.dependencies


def test_gke_without_a_workload_pool_is_refused() -> None:
    with pytest.raises(Exception, match="has no Workload Identity Federation for GKE"):
        run(on_gke(), calls={**CALLS, GET_CLUSTER: gke_cluster})


def test_eks_grants_the_folder_by_pod_identity() -> None:
    association = row("analysis-run-account", on_eks()).inputs
    assert (association["namespace"], association["serviceAccount"]) == ("analysis", "analysis-run")
    rights = json.loads(row("analysis-run-bucket", on_eks()).inputs["policy"])["Statement"]
    assert [each["Resource"] for each in rights] == ["arn:aws:s3:::acme-notebooks/ci/*", "arn:aws:s3:::acme-notebooks"]
    assert rights[1]["Condition"] == {"StringLike": {"s3:prefix": "ci/*"}}


def test_the_outputs_name_the_address_the_service_and_the_storage() -> None:
    assert deployed().outputs[STACK]["notebooks"] == {
        "analysis": {
            "pool": "l4",
            "namespace": "analysis",
            "webhookUrl": "https://notebooks.acme.dev/",
            "listenerService": "el-analysis.analysis.svc:8080",
            "storageUrl": "gs://acme-notebooks/ci",
        }
    }
    assert on_eks().outputs[STACK]["notebooks"]["analysis"]["webhookUrl"] == ""
