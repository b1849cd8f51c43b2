"""What the runner manager and the smoke gate share about requests of EC2 instances: the market, and the error codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

# Codes of docs.aws.amazon.com/ec2/latest/devguide/ec2-api-errors.html. All others are refusals.
NO_CAPACITY = {
    "InsufficientCapacity", "InsufficientFreeAddressesInSubnet", "InsufficientHostCapacity",
    "InsufficientInstanceCapacity", "InsufficientReservedInstanceCapacity", "ReservationCapacityExceeded",
    "SpotMaxPriceTooLow",
    # A type that the zone does not have. Only this zone then waits.
    "Unsupported",
}  # fmt: skip
OVER_QUOTA = {
    "InstanceLimitExceeded", "MaxIOPSLimitExceeded", "MaxSpotInstanceCountExceeded", "VcpuLimitExceeded",
    "VolumeLimitExceeded",
}  # fmt: skip
RATE_LIMITED = {"RequestLimitExceeded", "Throttling", "ThrottlingException"}
NOT_YET = {
    # The machine exists, and a later list has it.
    "IdempotentParameterMismatch",
    "InternalError", "InternalFailure", "InvalidInstanceID.NotFound", "ResourceNotReady", "ServiceUnavailable",
    "Unavailable",
    *RATE_LIMITED,
}  # fmt: skip
CREDENTIALS = {"AuthFailure", "ExpiredToken", "InvalidClientTokenId", "RequestExpired"}
"""Errors of this computer's credentials or clock."""
# Codes of Instance.StateReason of an instance that ended at once (botocore, ec2 2016-11-15, StateReason.Message).
START_FAILED: Mapping[str, Literal["no-capacity", "over-quota", "refused"]] = {
    "Server.InsufficientInstanceCapacity": "no-capacity",
    "Server.InternalError": "no-capacity",
    "Client.VolumeLimitExceeded": "over-quota",
    "Client.InternalError": "refused",
    "Client.InvalidSnapshot.NotFound": "refused",
}


def market_options(market: str, reservation: str, most_usd_per_hour: float | None = None) -> dict[str, Any]:
    """Return the parameters of RunInstances for a market: spot, standard or reservation, which is a Capacity Block."""
    if market == "spot":
        options = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
        if most_usd_per_hour is not None:
            options["MaxPrice"] = str(most_usd_per_hour)
        return {"InstanceMarketOptions": {"MarketType": "spot", "SpotOptions": options}}
    if not reservation:
        return {}
    target = {"CapacityReservationTarget": {"CapacityReservationId": reservation}}
    block = {"InstanceMarketOptions": {"MarketType": "capacity-block"}} if market == "reservation" else {}
    return {"CapacityReservationSpecification": target, **block}
