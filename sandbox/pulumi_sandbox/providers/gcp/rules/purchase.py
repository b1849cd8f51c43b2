"""Check rules for provisioning models and scheduling of a template that no schema contains, each with its source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pulumi_sandbox.providers.gcp.compute.machine_types import MachineType
from pulumi_sandbox.providers.inputs import table
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.values import UNKNOWN

# Google Cloud documentation "About Flex-start VMs".
FLEX_START_SEC = (600, 604_800)
# Google Cloud documentation "Limit the run time of a VM" (docs.cloud.google.com/compute/docs/instances/
# limit-vm-runtime), "Restrictions": from 30 seconds to 120 days.
RUN_LIMIT_SEC = (30, 10_368_000)


def maintenance(scheduling: dict[str, Any]) -> Iterator[Problem]:
    # Google Cloud documentation "Handle GPU host maintenance events"
    # (docs.cloud.google.com/compute/docs/gpus/gpu-host-maintenance): GPU instances cannot live migrate. The message is
    # the API's. The default of onHostMaintenance is MIGRATE, and TERMINATE for a preemptible instance.
    value = scheduling.get("onHostMaintenance")
    spot = scheduling.get("preemptible") or scheduling.get("provisioningModel") in ("SPOT", UNKNOWN)
    if value is UNKNOWN or value == "TERMINATE" or (not value and spot):
        return
    yield Problem(
        "scheduling.onHostMaintenance",
        f"Instances with guest accelerators do not support live migration (got {value or 'nothing: MIGRATE'}).",
        "set onHostMaintenance to TERMINATE",
    )


def scheduling_rules(scheduling: dict[str, Any]) -> Iterator[Problem]:
    model = scheduling.get("provisioningModel")
    preemptible, restart = scheduling.get("preemptible"), scheduling.get("automaticRestart")
    # Google Cloud documentation "Create and use Spot VMs"
    # (docs.cloud.google.com/compute/docs/instances/create-use-spot).
    # The provider sends automaticRestart true and preemptible false when they are left out.
    if model == "SPOT" and not preemptible:
        yield Problem(
            "scheduling.preemptible", "must be true when provisioningModel is SPOT", "set preemptible to true"
        )
    if (model == "SPOT" or preemptible is True) and restart not in (False, UNKNOWN):
        yield Problem(
            "scheduling.automaticRestart",
            f"must be false when {'provisioningModel is SPOT' if model == 'SPOT' else 'preemptible is true'} "
            f"(the default is true)",
            "set automaticRestart to false",
        )
    if model not in ("SPOT", "STANDARD", None, "", UNKNOWN) and preemptible is True:
        yield Problem("scheduling.preemptible", f"must not be true when provisioningModel is {model}")
    if model == "FLEX_START":
        yield from flex_start(scheduling)
    else:
        yield from run_limit(scheduling)


def run_limit(scheduling: dict[str, Any]) -> Iterator[Problem]:
    model, duration = scheduling.get("provisioningModel"), scheduling.get("maxRunDuration")
    seconds = table(duration).get("seconds")
    min_sec, max_sec = RUN_LIMIT_SEC
    if isinstance(seconds, int | float) and not min_sec <= seconds <= max_sec:
        yield Problem(
            "scheduling.maxRunDuration.seconds",
            f"must be from {min_sec} (30 seconds) to {max_sec} (120 days), got {seconds:.0f}",
        )
    if model not in (None, "", "STANDARD"):
        return
    if duration and scheduling.get("preemptible") is True:
        # The same page: no time limits on preemptible VMs of the older model.
        yield Problem(
            "scheduling.maxRunDuration",
            "cannot be used by a preemptible VM that is not a Spot VM",
            "set provisioningModel to SPOT",
        )
    action, has_limit = scheduling.get("instanceTerminationAction"), duration or scheduling.get("terminationTime")
    if action in ("DELETE", "STOP") and not has_limit and scheduling.get("preemptible") in (None, False):
        # The API's message (github.com/cloudpilot-ai/karpenter-provider-gcp/issues/155). The API accepts the action
        # with a time limit, as "Limit the run time of a VM" shows.
        yield Problem(
            "scheduling.instanceTerminationAction",
            f"Invalid value for field 'resource.scheduling.instanceTerminationAction': '{action}'. You cannot specify "
            "a termination action for a VM instance that has the standard provisioning model (default). To use "
            "instance termination action, the VM instance must use the Spot, Reservation-Bound or Flex Start "
            "provisioning model.",
        )


def reservation(scheduling: dict[str, Any], affinity: Any) -> Iterator[Problem]:
    model, affinity_fields = scheduling.get("provisioningModel"), table(affinity)
    kind, reservation_name = affinity_fields.get("type"), affinity_fields.get("specificReservation")
    if affinity is UNKNOWN or kind is UNKNOWN:
        return
    # Google Cloud documentation "Compute Engine instances provisioning models"
    # (docs.cloud.google.com/compute/docs/instances/provisioning-models): reservation-bound VMs use a named reservation.
    if model == "RESERVATION_BOUND" and kind != "SPECIFIC_RESERVATION":
        yield Problem(
            "reservationAffinity.type",
            f"must be SPECIFIC_RESERVATION when provisioningModel is RESERVATION_BOUND, got {kind or 'nothing'}",
        )
    # Google Cloud documentation "About Flex-start VMs"
    # (docs.cloud.google.com/compute/docs/instances/about-flex-start-vms): they cannot consume reservations.
    if model == "FLEX_START" and kind == "SPECIFIC_RESERVATION":
        yield Problem(
            "reservationAffinity.type",
            "must not be SPECIFIC_RESERVATION when provisioningModel is FLEX_START",
            "set type to NO_RESERVATION",
        )
    # Google Cloud documentation "Consume reservations", "Limitations" (docs.cloud.google.com/compute/docs/instances/
    # reservations-consume): Spot VMs and preemptible instances cannot.
    if kind == "SPECIFIC_RESERVATION" and (model == "SPOT" or scheduling.get("preemptible") is True):
        yield Problem(
            "reservationAffinity.type",
            "must not be SPECIFIC_RESERVATION for a Spot VM or a preemptible one, which cannot consume a reservation",
            "remove reservationAffinity",
        )
    # terraform-provider-google e03b7622, compute_instance_helpers.go, expandReservationAffinity.
    if kind and (kind == "SPECIFIC_RESERVATION") != bool(reservation_name):
        yield Problem(
            "reservationAffinity.specificReservation",
            "specific_reservation must be set when reservation_affinity is SPECIFIC_RESERVATION, and not set otherwise",
        )
    # Discovery document compute v1, ReservationAffinity.consumeReservationType: SPECIFIC_RESERVATION "must specify key
    # value fields". The schema allows an empty key or list.
    for field in ("key", "values") if table(reservation_name) else ():
        if table(reservation_name).get(field) in ("", []):
            yield Problem(
                f"reservationAffinity.specificReservation.{field}", "must not be empty for a SPECIFIC_RESERVATION"
            )


def flex_start(scheduling: dict[str, Any]) -> Iterator[Problem]:
    # Google Cloud documentation "About Flex-start VMs"
    # (docs.cloud.google.com/compute/docs/instances/about-flex-start-vms).
    if scheduling.get("automaticRestart") not in (False, UNKNOWN):
        yield Problem(
            "scheduling.automaticRestart",
            "must be false when provisioningModel is FLEX_START (the default is true)",
            "set automaticRestart to false",
        )
    if scheduling.get("instanceTerminationAction") not in ("DELETE", UNKNOWN):
        yield Problem(
            "scheduling.instanceTerminationAction",
            f"must be DELETE when provisioningModel is FLEX_START, got "
            f"{scheduling.get('instanceTerminationAction') or 'nothing'}",
        )
    duration = scheduling.get("maxRunDuration")
    seconds = table(duration).get("seconds")
    if not duration:
        yield Problem("scheduling.maxRunDuration", "is required when provisioningModel is FLEX_START")
    elif isinstance(seconds, int | float) and not FLEX_START_SEC[0] <= seconds <= FLEX_START_SEC[1]:
        yield Problem(
            "scheduling.maxRunDuration.seconds",
            f"must be from {FLEX_START_SEC[0]} (10 minutes) to {FLEX_START_SEC[1]} (7 days) when provisioningModel is "
            f"FLEX_START, got {seconds:g}",
        )


def market(machine_type: MachineType, scheduling: dict[str, Any]) -> Iterator[Problem]:
    # gpu_catalog, `markets`: the provisioning models of each machine type.
    model = scheduling.get("provisioningModel") or ("SPOT" if scheduling.get("preemptible") else "STANDARD")
    if not machine_type.models or UNKNOWN in (model, scheduling.get("preemptible")):
        return
    if model in ("STANDARD", "SPOT", "FLEX_START") and model not in machine_type.models:
        offered = ", ".join(machine_type.models)
        yield Problem(
            "scheduling.provisioningModel", f"{machine_type.name} is not offered as {model}; it is offered as {offered}"
        )
