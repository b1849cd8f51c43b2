"""The readers of the answers of Google APIs.

The answers in answers/ are written by hand, in the form of the discovery documents.
"""

from __future__ import annotations

import copy
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from googleapiclient import discovery
from googleapiclient.http import HttpMockSequence
from gpu_catalog.upstream import UpstreamError, google_billing, google_compute
from pulumi_sandbox.providers.gcp.discovery import document

ANSWERS = Path(__file__).with_name("answers")
G2_STANDARD_8 = {("g2", "core"): 8, ("g2", "ram"): 32, ("nvidia-l4", "gpu"): 1}


def answer(name: str) -> Any:
    return json.loads((ANSWERS / f"{name}.json").read_text())


def client(api: str, version: str, *pages: Any) -> Any:
    """Return Google's own client over its own discovery document. It answers from the list instead of the network."""
    http = HttpMockSequence([({"status": "200"}, json.dumps(page)) for page in pages])
    return discovery.build(api, version, http=http, static_discovery=True)


def strangers(schemas: Any, schema: Any, value: Any, at: str) -> list[str]:
    """Return the fields of an answer that its schema does not have, or has with another type."""
    schema = schemas[schema["$ref"]] if "$ref" in schema else schema
    if isinstance(value, dict):
        inner, rest = schema.get("properties", {}), schema.get("additionalProperties")
        return [
            problem
            for key, each in value.items()
            for problem in (
                strangers(schemas, inner.get(key, rest), each, f"{at}.{key}")
                if key in inner or rest
                else [f"{at}.{key}"]
            )
        ]
    if isinstance(value, list):
        return [problem for each in value for problem in strangers(schemas, schema["items"], each, f"{at}[]")]
    kinds = {"string": str, "integer": int, "number": (int, float), "boolean": bool}
    return [] if isinstance(value, kinds[schema["type"]]) else [f"{at}: {value!r}"]


@pytest.mark.parametrize(
    ("name", "api", "schema"),
    [
        ("machine_types", "compute.v1", "MachineTypeAggregatedList"),
        ("accelerator_types", "compute.v1", "AcceleratorTypeAggregatedList"),
        ("skus", "cloudbilling.v1", "ListSkusResponse"),
    ],
)
def test_the_answers_have_the_shape_that_google_documents(name: str, api: str, schema: str) -> None:
    schemas = document(api)["schemas"]
    for page in answer(name):
        assert strangers(schemas, schemas[schema], page, "") == []


def test_a_field_google_does_not_have_would_be_seen() -> None:
    schemas = document("compute.v1")["schemas"]
    page = {"items": {"zones/a": {"machineTypes": [{"guestCpus": "4", "gpus": 1}]}}}
    assert strangers(schemas, schemas["MachineTypeAggregatedList"], page, "") == [
        ".items.zones/a.machineTypes[].guestCpus: '4'",
        ".items.zones/a.machineTypes[].gpus",
    ]


def test_every_page_is_asked_for() -> None:
    compute = client("compute", "v1", *answer("machine_types"), *answer("accelerator_types"))
    machines, accelerators = google_compute.fetch("p", compute)
    assert (machines, accelerators) == (answer("machine_types"), answer("accelerator_types"))
    assert google_billing.fetch(client("cloudbilling", "v1", *answer("skus"))) == answer("skus")


def test_a_machine_type_is_joined_over_its_zones() -> None:
    found = google_compute.machine_types(answer("machine_types"))
    assert found["g2-standard-4"] == google_compute.MachineType(
        name="g2-standard-4",
        zones=("us-central1-a", "us-central1-b"),
        vcpus=4,
        memory_mib=16384,
        architecture="x86_64",
        accelerator="nvidia-l4",
        accelerator_count=1,
        bundled_local_ssds=0,
        deprecated="",
    )


def test_types_without_gpus_are_left_out_except_n1_which_takes_them() -> None:
    found = google_compute.machine_types(answer("machine_types"))
    assert sorted(found) == ["a3-highgpu-8g", "a4x-highgpu-4g", "g2-standard-4", "n1-standard-8"]
    assert (found["n1-standard-8"].accelerator, found["n1-standard-8"].accelerator_count) == ("", 0)
    assert (found["a4x-highgpu-4g"].architecture, found["a3-highgpu-8g"].bundled_local_ssds) == ("arm64", 16)


def test_accelerators_with_their_zones_and_what_is_deprecated() -> None:
    found = google_compute.accelerator_types(answer("accelerator_types"))
    assert found["nvidia-l4"] == google_compute.AcceleratorType("nvidia-l4", ("us-central1-a", "us-central1-b"), 8, "")
    assert found["nvidia-tesla-k80"].deprecated == "DEPRECATED"


def test_a_zone_that_did_not_answer_is_an_error_and_not_a_zone_without_machines() -> None:
    [page, _] = answer("machine_types")
    page["items"]["zones/asia-east1-a"]["warning"]["code"] = "UNREACHABLE"
    with pytest.raises(UpstreamError, match=r"machineTypes: asia-east1-a: not answered\n  got: UNREACHABLE"):
        google_compute.machine_types([page])
    with pytest.raises(UpstreamError, match="acceleratorTypes: us-east1-b: not answered"):
        google_compute.accelerator_types([{"unreachables": ["projects/p/zones/us-east1-b"]}])


def test_a_type_that_differs_between_zones_is_an_error() -> None:
    pages = answer("machine_types")
    pages[1]["items"]["zones/us-central1-b"]["machineTypes"][0]["guestCpus"] = 8
    with pytest.raises(UpstreamError, match=r"vcpus: differs between zones\n  got: 4 in us-central1-a, 8 in us-cen"):
        google_compute.machine_types(pages)


def test_a_type_with_two_kinds_of_accelerator_is_an_error() -> None:
    [page, _] = answer("machine_types")
    machine = page["items"]["zones/us-central1-a"]["machineTypes"][0]
    machine["accelerators"] *= 2
    with pytest.raises(UpstreamError, match="g2-standard-4: accelerators: got 2 kinds"):
        google_compute.machine_types([page])


def test_the_parts_of_a_machine_add_up_to_the_published_price() -> None:
    # g2-standard-8 in us-central1 was 0.8536 USD an hour in Cloud Billing's prices of 2026-08-03.
    found = google_billing.skus(answer("skus")).values()
    assert google_billing.price_usd_per_hour(found, "us-central1", "on-demand", G2_STANDARD_8) == Decimal("0.853608")


def test_spot_has_prices_of_its_own() -> None:
    found = google_billing.skus(answer("skus")).values()
    assert google_billing.price_usd_per_hour(found, "us-central1", "spot", G2_STANDARD_8) == Decimal("0.4732")


def test_commitments_and_prices_by_volume_are_left_out() -> None:
    assert {"COMMIT", "TIERED"} & set(google_billing.skus(answer("skus"))) == set()


@pytest.mark.parametrize(
    ("region", "quantities"),
    [
        ("europe-west4", G2_STANDARD_8),
        ("us-central1", {("a3", "core"): 1, ("nvidia-l4", "gpu"): 1}),
        ("us-central1", {("a2", "core"): 12, ("nvidia-l4", "gpu"): 1}),
    ],
    ids=["a region without prices", "a part we have no name for", "a part Google did not list"],
)
def test_a_price_with_a_part_missing_is_unknown_and_not_lower(region: str, quantities: Any) -> None:
    found = google_billing.skus(answer("skus")).values()
    assert google_billing.price_usd_per_hour(found, region, "on-demand", quantities) is None


def test_two_prices_for_one_part_are_an_error() -> None:
    pages = answer("skus")
    twin = copy.deepcopy(pages[0]["skus"][2]) | {"skuId": "L4-TWIN"}
    pages[0]["skus"].append(twin)
    found = google_billing.skus(pages).values()
    with pytest.raises(UpstreamError, match=r"us-central1: on-demand: got L4-OD, L4-TWIN"):
        google_billing.price_usd_per_hour(found, "us-central1", "on-demand", G2_STANDARD_8)
