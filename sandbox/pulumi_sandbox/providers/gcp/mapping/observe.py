"""Log-based metrics and alert policies: which field of Google's API each property becomes (target.py tells the form).

The renames are those of terraform-provider-google (google/services/{logging/resource_logging_metric,
monitoring/resource_monitoring_alert_policy}.go).
"""

from __future__ import annotations

from pulumi_sandbox.providers.gcp.mapping.target import OURS, Target

LOG_METRIC = "gcp:logging/metric:Metric"
ALERT_POLICY = "gcp:monitoring/alertPolicy:AlertPolicy"

TARGETS: dict[str, Target] = {
    LOG_METRIC: Target("logging.v2", "LogMetric", "projects.metrics", (), OURS | {"project": ""}),
    ALERT_POLICY: Target(
        "monitoring.v3",
        "AlertPolicy",
        "projects.alertPolicies",
        (),
        OURS
        | {
            "project": "",
            "alertStrategy.notificationChannelStrategies": "notificationChannelStrategy",
            "conditions.conditionSql.booleanTest": "booleanTest",
        },
    ),
}
"""Their names in the SDK are those of the API, but for lists, which the bridge puts into the plural."""
