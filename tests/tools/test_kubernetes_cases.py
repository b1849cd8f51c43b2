"""The recorder of Kubernetes' own validation tests, and how far the sandbox agrees with their verdicts."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from tools.kubernetes_cases import store
from tools.kubernetes_cases.agreement import Outcome, outcomes
from tools.kubernetes_cases.recording import FUNCTIONS, Case, as_sent, cases, recorded

LEAST_AGREEMENT = 0.97
SOURCE = """package validation

import (
	"fmt"
)

func ValidateRole(role *rbac.Role) field.ErrorList {
	return nil
}

func ValidateRoleUpdate(role *rbac.Role, oldRole *rbac.Role, opts Options) field.ErrorList {
	return ValidateRole(role)
}
"""


@cache
def found() -> tuple[Outcome, ...]:
    return tuple(outcomes(store.read()))


def case(new: dict[str, Any], old: dict[str, Any] | None = None, **answer: Any) -> Outcome:
    [outcome] = outcomes([Case("TestIt", True, new, old, **answer)])
    return outcome


def config_map(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "it", "namespace": "default"}, **fields}


def test_the_sandbox_agrees_with_an_api_server_on_97_of_100_cases() -> None:
    """docs/reference/kubernetes-agreement.md lists the others."""
    compared = [one for one in found() if not one.excluded]
    assert len(compared) > 700
    assert sum(one.agrees for one in compared) / len(compared) >= LEAST_AGREEMENT


def test_at_least_five_of_six_cases_are_compared_or_not_sent_by_the_provider() -> None:
    """Otherwise a reason to leave cases out would hide differences."""
    left_out = [one for one in found() if one.case.excluded]
    assert len(left_out) < len(found()) / 6


def test_a_verdict_agrees_if_both_accept_or_both_refuse_an_object() -> None:
    wrong = config_map(data={"a/b": "c"})
    assert [case(config_map()).agrees, case(config_map(), answer=("no",)).agrees] == [True, False]
    assert [case(wrong).agrees, case(wrong, answer=("no",)).agrees] == [False, True]


def test_an_update_that_the_provider_replaces_is_not_compared() -> None:
    assert case(config_map(data={"a": "1"}), config_map(data={"a": "2"})).excluded.startswith("pulumi-kubernetes")
    assert case(config_map(data={"a": "1"}), config_map(data={"a": "1"})).excluded == ""


@pytest.mark.parametrize(
    ("answer", "excluded"),
    [
        ({"old_refused": "no"}, "the API server refuses the object before the update"),
        ({"answer": ("x", 'no PriorityClass with name "a"')}, "the cluster has no such PriorityClass"),
        ({"answer": ("spec: Required value",)}, ""),
    ],
)
def test_an_answer_about_the_cluster_is_not_compared(answer: dict[str, Any], excluded: str) -> None:
    assert case(config_map(), config_map(), **answer).excluded == excluded


def test_a_recorded_function_writes_its_old_and_new_object_and_returns_the_problems() -> None:
    source = recorded(SOURCE, ("Role", "RoleUpdate"))
    assert '\t"cases/record"\n' in source
    assert "\tproblems := checkedRole(role)\n\trecord.Case(problems, role)\n\treturn problems\n" in source
    assert "\tproblems := checkedRoleUpdate(role, oldRole, opts)\n\trecord.Case(problems, oldRole, role)\n" in source
    assert "func checkedRole(role *rbac.Role) field.ErrorList {\n\treturn nil\n}" in source


def test_a_function_that_kubernetes_no_longer_has_is_an_error() -> None:
    with pytest.raises(ValueError, match="no function ValidateRobot"):
        recorded(SOURCE, ("Robot",))


def test_every_kind_of_the_recorded_functions_has_cases() -> None:
    recorded_kinds = {one.case.kind for one in found()}
    wanted = {name.removesuffix("Update").removesuffix("Create") for names in FUNCTIONS.values() for name in names}
    # The tests of k8s.io/kubernetes do not call ValidateServiceAccount.
    assert wanted - recorded_kinds == {"ServiceAccount"}


def test_an_object_is_sent_without_what_the_api_server_sets() -> None:
    given = config_map(status={"a": 1}, data=None)
    given["metadata"] |= {"uid": "1", "resourceVersion": "2", "creationTimestamp": None}
    del given["metadata"]["namespace"]
    assert as_sent(given) == config_map()


def test_a_job_is_sent_without_the_selector_that_the_api_server_generates() -> None:
    uid = {"batch.kubernetes.io/controller-uid": "1", "controller-uid": "1"}
    labels = {**uid, "batch.kubernetes.io/job-name": "it", "job-name": "it", "mine": "a"}

    def job(**spec: Any) -> dict[str, Any]:
        template = {"metadata": {"labels": dict(labels)}, "spec": {}}
        return {"kind": "Job", "metadata": {"name": "it"}, "spec": {"template": template, **spec}}

    sent = as_sent(job(selector={"matchLabels": uid}))["spec"]
    assert (sent["template"]["metadata"]["labels"], sent.get("selector")) == ({"mine": "a"}, None)
    other = as_sent(job(selector={"matchLabels": {"a": "b"}}))["spec"]
    assert (other["template"]["metadata"]["labels"], other["selector"]) == (labels, {"matchLabels": {"a": "b"}})


def test_a_case_is_kept_once_and_only_with_a_name_that_stays() -> None:
    row = {"test": "TestIt", "accepted": True, "objects": [config_map()]}
    renamed = {**config_map(), "metadata": {"name": "other", "namespace": "default"}}
    rows = [row, row, {**row, "objects": [config_map(), renamed]}, {**row, "objects": [{**renamed, "metadata": {}}]}]
    assert list(cases(iter(rows))) == [Case("TestIt", True, config_map())]
