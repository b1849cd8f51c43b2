"""Computes prices of Compute Engine machines from the Cloud Billing catalog, which has a price for each component.

A component, such as a vCPU of G2, is a SKU of Google. `fetch` calls Google's API with application default credentials.
It has only been tested with answers in the documented format, not with a Google Cloud account.

A SKU is found by its description. Google documents no list of the descriptions. The descriptions in SKU_DESCRIPTIONS
are from public repositories that print the live catalog (2026). With these SKUs, the price of g2-standard-8 in
us-central1 equals the price in this project's catalog. Prices of other series are not computed, because a wrong
description would result in a price that is too low.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpu_catalog.upstream import UpstreamError

# The service id of Compute Engine (docs.cloud.google.com/billing/docs/how-to/get-pricing-information-api).
SERVICE = "services/6F81-5844-456A"
PAGE_SIZE = 5000
MARKETS = {"OnDemand": "on-demand", "Preemptible": "spot"}
NANO = Decimal("1e-9")

# The prefixes of SKU descriptions by series or accelerator type, without the prefix of spot SKUs.
SKU_DESCRIPTIONS = {
    ("g2", "core"): "G2 Instance Core running in",
    ("g2", "ram"): "G2 Instance Ram running in",
    ("n1", "core"): "N1 Predefined Instance Core running in",
    ("n1", "ram"): "N1 Predefined Instance Ram running in",
    ("a2", "core"): "A2 Instance Core running in",
    ("a2", "ram"): "A2 Instance Ram running in",
    ("nvidia-l4", "gpu"): "Nvidia L4 GPU running in",
    ("nvidia-tesla-a100", "gpu"): "Nvidia Tesla A100 GPU running in",
    ("nvidia-tesla-t4", "gpu"): "Nvidia Tesla T4 GPU running in",
}
SPOT_MARKS = re.compile(r"^Spot Preemptible |attached to Spot Preemptible VMs ")


@dataclass(frozen=True, slots=True)
class Sku:
    """The price of one component in some regions, in USD an hour."""

    sku_id: str
    description: str
    market: str
    regions: tuple[str, ...]
    unit: str
    usd: Decimal
    since: str


def fetch(billing: Any = None) -> list[Mapping[str, Any]]:
    """Return the pages of services.skus.list for Compute Engine. `billing` is a google-api-python-client client."""
    if billing is None:
        from googleapiclient import discovery

        billing = discovery.build("cloudbilling", "v1", static_discovery=True)
    return list(_pages(billing.services().skus()))


def _pages(collection: Any) -> Iterator[Mapping[str, Any]]:
    request = collection.list(parent=SERVICE, currencyCode="USD", pageSize=PAGE_SIZE)
    while request is not None:
        page = request.execute(num_retries=5)
        yield page
        request = collection.list_next(request, page)


def skus(pages: Iterable[Mapping[str, Any]]) -> dict[str, Sku]:
    """Return the on-demand and spot SKUs. Others, such as commitments, are left out."""
    found = {}
    for page in pages:
        for each in page.get("skus", []):
            market = MARKETS.get(each["category"].get("usageType", ""))
            if market and (sku := _sku(each, market)):
                found[sku.sku_id] = sku
    return found


def _sku(each: Mapping[str, Any], market: str) -> Sku | None:
    if not each.get("pricingInfo"):
        return None
    price = each["pricingInfo"][-1]
    expression = price["pricingExpression"]
    rates = expression.get("tieredRates", [])
    # Only SKUs with a free amount or a volume discount have several tiers. Machines and GPUs have one rate.
    if len(rates) != 1 or rates[0]["unitPrice"].get("currencyCode", "USD") != "USD":
        return None
    money = rates[0]["unitPrice"]
    return Sku(
        sku_id=each["skuId"],
        description=each["description"],
        market=market,
        regions=tuple(each.get("serviceRegions", [])),
        unit=expression["usageUnit"],
        usd=Decimal(money.get("units", 0)) + NANO * money.get("nanos", 0),
        since=price.get("effectiveTime", "")[:10],
    )


def find_sku(found: Iterable[Sku], key: tuple[str, str], region: str, market: str) -> Sku | None:
    """Return the SKU of a component, or None. Raise UpstreamError for two matching SKUs: their prices may differ."""
    beginning = SKU_DESCRIPTIONS.get(key)
    if beginning is None:
        return None
    fitting = [
        sku
        for sku in found
        if sku.market == market and region in sku.regions and SPOT_MARKS.sub("", sku.description).startswith(beginning)
    ]
    if len(fitting) > 1:
        ids = ", ".join(sorted(sku.sku_id for sku in fitting))
        raise UpstreamError(f"{beginning}: {region}: {market}: got {ids}\n  expected: one SKU")
    return fitting[0] if fitting else None


def price_usd_per_hour(
    found: Iterable[Sku], region: str, market: str, quantities: Mapping[tuple[str, str], float]
) -> Decimal | None:
    """Return the price an hour of these amounts of components, or None if a component has no price in the region."""
    total = Decimal(0)
    all_skus = list(found)
    for key, quantity in quantities.items():
        sku = find_sku(all_skus, key, region, market)
        if sku is None:
            return None
        total += sku.usd * Decimal(str(quantity))
    return total
