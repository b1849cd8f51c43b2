"""The API server and Tekton's webhooks accept what the components make, strictly, and the run account has no rights."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_ci.kubernetes.notebooks.objects import LISTENER, RUN
from gpu_ci.kubernetes.tekton import Tekton, TektonArgs
from kubernetes import client
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import DynamicApiError

from tests.control_plane.api import until
from tests.control_plane.objects import as_sent, declared
from tests.tekton.conftest import Tier
from tests.tekton.processes import KNOWN_BAD
from tools.notebook import NAME

INGRESS = {"kind": "ingress", "host": "n.acme.dev", "ingressClassName": "nginx", "tlsSecret": "tls"}
GATEWAY = {"kind": "gateway", "host": "n.acme.dev", "gateway": "external", "gatewayNamespace": "gateways"}
VARIANTS: dict[str, dict[str, Any]] = {
    "a claim": {},
    "a bucket of Google Cloud": {"storage": {"kind": "bucket", "url": "gs://acme-notebooks/ci"}, "access": INGRESS},
    "a bucket of AWS": {"storage": {"kind": "bucket", "url": "s3://acme-notebooks"}, "access": GATEWAY},
    "access to the bucket by a server of the node": {
        "storage": {"kind": "bucket", "url": "s3://acme-notebooks"}, "credentials": {"169.254.170.23/32": 80},
    },
    "no App and no notifications": {"github": None, "notify": None},
    "tests of another repository": {"tests": {"repository": "kernels-tests", "revision": "v1.4.0", "path": "all"}},
    "branches of some repositories": {
        "repositories": ["kernels", "Web_2.0"], "branches": ["main", "release/2026"], "rolloutPercent": 10,
    },
    "a large node": {
        "gpus": 8, "nodeGpus": 8, "maxGpus": 64, "cpus": 96, "memoryGib": 1000, "retries": 5,
        "tolerations": [{"key": "team", "operator": "Exists"}], "environment": {"NCCL_DEBUG": "INFO"},
        "timeouts": {"notebookMin": 600, "queueMin": 120, "pipelineMin": 900},
    },
    "networks and logins": {
        "privateRanges": ["10.20.0.0/16"], "imagePullSecrets": ["registry"], "dnsAddresses": ["10.0.0.10"],
        "githubHost": "github.acme.dev",
    },
    "no retries": {"retries": 0, "notebooks": ["a/*.ipynb", "b.ipynb"]},
}  # fmt: skip


@pytest.mark.parametrize("bad", KNOWN_BAD, ids=lambda each: each["kind"])
def test_a_bad_object_is_refused(tier: Tier, bad: dict[str, Any]) -> None:
    """Without this, the tests below could not fail."""
    given = {**bad, "metadata": {"name": "bad", "namespace": "default"}}
    assert "admission webhook" in tier.api.refusal(given)
    assert "nothing" in tier.api.refusal({**given, "spec": {**given["spec"], "nothing": 1}})


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_object_of_a_pipeline_is_accepted(pipeline: Tier, variant: str) -> None:
    made = pipeline.github.objects(**VARIANTS[variant])
    assert len(made) > 20
    refused = {}
    for kind, each in made:
        if each["kind"] != "HTTPRoute":  # no module of the control plane has its definition
            refused[kind] = pipeline.api.refusal(each)
    assert not any(refused.values()), refused


def test_the_config_of_tekton_is_accepted(tier: Tier) -> None:
    made = [as_sent(each) for _, each in declared(lambda: Tekton("tekton", TektonArgs()))]
    config = made.pop()
    assert config["kind"] == "TektonConfig"
    for each in made:
        tier.api.apply(each)
    until(lambda: tier.api.knows(config["apiVersion"], config["kind"]), "the API server knows the definition")
    assert tier.api.refusal(config) == ""
    assert "prunner" in tier.api.refusal({**config, "spec": {**config["spec"], "prunner": {}}})


READS = [
    ("v1", "Secret"),
    ("v1", "Pod"),
    ("v1", "ConfigMap"),
    ("tekton.dev/v1", "PipelineRun"),
    ("tekton.dev/v1", "Task"),
]


def allowed(tier: Tier, account: str) -> set[tuple[str, str]]:
    """Return what an account reads and creates in the namespace, by requests with its token."""
    settings = client.Configuration(host=tier.tekton.plane.url)
    settings.api_key = {"authorization": f"Bearer {tier.api.token(NAME, account)}"}
    settings.ssl_ca_cert, settings.proxy = str(tier.tekton.plane.authority), None
    own = DynamicClient(client.ApiClient(settings))
    found = set()
    for version, kind in READS:
        resource = own.resources.get(api_version=version, kind=kind)
        body = {"apiVersion": version, "kind": kind, "metadata": {"generateName": "x-"}, "spec": {}}
        for verb, call in {
            "list": lambda resource=resource: resource.get(namespace=NAME),
            "create": lambda resource=resource, body=body: resource.create(body, namespace=NAME),
        }.items():
            try:
                call()
            except DynamicApiError as error:
                if error.status == 403:
                    continue
            found.add((verb, kind))
    return found


def test_the_run_account_may_do_nothing_and_the_listener_only_starts_runs(pipeline: Tier) -> None:
    assert allowed(pipeline, f"{NAME}-{RUN}") == set()
    assert allowed(pipeline, f"{NAME}-{LISTENER}") == {("list", "ConfigMap"), ("create", "PipelineRun")}
