"""Runs the tests of what the sandbox refuses again, with the answers of a real API server."""

from __future__ import annotations

from tests.control_plane.api import Api
from tests.control_plane.conftest import Twin, typed
from tests.sandbox.providers.kubernetes.conftest import JOB, changed, job
from tests.sandbox.providers.kubernetes.rules.test_object_rules import *  # noqa: F403
from tests.sandbox.providers.kubernetes.rules.test_other_rules import *  # noqa: F403
from tests.sandbox.providers.kubernetes.rules.test_own_words import CLAIM_SAYS, CLAIM_TYPE, MODE_SAYS, claim
from tests.sandbox.providers.kubernetes.rules.test_stateful_sets import *  # noqa: F403
from tests.sandbox.providers.kubernetes.rules.test_types import *  # noqa: F403
from tests.sandbox.providers.kubernetes.workloads.test_job_rules import *  # noqa: F403


# These four messages differ in the sandbox: tests/sandbox/providers/kubernetes/rules/test_own_words.py.
def test_a_namespace_with_an_invalid_name_does_not_exist(api: Api) -> None:
    assert api.problems_of(typed(JOB, changed(job(), "metadata/namespace", "a.b"))) == ['namespaces "a.b" not found']


def test_the_error_about_a_jobs_selector_contains_the_added_uid(api: Api) -> None:
    said = api.problems_of(typed(JOB, changed(job(), "spec/selector", {"matchLabels": {"a": "b"}})))
    assert [one.partition(": ")[0] for one in said] == ["spec.selector", "spec.template.metadata.labels"]
    added = 'spec.selector: Invalid value: {"matchLabels":{"a":"b","batch.kubernetes.io/controller-uid":"'
    assert said[0].startswith(added)
    assert said[0].endswith("`selector` not auto-generated")


def test_the_first_element_that_is_no_object_is_reported_without_its_value(api: Api) -> None:
    given = changed(job(), "spec/template/spec/containers", ["a", "a"])
    assert api.problems_of(typed(JOB, given)) == [
        "spec.template.spec.containers: element 0: associative list with keys may not have non-map elements"
    ]


def test_a_claim_that_changes_is_refused_with_a_diff(cluster: Twin) -> None:
    [said] = cluster.refused(CLAIM_TYPE, claim("Block"), claim("Filesystem"))
    assert said.startswith(f"PersistentVolumeClaim {CLAIM_SAYS}\n@@")
    assert said.endswith(f"\n, {MODE_SAYS}")
