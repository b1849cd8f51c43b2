"""Metrics in the Prometheus text format, for the textfile collector of node_exporter.

The format is https://prometheus.io/docs/instrumenting/exposition_formats/. The collector reads files named *.prom. It
skips a whole file that has timestamps or cannot be parsed (prometheus/node_exporter@020ffc1: collector/textfile.go). A
duplicate series fails all metrics of the file.
"""

from __future__ import annotations

import calendar
import time
from typing import Any

from .record import BOUNDS, PASS, Record, number, safe_line, worst_first

Labels = tuple[tuple[str, str], ...]

# Each metric and its help text. A metric without a sample is omitted.
_METRICS = {
    "gpu_smoke_ok": "1 if the run passed, 0 if it failed or did not end",
    "gpu_smoke_exit_code": "0 pass, 1 GPU, 2 environment, 3 too slow, 4 hang",
    "gpu_smoke_timestamp_seconds": "start of the run",
    "gpu_smoke_duration_seconds": "duration of the run",
    "gpu_smoke_info": "versions of the tool, torch and the driver",
    "gpu_smoke_gpu_info": "a GPU that was found",
    "gpu_smoke_check": "1 for the status of a check",
    "gpu_smoke_check_value": "measured value of a check, in the unit of its label",
    "gpu_smoke_check_limit": "limit of a measured value",
}


def prometheus(record: Record) -> str:
    """Return the run as gauges. If several checks have the same name and place, the worst one is used."""
    lines = []
    for metric, samples in _samples(record).items():
        if samples:
            lines += [f"# HELP {metric} {_METRICS[metric]}", f"# TYPE {metric} gauge"]
            lines += [f"{metric}{_labels(labels)} {_number(value)}" for labels, value in samples.items()]
    return "\n".join(lines) + "\n"


def _samples(record: Record) -> dict[str, dict[Labels, float]]:
    about = record.get("pool", {})
    common = [(key, about[name]) for key, name in (("pool", "name"), ("node", "node")) if about.get(name)]
    samples: dict[str, dict[Labels, float]] = {metric: {} for metric in _METRICS}

    def put(metric: str, value: Any, *labels: tuple[str, Any]) -> None:
        if (known := number(value)) is not None:
            where = tuple((name, safe_line(label, 200)) for name, label in (*common, *labels))
            samples[metric].setdefault(where, known)

    put("gpu_smoke_ok", int(record["verdict"] == PASS))
    put("gpu_smoke_exit_code", record.get("exit_code"))
    put("gpu_smoke_timestamp_seconds", _seconds(record.get("started")))
    put("gpu_smoke_duration_seconds", record.get("seconds"))
    torch, driver = record.get("torch", {}).get("version", ""), record.get("host", {}).get("driver", "")
    put("gpu_smoke_info", 1, ("tool", record.get("tool", "")), ("torch", torch), ("driver", driver))
    for gpu in record.get("gpus", ()):
        put("gpu_smoke_gpu_info", 1, *((label, gpu.get(key, "")) for label, key in _GPU.items()))
    seen = set()
    for check in worst_first(record["checks"]):
        place = _place(check)
        if place not in seen:
            seen.add(place)
            put("gpu_smoke_check", 1, *place, ("status", check["status"]))
            put("gpu_smoke_check_value", check.get("value"), *place, ("unit", check.get("unit", "")))
            for bound in BOUNDS:
                put(
                    "gpu_smoke_check_limit", check.get(bound), *place, ("limit", bound), ("unit", check.get("unit", ""))
                )
    return samples


_GPU = {"gpu": "index", "name": "name", "uuid": "uuid", "compute_capability": "cc"}


def _place(check: Record) -> Labels:
    gpu = check.get("gpu")
    named = ("check", check["id"]), ("gpu", "" if gpu is None else gpu), ("dtype", check.get("dtype", ""))
    return tuple((name, safe_line(value, 200)) for name, value in named)


def _labels(labels: Labels) -> str:
    escaped = (f'{name}="{_escaped(value)}"' for name, value in labels)
    return f"{{{','.join(escaped)}}}" if labels else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')  # safe_line() has removed line feeds


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def _seconds(started: Any) -> int | None:
    try:
        return calendar.timegm(time.strptime(started, "%Y-%m-%dT%H:%M:%SZ"))
    except (TypeError, ValueError):
        return None
