"""Messages that differ from those of the API server, which are in tests/control_plane/test_sandbox_rules.py."""

from __future__ import annotations

from typing import Any

from tests.sandbox.providers.kubernetes.conftest import JOB, Cluster, changed, job
from tests.sandbox.providers.kubernetes.rules.test_object_rules import DNS_LABEL

CLAIM_TYPE = "kubernetes:core/v1:PersistentVolumeClaim"
CLAIM_MEANS = "resources.requests and volumeAttributesClassName for bound claims"
CLAIM_SAYS = f'"it" is invalid: [spec: Forbidden: spec is immutable after creation except {CLAIM_MEANS}'
MODE_SAYS = 'volumeMode: Invalid value: "Filesystem": field is immutable]'


def claim(mode: str) -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "volumeMode": mode, "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": "it", "namespace": "default"}, "spec": spec}


def test_a_namespace_of_no_form_is_told_before_one_is_looked_for(cluster: Cluster) -> None:
    given = changed(job(), "metadata/namespace", "a.b")
    assert cluster.told(JOB, given) == [f'metadata.namespace: Invalid value: "a.b": {DNS_LABEL}']


def test_a_selector_of_a_jobs_own_is_told_without_the_uid_that_a_cluster_adds(cluster: Cluster) -> None:
    given = changed(job(), "spec/selector", {"matchLabels": {"a": "b"}})
    assert cluster.told(JOB, given) == [
        'spec.selector: Invalid value: {"matchLabels":{"a":"b"}}: `selector` not auto-generated'
    ]


def test_elements_that_are_no_objects_are_each_told_as_that(cluster: Cluster) -> None:
    at = "spec.template.spec.containers"
    assert cluster.told(JOB, changed(job(), "spec/template/spec/containers", ["a", "a"])) == [
        f"{at}[0]: expected map, got &{{a}}",
        f"{at}[1]: expected map, got &{{a}}",
    ]


def test_a_claim_that_changes_is_refused_without_a_diff_in_the_apis_own_names(cluster: Cluster) -> None:
    said = cluster.refused(CLAIM_TYPE, claim("Block"), claim("Filesystem"))
    assert said == [f"PersistentVolumeClaim {CLAIM_SAYS}, {MODE_SAYS}"]
