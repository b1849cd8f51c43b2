"""An API server of Kubernetes 1.36 refuses Jobs whose fields contradict each other."""

from __future__ import annotations

from tests.sandbox.providers.kubernetes.conftest import JOB, Cluster, changed, job
from tests.sandbox.providers.kubernetes.rules.test_object_rules import POD, SPEC


def test_what_a_job_leaves_out_is_missed_where_it_belongs(cluster: Cluster) -> None:
    expected = [
        f"{SPEC}.containers: Required value",
        f'{SPEC}.restartPolicy: Required value: valid values: "OnFailure", "Never"',
    ]
    for path in ("spec", POD):
        assert cluster.problems(JOB, changed(job(), path, ...)) == expected


def test_the_pods_of_a_job_carry_its_name_twice(cluster: Cluster) -> None:
    expected = f'spec.template.labels: Invalid value: "{"x" * 64}": must be no more than 63 bytes'
    assert cluster.problems(JOB, changed(job(), "metadata/name", "x" * 64)) == [expected, expected]


def test_an_indexed_job_says_how_often_it_runs_unless_that_is_once(cluster: Cluster) -> None:
    assert cluster.problems(JOB, job(completionMode="Indexed")) == []
    assert cluster.problems(JOB, job(completionMode="Indexed", parallelism=2)) == [
        "spec.completions: Required value: when completion mode is Indexed"
    ]
