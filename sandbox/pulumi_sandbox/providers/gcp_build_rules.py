"""Rules for Cloud Build and Artifact Registry that no schema states, each with its source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import gpu_catalog

from pulumi_sandbox.providers.cloud import UNKNOWN, Problem
from pulumi_sandbox.providers.gcp_common_rules import labels, plain, rows, table
from pulumi_sandbox.providers.gcp_discovery import document
from pulumi_sandbox.providers.paths import text

# Discovery document cloudbuild v1, parameter workerPoolId; digits as in `gcloud builds worker-pools create --help`.
POOL_ID = r"[a-z0-9-]{1,63}"
# Discovery document cloudbuild v1, WorkerConfig.diskSizeGb: "a value of up to 4000".
LARGEST_DISK_GB = 4000
# Google Cloud documentation "Cloud Build pricing" (cloud.google.com/build/pricing): the E2 types of private pools.
# Types of other series are let through, but for those with GPUs: the API has no field for an accelerator.
E2 = (
    "e2-medium", *(f"e2-standard-{cpus}" for cpus in (2, 4, 8, 16, 32)),
    *(f"e2-highmem-{cpus}" for cpus in (2, 4, 8, 16)), *(f"e2-highcpu-{cpus}" for cpus in (2, 4, 8, 16, 32)),
)  # fmt: skip
# Google Cloud documentation "Private pool configuration file schema": a prefix of at most 29 bits.
SMALLEST_RANGE = 29
# Discovery document cloudbuild v1, BuildTrigger.name and BuildTrigger.substitutions.
TRIGGER_NAME = r"[A-Za-z0-9]([A-Za-z0-9-]{0,62}[A-Za-z0-9])?"
SUBSTITUTION = r"_[A-Z0-9_]+"
# Google Cloud documentation "Create standard repositories" (docs.cloud.google.com/artifact-registry/docs/repositories).
REPOSITORY_ID = r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?"
# What a trigger can be started by; terraform-provider-google e03b7622, resource_cloudbuild_trigger.go.
EVENTS = (
    "github", "triggerTemplate", "pubsubConfig", "webhookConfig", "repositoryEventConfig", "sourceToBuild",
    "bitbucketServerTriggerConfig", "developerConnectEventConfig",
)  # fmt: skip
# terraform-provider-google e03b7622, resource_artifact_registry_repository.go, parseDurationAsSeconds.
DURATION = r"\d+[smhd]"


def regions() -> tuple[str, ...]:
    """Where Cloud Build has an endpoint (discovery document cloudbuild v1)."""
    return tuple(one["location"] for one in document("cloudbuild.v1")["endpoints"])


def worker_pool(inputs: dict[str, Any]) -> Iterator[Problem]:
    name, place = inputs.get("name"), inputs.get("location")
    if isinstance(name, str) and not re.fullmatch(POOL_ID, name):
        yield Problem("name", f'"name" ("{name}") doesn\'t match regexp "^{POOL_ID}$"')
    if isinstance(place, str) and place not in regions():
        yield Problem("location", f"Cloud Build is in no location {place}", "such as us-central1")
    display = inputs.get("displayName")
    if isinstance(display, str) and not 1 <= len(display) <= 63:
        yield Problem("displayName", f"expected length of displayName to be in the range (1 - 63), got {len(display)}")
    if plain(inputs.get("networkConfig")) and plain(inputs.get("privateServiceConnect")):
        # terraform-provider-google e03b7622, resource_cloudbuild_worker_pool.go: ConflictsWith.
        yield Problem("networkConfig", '"networkConfig": conflicts with privateServiceConnect')
    bits = table(inputs.get("networkConfig")).get("peeredNetworkIpRange")
    if isinstance(bits, str) and bits:
        size = bits.rpartition("/")[2]
        if "/" not in bits or not size.isdigit() or int(size) > SMALLEST_RANGE:
            yield Problem(
                "networkConfig.peeredNetworkIpRange",
                f"expected a range such as /24 or 192.168.0.0/24, at least /{SMALLEST_RANGE}, got {bits}",
            )
    yield from workers(table(inputs.get("workerConfig")))


def workers(given: dict[str, Any]) -> Iterator[Problem]:
    disk, machine = given.get("diskSizeGb"), given.get("machineType")
    if isinstance(disk, int | float) and not 0 <= disk <= LARGEST_DISK_GB:
        yield Problem(
            "workerConfig.diskSizeGb", f"expected diskSizeGb to be in the range (0 - {LARGEST_DISK_GB}), got {disk:g}"
        )
    if not isinstance(machine, str):
        return
    has_gpus = machine in gpu_catalog.machine_types("gcp") and not gpu_catalog.takes_accelerator(machine)
    if has_gpus or (machine.startswith("e2-") and machine not in E2):
        why = "has GPUs, which workers cannot have" if has_gpus else "is no machine type of private pools"
        yield Problem("workerConfig.machineType", f"{machine} {why}", "such as e2-standard-8")


def trigger(inputs: dict[str, Any]) -> Iterator[Problem]:
    name = inputs.get("name")
    if isinstance(name, str) and not re.fullmatch(TRIGGER_NAME, name):
        yield Problem("name", f'"name" ("{name}") doesn\'t match regexp "^{TRIGGER_NAME}$"')
    for key in table(inputs.get("substitutions")):
        if not re.fullmatch(SUBSTITUTION, key):
            yield Problem(text(("substitutions", key)), f'the key "{key}" doesn\'t match regexp "^{SUBSTITUTION}$"')
    # terraform-provider-google e03b7622, resource_cloudbuild_trigger.go: ExactlyOneOf.
    yield from one_of(inputs, ("build", "filename", "gitFileSource"), "")
    yield from one_of(inputs, EVENTS, "", at_least=True)
    github = table(inputs.get("github"))
    if github:
        yield from one_of(github, ("pullRequest", "push"), "github.")
    if github.get("push") is not UNKNOWN and (push := table(github.get("push"))):
        yield from one_of(push, ("branch", "tag"), "github.push.")
    yield from logs(inputs)


def logs(inputs: dict[str, Any]) -> Iterator[Problem]:
    # The API's own words, which it says when a build is to begin (github.com/cert-manager/cert-manager/pull/8851).
    build, options = table(inputs.get("build")), table(table(inputs.get("build")).get("options"))
    known = UNKNOWN not in (inputs.get("serviceAccount"), build.get("options"), options.get("logging"))
    if not build or not inputs.get("serviceAccount") or not known or build.get("logsBucket"):
        return
    if options.get("logging") not in ("CLOUD_LOGGING_ONLY", "NONE"):
        yield Problem(
            "build.options.logging",
            "if 'build.service_account' is specified, the build must either (a) specify 'build.logs_bucket', (b) use "
            "the REGIONAL_USER_OWNED_BUCKET build.options.default_logs_bucket_behavior option, or (c) use either "
            "CLOUD_LOGGING_ONLY / NONE logging options",
        )


def repository(inputs: dict[str, Any]) -> Iterator[Problem]:
    yield from labels(inputs.get("labels"), "labels")
    name = inputs.get("repositoryId")
    if isinstance(name, str) and not re.fullmatch(REPOSITORY_ID, name):
        yield Problem("repositoryId", f'"repositoryId" ("{name}") doesn\'t match regexp "^{REPOSITORY_ID}$"')
    seen: set[str] = set()
    for index, row in enumerate(rows(inputs.get("cleanupPolicies"))):
        policy, path = table(row), f"cleanupPolicies[{index}]"
        if isinstance(policy.get("id"), str) and policy["id"] in seen:
            yield Problem(f"{path}.id", f'the policy "{policy["id"]}" is there twice')
        seen.add(str(policy.get("id")))
        if plain(policy.get("mostRecentVersions")) and policy.get("action") not in ("KEEP", UNKNOWN):
            # Discovery document artifactregistry v1, CleanupPolicy.mostRecentVersions.
            yield Problem(f"{path}.mostRecentVersions", "may only be specified with a KEEP action")
        yield from one_of(policy, ("condition", "mostRecentVersions"), f"{path}.")
        for field in ("newerThan", "olderThan"):
            age = table(policy.get("condition")).get(field)
            if isinstance(age, str) and age and not re.fullmatch(DURATION, age):
                yield Problem(f"{path}.condition.{field}", f"expected a duration such as 30d or 3600s, got {age}")


def one_of(given: dict[str, Any], names: tuple[str, ...], path: str, *, at_least: bool = False) -> Iterator[Problem]:
    chosen = [name for name in names if given.get(name) not in (None, "")]
    if len(chosen) == 1 or (chosen and at_least):
        return
    got = " and ".join(chosen) or "none"
    yield Problem(f"{path}{names[0]}", f"{'at least' if at_least else 'exactly'} one of {', '.join(names)}, got {got}")
