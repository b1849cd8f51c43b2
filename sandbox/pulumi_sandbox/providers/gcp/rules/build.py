"""Check rules for Cloud Build and Artifact Registry that no schema contains, each with its source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import gpu_catalog

from pulumi_sandbox.providers.gcp.compute import machine_types
from pulumi_sandbox.providers.gcp.discovery import locations
from pulumi_sandbox.providers.gcp.rules.common import labels, one_of
from pulumi_sandbox.providers.inputs import is_known, rows, table
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.values import UNKNOWN

# Discovery document cloudbuild v1, parameter workerPoolId; digits as in `gcloud builds worker-pools create --help`.
POOL_ID = r"[a-z0-9-]{1,63}"
# Google Cloud documentation "Create and manage private pools" (docs.cloud.google.com/build/docs/private-pools/
# create-manage-private-pools): from 100 to 4000. Discovery document cloudbuild v1, WorkerConfig.diskSizeGb: with 0,
# Cloud Build chooses the size.
DISK_GB = (100, 4000)
# Google Cloud documentation "Cloud Build pricing" (cloud.google.com/build/pricing): the E2 types of private pools.
# Types of other series are not checked. Types with GPUs are refused: the API has no field for an accelerator.
E2 = (
    "e2-medium", *(f"e2-standard-{cpus}" for cpus in (2, 4, 8, 16, 32)),
    *(f"e2-highmem-{cpus}" for cpus in (2, 4, 8, 16)), *(f"e2-highcpu-{cpus}" for cpus in (2, 4, 8, 16, 32)),
)  # fmt: skip
# Google Cloud documentation "Private pool configuration file schema": a prefix of at most 29 bits.
SMALLEST_RANGE = 29
# Google Cloud documentation "Create standard repositories" (docs.cloud.google.com/artifact-registry/docs/repositories).
REPOSITORY_ID = r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?"
# Google Cloud documentation "Configure cleanup policies" (docs.cloud.google.com/artifact-registry/docs/repositories/
# cleanup-policy): at most 10 for a repository. Discovery document artifactregistry v1, Repository.cleanupPolicies: ids
# are "under 128 characters".
POLICIES_MOST, POLICY_ID_MOST = 10, 127
# terraform-provider-google e03b7622, website/docs/r/artifact_registry_repository.html.markdown: besides regions.
MULTI_REGIONS = ("asia", "europe", "us")
# terraform-provider-google e03b7622, resource_artifact_registry_repository.go, parseDurationAsSeconds.
DURATION = r"\d+[smhd]"


def worker_pool(inputs: dict[str, Any]) -> Iterator[Problem]:
    name, place = inputs.get("name"), inputs.get("location")
    if isinstance(name, str) and not re.fullmatch(POOL_ID, name):
        yield Problem("name", f'"name" ("{name}") doesn\'t match regexp "^{POOL_ID}$"')
    if isinstance(place, str) and place not in locations("cloudbuild.v1"):
        yield Problem("location", f"{place} is not a location of Cloud Build", "such as us-central1")
    display = inputs.get("displayName")
    if isinstance(display, str) and not 1 <= len(display) <= 63:
        yield Problem("displayName", f"expected length of displayName to be in the range (1 - 63), got {len(display)}")
    if is_known(inputs.get("networkConfig")) and is_known(inputs.get("privateServiceConnect")):
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


def workers(config: dict[str, Any]) -> Iterator[Problem]:
    disk, machine = config.get("diskSizeGb"), config.get("machineType")
    min_gb, max_gb = DISK_GB
    if isinstance(disk, int | float) and disk != 0 and not min_gb <= disk <= max_gb:
        yield Problem(
            "workerConfig.diskSizeGb", f"expected diskSizeGb to be in the range ({min_gb} - {max_gb}), got {disk:g}"
        )
    if not isinstance(machine, str) or not machine:
        return
    if machine_types.machine(machine) is None:
        yield Problem(
            "workerConfig.machineType", f'"{machine}" is not a machine type', machine_types.did_you_mean(machine)
        )
        return
    has_gpus = machine in gpu_catalog.machine_types("gcp") and not gpu_catalog.takes_accelerator(machine)
    if has_gpus or (machine.startswith("e2-") and machine not in E2):
        reason = "has GPUs, which workers cannot have" if has_gpus else "is not a machine type of private pools"
        yield Problem("workerConfig.machineType", f"{machine} {reason}", "such as e2-standard-8")


def repository(inputs: dict[str, Any]) -> Iterator[Problem]:
    yield from labels(inputs.get("labels"), "labels")
    name = inputs.get("repositoryId")
    if isinstance(name, str) and not re.fullmatch(REPOSITORY_ID, name):
        yield Problem("repositoryId", f'"repositoryId" ("{name}") doesn\'t match regexp "^{REPOSITORY_ID}$"')
    place = inputs.get("location")
    if isinstance(place, str) and place and place not in (*MULTI_REGIONS, *locations("artifactregistry.v1")):
        yield Problem("location", f"{place} is not a location of Artifact Registry", "such as us-central1")
    policies = rows(inputs.get("cleanupPolicies"))
    if len(policies) > POLICIES_MOST:
        yield Problem("cleanupPolicies", f"expected at most {POLICIES_MOST} cleanup policies, got {len(policies)}")
    policy_ids: set[str] = set()
    for index, row in enumerate(policies):
        policy, path = table(row), f"cleanupPolicies[{index}]"
        name = policy.get("id")
        if isinstance(name, str) and name in policy_ids:
            yield Problem(f"{path}.id", f'the policy "{name}" is listed twice')
        if isinstance(name, str) and len(name) > POLICY_ID_MOST:
            yield Problem(f"{path}.id", f"expected at most {POLICY_ID_MOST} characters, got {len(name)}")
        policy_ids.add(str(name))
        if is_known(policy.get("mostRecentVersions")) and policy.get("action") not in ("KEEP", UNKNOWN):
            # Discovery document artifactregistry v1, CleanupPolicy.mostRecentVersions.
            yield Problem(f"{path}.mostRecentVersions", "may only be specified with a KEEP action")
        yield from one_of(policy, ("condition", "mostRecentVersions"), f"{path}.")
        for field in ("newerThan", "olderThan"):
            age = table(policy.get("condition")).get(field)
            if isinstance(age, str) and age and not re.fullmatch(DURATION, age):
                yield Problem(f"{path}.condition.{field}", f"expected a duration such as 30d or 3600s, got {age}")
