"""Kueue in the emulated cluster: its kinds."""

from __future__ import annotations

import json

import pytest
from pulumi_sandbox.providers.resource import Refused

from tests.sandbox.providers.kubernetes.conftest import Cluster
from tests.sandbox.providers.kubernetes.helm.test_charts import RELEASE, release

CONFIGURATION = {
    "apiVersion": "config.kueue.x-k8s.io/v1beta2",
    "kind": "Configuration",
    "integrations": {"frameworks": ["pod"]},
}


@pytest.mark.parametrize(
    ("kind", "identity"), [("ClusterQueue", "it"), ("LocalQueue", "ci/it"), ("ResourceFlavor", "it")]
)
def test_an_object_of_kueue_needs_its_release(cluster: Cluster, kind: str, identity: str) -> None:
    cluster.settings("values: {kubernetes: {namespaces: [ci, kueue-system]}}")
    token = f"kubernetes:kueue.x-k8s.io/v1beta2:{kind}"
    inputs = {"metadata": {"name": "it", **({"namespace": "ci"} if kind == "LocalQueue" else {})}, "spec": {}}
    with pytest.raises(Refused) as caught:
        cluster.up(token, "it", inputs)
    assert str(caught.value).startswith(f'no matches for kind "{kind}" in version "kueue.x-k8s.io/v1beta2"\n  hint: ')
    values = {"managerConfig": {"controllerManagerConfigYaml": json.dumps(CONFIGURATION)}}
    cluster.up(RELEASE, "kueue", release("kueue", values, name="kueue", namespace="kueue-system"))
    assert cluster.up(token, "it", inputs).id == identity
