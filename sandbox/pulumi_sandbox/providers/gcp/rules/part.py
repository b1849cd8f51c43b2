"""Rules about the network interfaces, identity and protection of a template's machines, each with its source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pulumi_sandbox.providers.gcp.compute.machine_types import MachineType
from pulumi_sandbox.providers.inputs import rows, table
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.values import UNKNOWN

# terraform-provider-google e03b7622, google/tpgresource/service_scope.go: the short names it turns into URLs.
SCOPES = (
    "bigquery", "cloud-platform", "cloud-source-repos", "cloud-source-repos-ro", "compute-ro", "compute-rw",
    "datastore", "logging-write", "monitoring", "monitoring-read", "monitoring-write", "pubsub", "service-control",
    "service-management", "sql", "sql-admin", "storage-full", "storage-ro", "storage-rw", "taskqueue", "trace",
    "useraccounts-ro", "useraccounts-rw", "userinfo-email",
)  # fmt: skip
# Google Cloud documentation "Confidential VM clusters" of Managed Service for Apache Spark (docs.cloud.google.com/
# dataproc/docs/concepts/configuring-clusters/confidential-compute, 2026): of the machines with GPUs, these.
CONFIDENTIAL = {"SEV": ("g4-standard-48",), "SEV_SNP": (), "TDX": ("a3-highgpu-1g",)}


def nics(chosen: MachineType, given: Any) -> Iterator[Problem]:
    # gpu_catalog, `nics`: what no vendor's text was read for refuses nothing. What is left out is Google's choice.
    offer = chosen.offer
    if offer is None or not offer.nics or "nics" in offer.uncertain:
        return
    for index, interface in enumerate(rows(given)):
        kind = table(interface).get("nicType")
        # Machines with RDMA have interfaces for it beside the first.
        usable = (*offer.nics, offer.rdma_nic) if index and offer.rdma_nic else offer.nics
        if isinstance(kind, str) and kind and kind not in usable:
            yield Problem(
                f"networkInterfaces[{index}].nicType",
                f"{chosen.name} does not take {kind}",
                f"use {' or '.join(usable)}",
            )


def interfaces(given: Any) -> Iterator[Problem]:
    # The API's own words; github.com/luci/luci-go eee7bcb, gce/api/config/v1/vm.go, checks the same before it asks.
    if given is not UNKNOWN and not rows(given):
        yield Problem("networkInterfaces", "At least one network interface is required.")


def scopes(account: Any) -> Iterator[Problem]:
    for index, scope in enumerate(rows(table(account).get("scopes"))):
        if isinstance(scope, str) and scope not in SCOPES and not scope.startswith("https://"):
            # The API's own words (github.com/GoogleCloudPlatform/cloud-build-local/pull/49).
            yield Problem(
                f"serviceAccount.scopes[{index}]",
                f"One or more of the service account scopes are invalid: '{scope}'",
                "such as cloud-platform, or https://www.googleapis.com/auth/cloud-platform",
            )


def confidential(chosen: MachineType, has_gpu: bool, given: Any) -> Iterator[Problem]:
    config = table(given)
    # Discovery document compute v1, ConfidentialInstanceConfig: AMD SEV unless another is chosen.
    kind = config.get("confidentialInstanceType") or ("SEV" if config.get("enableConfidentialCompute") is True else "")
    usable = CONFIDENTIAL.get(kind) if isinstance(kind, str) else None
    if has_gpu and usable is not None and chosen.name not in usable:
        only = f"only {' and '.join(usable)} does" if usable else "none does"
        yield Problem("confidentialInstanceConfig", f"{chosen.name} does not take {kind}; of machines with GPUs {only}")
