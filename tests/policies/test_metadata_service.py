"""imds-v2 and imds-hop-limit."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_ci_policies.properties import UNKNOWN

from .support import LAUNCH_TEMPLATE, TEMPLATE, found


def options(**given: Any) -> dict[str, Any]:
    return {"metadataOptions": given}


@pytest.mark.parametrize(
    ("props", "violations"),
    [
        (options(httpTokens="optional"), ["metadataOptions.httpTokens is optional, and has to be required"]),
        ({}, ["metadataOptions.httpTokens is not set, and has to be required"]),
        (options(httpTokens="required"), []),
        (options(httpTokens=UNKNOWN), []),
        (options(httpEndpoint="disabled"), []),
        (options(httpEndpoint=UNKNOWN), []),
        ({"metadataOptions": UNKNOWN}, []),
    ],
)
def test_the_metadata_service_has_to_ask_for_a_session(props: dict[str, Any], violations: list[str]) -> None:
    assert found("imds-v2", LAUNCH_TEMPLATE, props) == violations
    assert found("imds-v2", TEMPLATE, props) == []


@pytest.mark.parametrize(
    ("props", "violations"),
    [
        (
            options(httpPutResponseHopLimit=2),
            ["metadataOptions.httpPutResponseHopLimit is 2, and has to be at most 1"],
        ),
        (options(), ["metadataOptions.httpPutResponseHopLimit is not set, and has to be at most 1"]),
        (options(httpPutResponseHopLimit=1), []),
        (options(httpPutResponseHopLimit="1"), []),
        (options(httpPutResponseHopLimit=UNKNOWN), []),
        (options(httpEndpoint="disabled", httpPutResponseHopLimit=2), []),
    ],
)
def test_a_pod_is_one_hop_too_far(props: dict[str, Any], violations: list[str]) -> None:
    assert found("imds-hop-limit", LAUNCH_TEMPLATE, props) == violations


def test_more_hops_are_accepted_where_that_is_chosen() -> None:
    assert found("imds-hop-limit", LAUNCH_TEMPLATE, options(httpPutResponseHopLimit=2), maxHops=2) == []
