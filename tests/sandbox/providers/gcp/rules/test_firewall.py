"""Firewall rules: what Google takes and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.gcp.types import FIREWALL
from pulumi_sandbox.providers.values import UNKNOWN

from tests.sandbox.providers.gcp.conftest import Google

ALLOW: dict[str, Any] = {
    "network": "default",
    "allows": [{"protocol": "tcp", "ports": ["22"]}],
    "sourceRanges": ["35.235.240.0/20"],
}
DENY: dict[str, Any] = {"network": "default", "denies": [{"protocol": "all"}], "sourceRanges": ["0.0.0.0/0"]}

ACCEPTED: dict[str, dict[str, Any]] = {
    "a rule that lets in": ALLOW,
    "a rule that refuses": {**DENY, "priority": 1000, "destinationRanges": ["10.0.0.0/20"]},
    "a rule of what goes out": {"network": "default", "direction": "EGRESS", "denies": [{"protocol": "all"}]},
    "a rule for ranges of ports, the last one too": {
        **ALLOW,
        "allows": [{"protocol": "TCP", "ports": ["22", "8000-8080", "65535"]}, {"protocol": "47"}],
    },
    "a rule for one address, and for IPv6": {**ALLOW, "sourceRanges": ["10.0.0.1", "fd20::/20"]},
    "a rule whose protocol is not known yet": {**ALLOW, "allows": [{"protocol": UNKNOWN, "ports": ["x"]}]},
    "a rule whose ports are not known yet": {**ALLOW, "allows": [{"protocol": "tcp", "ports": [UNKNOWN]}]},
    "a rule whose sources are not known yet": {**ALLOW, "sourceRanges": UNKNOWN},
}


def test_a_rule_that_google_takes_is_accepted(google: Google) -> None:
    assert {name: found for name, inputs in ACCEPTED.items() if (found := google.problems(FIREWALL, inputs))} == {}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "letting in and refusing": (
        {**ALLOW, "denies": [{"protocol": "all"}]},
        "allows: exactly one of allows or denies, got allows and denies",
    ),
    "neither": ({"network": "default", "sourceRanges": ["0.0.0.0/0"]}, "allows: exactly one of allows"),
    "nobody to refuse": (
        {"network": "default", "denies": [{"protocol": "all"}]},
        "sourceRanges: one of source_tags, source_ranges, or source_service_accounts must be defined",
    ),
    "a source of what goes out": (
        {**DENY, "direction": "EGRESS"},
        "sourceRanges: cannot be set for an egress rule\n  hint: set direction to INGRESS",
    ),
    "ports of everything": (
        {**DENY, "denies": [{"protocol": "all", "ports": ["22"]}]},
        "denies[0].ports: cannot be set for a protocol without ports",
    ),
    "a port there is not": (
        {**ALLOW, "allows": [{"protocol": "tcp", "ports": ["22", "65536"]}]},
        (
            "allows[0].ports[1]: Invalid value for field 'resource.allowed[0].ports[1]': '65536'. Invalid port range "
            "specification.\n  hint: such as 22, or 8000-8080"
        ),
    ),
    "ports backwards": (
        {**DENY, "denies": [{"protocol": "udp", "ports": ["80-22"]}]},
        (
            "denies[0].ports[0]: Invalid value for field 'resource.denied[0].ports[0]': '80-22'. Invalid port range "
            "specification."
        ),
    ),
    "a protocol misspelt": (
        {**ALLOW, "allows": [{"protocol": "tpc", "ports": ["22"]}]},
        (
            'allows[0].protocol: expected protocol to be one of ["tcp" "udp" "icmp" "esp" "ah" "ipip" "sctp" "all"] or '
            "a number, got tpc"
        ),
    ),
    "a protocol's number there is not": (
        {**ALLOW, "allows": [{"protocol": "256"}]},
        "allows[0].protocol: expected protocol to be one of",
    ),
    "ports of a protocol that has none": (
        {**ALLOW, "allows": [{"protocol": "esp", "ports": ["22"]}]},
        "allows[0].ports: cannot be set for a protocol without ports",
    ),
    "a source that begins elsewhere": (
        {**ALLOW, "sourceRanges": ["35.235.240.0/20", "10.0.0.1/8"]},
        (
            "sourceRanges[1]: Invalid value for field 'resource.sourceRanges[1]': '10.0.0.1/8'. Must be a valid CIDR "
            "address range.\n  hint: write 10.0.0.0/8"
        ),
    ),
    "a destination that is no range": (
        {**ALLOW, "destinationRanges": ["10.0.0.0/33"]},
        (
            "destinationRanges[0]: Invalid value for field 'resource.destinationRanges[0]': '10.0.0.0/33'. Must be a "
            "valid CIDR address range.\n  hint: such as 10.10.0.0/20"
        ),
    ),
    "accounts and tags": (
        {**ALLOW, "sourceTags": ["a"], "targetServiceAccounts": ["b@ci-project.iam.gserviceaccount.com"]},
        'targetServiceAccounts: "targetServiceAccounts": conflicts with sourceTags',
    ),
    "too late a rule": (
        {**ALLOW, "priority": 65536},
        "priority: expected priority to be in the range (0 - 65535), got 65536",
    ),
}


@pytest.mark.parametrize(("inputs", "expected"), REFUSED.values(), ids=REFUSED)
def test_a_rule_that_google_refuses_is_refused(google: Google, inputs: dict[str, Any], expected: str) -> None:
    [problem] = google.problems(FIREWALL, inputs)
    assert problem.startswith(expected)
