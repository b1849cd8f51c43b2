"""Map properties of log-based metrics and alert policies to fields of the Google API (types.py describes the form).

The renames are those of terraform-provider-google (google/services/{logging/resource_logging_metric,
monitoring/resource_monitoring_alert_policy}.go).
"""

from __future__ import annotations

from pulumi_sandbox.providers.gcp.mapping.target import PROVIDER_ONLY, Target

LOG_METRIC = "gcp:logging/metric:Metric"
ALERT_POLICY = "gcp:monitoring/alertPolicy:AlertPolicy"

TARGETS: dict[str, Target] = {
    LOG_METRIC: Target("logging.v2", "LogMetric", "projects.metrics", (), PROVIDER_ONLY | {"project": ""}),
    ALERT_POLICY: Target(
        "monitoring.v3",
        "AlertPolicy",
        "projects.alertPolicies",
        (),
        PROVIDER_ONLY
        | {
            "project": "",
            "alertStrategy.notificationChannelStrategies": "notificationChannelStrategy",
            "conditions.conditionSql.booleanTest": "booleanTest",
        },
    ),
}
"""The renames of lists: the bridge makes their names plural. Other names are equal in the SDK and the API."""
