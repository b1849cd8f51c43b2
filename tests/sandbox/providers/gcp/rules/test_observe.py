"""Log-based metrics and alert policies: what Google takes, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.resource import Refused

from tests.sandbox.providers.gcp.conftest import Google

POOL = [{"key": "pool", "valueType": "STRING"}]
DESCRIPTOR: dict[str, Any] = {"metricKind": "DELTA", "valueType": "DISTRIBUTION", "unit": "s", "labels": POOL}
METRIC: dict[str, Any] = {
    "name": "gpu-ci/queue-age",
    "filter": 'jsonPayload.event="pool"',
    "metricDescriptor": DESCRIPTOR,
    "valueExtractor": "EXTRACT(jsonPayload.queueAgeSec)",
    "labelExtractors": {"pool": "EXTRACT(jsonPayload.pool)"},
    "bucketOptions": {"exponentialBuckets": {"numFiniteBuckets": 20, "growthFactor": 2, "scale": 1}},
}
QUERY: dict[str, Any] = {
    "query": "absent_over_time(logging_googleapis_com:user_gpu_ci_passes[5m])",
    "duration": "600s",
    "evaluationInterval": "60s",
    "disableMetricValidation": True,
}
POLICY: dict[str, Any] = {
    "displayName": "stalled",
    "combiner": "OR",
    "conditions": [{"displayName": "stalled", "conditionPrometheusQueryLanguage": QUERY}],
    "notificationChannels": ["projects/ci-project/notificationChannels/12"],
    "userLabels": {"team": "ci"},
}


def policy(**changes: Any) -> dict[str, Any]:
    return {**POLICY, "conditions": [{"displayName": "x", "conditionPrometheusQueryLanguage": {**QUERY, **changes}}]}


CONDITION = "conditions[0].conditionPrometheusQueryLanguage"
REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "a name that begins with a slash": (types.LOG_METRIC, {**METRIC, "name": "/a"}, "name"),
    "a distribution of nothing": (types.LOG_METRIC, {**METRIC, "valueExtractor": ""}, "valueExtractor"),
    "a count with a value": (
        types.LOG_METRIC,
        {**METRIC, "metricDescriptor": {**DESCRIPTOR, "valueType": "INT64"}},
        "valueExtractor",
    ),
    "a label without its extractor": (types.LOG_METRIC, {**METRIC, "labelExtractors": {}}, "labelExtractors"),
    "an extractor that is a field": (
        types.LOG_METRIC,
        {**METRIC, "labelExtractors": {"pool": "jsonPayload.pool"}},
        "labelExtractors.pool",
    ),
    "no condition": (types.ALERT_POLICY, {**POLICY, "conditions": []}, "conditions"),
    "a channel's number alone": (
        types.ALERT_POLICY,
        {**POLICY, "notificationChannels": ["12"]},
        "notificationChannels[0]",
    ),
    "a label in capitals": (types.ALERT_POLICY, {**POLICY, "userLabels": {"team": "CI"}}, "userLabels"),
    "an interval of 45 seconds": (
        types.ALERT_POLICY,
        policy(evaluationInterval="45s"),
        f"{CONDITION}.evaluationInterval",
    ),
    "a duration in minutes": (types.ALERT_POLICY, policy(duration="10m"), f"{CONDITION}.duration"),
}


@pytest.mark.parametrize(("token", "inputs", "path"), REFUSED.values(), ids=REFUSED)
def test_what_google_refuses_is_named(google: Google, token: str, inputs: dict[str, Any], path: str) -> None:
    assert {problem.partition(": ")[0] for problem in google.problems(token, inputs)} == {path}


@pytest.mark.parametrize(("token", "inputs"), [(types.LOG_METRIC, METRIC), (types.ALERT_POLICY, POLICY)])
def test_what_google_takes_has_no_problem(google: Google, token: str, inputs: dict[str, Any]) -> None:
    assert list(google.problems(token, inputs)) == []


@pytest.mark.parametrize(
    "condition",
    [
        {"conditionPrometheusQueryLanguage": {"query": QUERY["query"]}},
        {"conditionAbsent": {"duration": "600s", "filter": 'metric.type="logging.googleapis.com/user/gpu-ci/passes"'}},
    ],
)
def test_a_metric_without_points_is_unknown_to_a_policy_that_is_checked(
    google: Google, condition: dict[str, Any]
) -> None:
    google.make(types.LOG_METRIC, "passes", METRIC)
    with pytest.raises(Refused, match=r"Error 404: Cannot find metric\(s\) that match type"):
        google.make(types.ALERT_POLICY, "it", {**POLICY, "conditions": [{"displayName": "x", **condition}]})
    made = google.make(types.ALERT_POLICY, "it", POLICY)
    assert made.id.startswith("projects/ci-project/alertPolicies/")
