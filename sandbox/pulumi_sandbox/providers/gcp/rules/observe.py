"""Check rules for log-based metrics and alert policies that no schema contains, each with its source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pulumi_sandbox.providers.inputs import rows, table
from pulumi_sandbox.providers.resource import Problem

# Discovery document logging v2, LogMetric.name.
METRIC_ID = r"(?!/)[A-Za-z0-9_\-.,+!*',()%/]{1,100}"
EXTRACTOR = r"(?:REGEXP_)?EXTRACT\(.+\)"
# Discovery document monitoring v3, AlertPolicy.conditions and .userLabels.
MOST_CONDITIONS = 6
USER_LABEL_KEY, USER_LABEL_VALUE = r"[a-z][a-z0-9_-]{0,62}", r"[a-z0-9_-]{0,63}"
CHANNEL = r"projects/[^/]+/notificationChannels/[^/]+"
# The same, PrometheusQueryLanguageCondition.evaluationInterval.
EVALUATION_SEC = 30


def log_metric(inputs: dict[str, Any]) -> Iterator[Problem]:
    name = inputs.get("name")
    if isinstance(name, str) and not re.fullmatch(METRIC_ID, name):
        yield Problem("name", f'"name" ("{name}") doesn\'t match regexp "^{METRIC_ID}$"')
    descriptor, extractors = table(inputs.get("metricDescriptor")), table(inputs.get("labelExtractors"))
    # LogMetric.metricDescriptor: a distribution has a DELTA kind and a value extractor; other metrics have none.
    distribution = descriptor.get("valueType") == "DISTRIBUTION"
    if distribution and (descriptor.get("metricKind") != "DELTA" or not inputs.get("valueExtractor")):
        yield Problem("valueExtractor", "A metric of the type DISTRIBUTION is DELTA and has a value extractor.")
    if not distribution and inputs.get("valueExtractor"):
        yield Problem("valueExtractor", "Only a metric of the type DISTRIBUTION has a value extractor.")
    # LogMetric.labelExtractors: labels of the descriptor and extractors correspond one to one.
    keys = {table(row).get("key") for row in rows(descriptor.get("labels"))}
    if keys != set(extractors):
        yield Problem("labelExtractors", "Label extractors and the descriptor's labels have different keys.")
    for path, extractor in [("valueExtractor", inputs.get("valueExtractor")), *_under("labelExtractors", extractors)]:
        if isinstance(extractor, str) and extractor and not re.fullmatch(EXTRACTOR, extractor):
            yield Problem(path, f"Invalid extractor: {extractor}", "such as EXTRACT(jsonPayload.pool)")


def alert_policy(inputs: dict[str, Any]) -> Iterator[Problem]:
    conditions = rows(inputs.get("conditions"))
    if not 1 <= len(conditions) <= MOST_CONDITIONS:
        yield Problem("conditions", f"A policy has from 1 to {MOST_CONDITIONS} conditions, got {len(conditions)}")
    for index, row in enumerate(conditions):
        path = f"conditions[{index}].conditionPrometheusQueryLanguage"
        promql = table(table(row).get("conditionPrometheusQueryLanguage"))
        sec = seconds(promql.get("evaluationInterval"))
        if sec is not None and (sec <= 0 or sec % EVALUATION_SEC):
            yield Problem(f"{path}.evaluationInterval", f"must be a positive multiple of {EVALUATION_SEC} seconds")
        duration = promql.get("duration")
        if isinstance(duration, str) and (seconds(duration) is None or str(duration).startswith("-")):
            yield Problem(f"{path}.duration", f"must be a non-negative duration, got {duration}")
    for index, channel in enumerate(rows(inputs.get("notificationChannels"))):
        if isinstance(channel, str) and not re.fullmatch(CHANNEL, channel):
            yield Problem(
                f"notificationChannels[{index}]", f'Name must begin with "projects/{{id_or_number}}", got {channel}'
            )
    for key, value in table(inputs.get("userLabels")).items():
        invalid_value = isinstance(value, str) and not re.fullmatch(USER_LABEL_VALUE, value)
        if invalid_value or not re.fullmatch(USER_LABEL_KEY, key):
            yield Problem(
                "userLabels", f"Invalid user label {key}={value}: use only lowercase letters, digits, _ and -"
            )


def seconds(duration: Any) -> float | None:
    """Return the seconds of a duration in the API's form, such as 60s."""
    match = re.fullmatch(r"(-?\d+(?:\.\d+)?)s", duration) if isinstance(duration, str) else None
    return float(match[1]) if match else None


def _under(path: str, values: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(f"{path}.{key}", value) for key, value in values.items()]
