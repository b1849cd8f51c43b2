"""Check rules for Cloud Build that no schema contains, each with its source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import gpu_catalog

from pulumi_sandbox.providers.gcp.compute import machine_types
from pulumi_sandbox.providers.inputs import rows, table
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.values import UNKNOWN

# Google Cloud documentation "Cloud Build pricing" (cloud.google.com/build/pricing): the E2 types of private pools.
# Types of other series are not checked. Types with GPUs are refused: the API has no field for an accelerator.
E2 = (
    "e2-medium", *(f"e2-standard-{cpus}" for cpus in (2, 4, 8, 16, 32)),
    *(f"e2-highmem-{cpus}" for cpus in (2, 4, 8, 16)), *(f"e2-highcpu-{cpus}" for cpus in (2, 4, 8, 16, 32)),
)  # fmt: skip
# terraform-provider-google e03b7622, resource_cloudbuild_trigger.go: the default timeout of a build.
DEFAULT_SEC = 600


def worker_pool(inputs: dict[str, Any]) -> Iterator[Problem]:
    machine = table(inputs.get("workerConfig")).get("machineType")
    if not isinstance(machine, str) or not machine:
        return
    has_gpus = machine in gpu_catalog.machine_types("gcp") and not gpu_catalog.takes_accelerator(machine)
    if machine_types.machine(machine) is None:
        hint = machine_types.did_you_mean(machine)
        yield Problem("workerConfig.machineType", f'"{machine}" is not a machine type', hint)
    elif has_gpus or (machine.startswith("e2-") and machine not in E2):
        reason = "has GPUs, which workers cannot have" if has_gpus else "is not a machine type of private pools"
        yield Problem("workerConfig.machineType", f"{machine} {reason}", "such as e2-standard-8")


def trigger(inputs: dict[str, Any]) -> Iterator[Problem]:
    build = table(inputs.get("build"))
    yield from _timeouts(build)
    options = table(build.get("options"))
    known = UNKNOWN not in (inputs.get("serviceAccount"), build.get("options"), options.get("logging"))
    if not build or not inputs.get("serviceAccount") or not known or build.get("logsBucket"):
        return
    if options.get("logging") not in ("CLOUD_LOGGING_ONLY", "NONE"):
        # The API's message at the start of a build (github.com/cert-manager/cert-manager/pull/8851).
        yield Problem(
            "build.options.logging",
            "if 'build.service_account' is specified, the build must either (a) specify 'build.logs_bucket', (b) use "
            "the REGIONAL_USER_OWNED_BUCKET build.options.default_logs_bucket_behavior option, or (c) use either "
            "CLOUD_LOGGING_ONLY / NONE logging options",
        )


def _timeouts(build: dict[str, Any]) -> Iterator[Problem]:
    build_sec = _seconds(build.get("timeout") or f"{DEFAULT_SEC}s")
    steps_sec = sum(_seconds(table(step).get("timeout")) or 0 for step in rows(build.get("steps")))
    if build_sec is not None and steps_sec > build_sec:
        # The provider's rule (stepTimeoutCustomizeDiff).
        text = f"Step timeout sum ({steps_sec}s) cannot be greater than build timeout ({build_sec}s)"
        yield Problem("build.steps", text)


def _seconds(duration: Any) -> int | None:
    match = re.fullmatch(r"(\d+)s", duration) if isinstance(duration, str) else None
    return int(match[1]) if match else None
