"""Machines that the catalog does not have today: with several boot disks, and with unknown network interfaces."""

from __future__ import annotations

from dataclasses import replace

import gpu_catalog as catalog
import pytest
from gpu_ci.gcp.machine import rules

G2 = catalog.machine("g2-standard-8")


@pytest.mark.parametrize(
    ("disks", "default"),
    [
        (("pd-ssd", "pd-balanced"), "pd-balanced"),
        (("hyperdisk-balanced", "hyperdisk-extreme"), "hyperdisk-balanced"),
    ],
)
def test_the_default_boot_disk_is_balanced_and_else_the_first_the_series_takes(
    disks: tuple[str, ...], default: str
) -> None:
    assert rules.default_disk_type(replace(G2, boot_disks=disks)) == default


def test_an_interface_is_left_to_google_where_the_catalog_knows_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "machine_of", lambda _: replace(G2, nics=()))
    assert rules.nic_type("IDPF", {"machine_type": "g2-standard-8"}) == "IDPF"
