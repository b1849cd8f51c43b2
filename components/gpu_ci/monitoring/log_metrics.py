"""The names of the log-based metrics of a runner manager on Google Cloud, in Cloud Monitoring and in PromQL."""

from __future__ import annotations

import re
from collections.abc import Callable

from .. import naming

RESOURCE = "cloud_run_worker_pool"
"""The type of the monitored resource whose log the metrics read."""
# Discovery document logging v2, LogMetric.name: at most 100 characters.
_PREFIX_MOST = 60


def name_of(metric: str, manager: str, stack: str) -> str:
    """Return the name of a metric. `manager` is the name of the manager's component."""
    return f"{naming.fit(f'gpu-ci-{manager}-{stack}', _PREFIX_MOST)}/{metric}"


def series(metric: str, manager: str, stack: str, suffix: str = "") -> str:
    """Return a metric in PromQL (cloud.google.com/monitoring/promql/promql-mapping).

    A log-based metric may have several resource types, so the query names the resource type. The suffix of a
    distribution is _sum, _count or _bucket.
    """
    name = re.sub(r"[^A-Za-z0-9_]", "_", name_of(metric, manager, stack))
    return f'logging_googleapis_com:user_{name}{suffix}{{monitored_resource="{RESOURCE}"}}'


Series = Callable[[str, str], str]
"""Returns a metric of one manager in PromQL, by its name and a suffix."""


def increase(of: Series, metric: str, label: str, window: str, suffix: str = "") -> str:
    """Return the query for the increase of a counter, or of the sum of a distribution with the suffix _sum."""
    return f"sum by ({label}) (increase({of(metric, suffix)}[{window}]))"


def mean(of: Series, metric: str, label: str) -> str:
    """Return the query for the mean of the values of a distribution.

    The window is that long because a line of the log may reach a log-based metric ten minutes late.
    """
    return " / ".join(increase(of, metric, label, "15m", suffix) for suffix in ("_sum", "_count"))
