"""Messages that differ from those of the API server, which are in tests/control_plane/test_sandbox_rules.py."""

from __future__ import annotations

from typing import Any

from tests.sandbox.providers.kubernetes.conftest import JOB, Cluster, changed, job

CLAIM_TYPE = "kubernetes:core/v1:PersistentVolumeClaim"
CLAIM_MEANS = "resources.requests and volumeAttributesClassName for bound claims"
CLAIM_SAYS = f'"it" is invalid: [spec: Forbidden: spec is immutable after creation except {CLAIM_MEANS}'
MODE_SAYS = 'volumeMode: Invalid value: "Filesystem": field is immutable]'


def claim(mode: str) -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "volumeMode": mode, "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": "it", "namespace": "default"}, "spec": spec}


def test_a_malformed_namespace_is_reported_before_it_is_looked_up(cluster: Cluster) -> None:
    given = changed(job(), "metadata/namespace", "a.b")
    assert cluster.problems(JOB, given) == ['metadata.namespace: Invalid value: "a.b": must not contain dots']


def test_the_selector_of_a_job_is_reported_without_the_uid_that_a_cluster_adds(cluster: Cluster) -> None:
    given = changed(job(), "spec/selector", {"matchLabels": {"a": "b"}})
    assert cluster.problems(JOB, given) == [
        'spec.selector: Invalid value: {"matchLabels":{"a":"b"}}: `selector` not auto-generated'
    ]


def test_each_element_that_is_no_object_is_reported(cluster: Cluster) -> None:
    at = "spec.template.spec.containers"
    assert cluster.problems(JOB, changed(job(), "spec/template/spec/containers", ["a", "a"])) == [
        f"{at}[0]: expected map, got &{{a}}",
        f"{at}[1]: expected map, got &{{a}}",
    ]


def test_a_claim_that_changes_is_refused_without_a_diff_in_the_apis_own_names(cluster: Cluster) -> None:
    message = cluster.refused(CLAIM_TYPE, claim("Block"), claim("Filesystem"))
    assert message == [f"PersistentVolumeClaim {CLAIM_SAYS}, {MODE_SAYS}"]
