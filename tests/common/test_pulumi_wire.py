"""Judged by the SDK that is installed."""

from __future__ import annotations

from gpu_common import pulumi_wire
from pulumi.runtime import rpc


def test_signatures_and_the_unknown_text_are_those_of_pulumis_sdk() -> None:
    assert rpc._special_sig_key == pulumi_wire.SIGNATURE
    assert rpc._special_secret_sig == pulumi_wire.SECRET
    assert rpc._special_asset_sig == pulumi_wire.ASSET
    assert rpc._special_archive_sig == pulumi_wire.ARCHIVE
    assert rpc._special_resource_sig == pulumi_wire.REFERENCE
    assert rpc._special_output_value_sig == pulumi_wire.OUTPUT
    assert pulumi_wire.UNKNOWN_STRING == rpc.UNKNOWN
    assert len(pulumi_wire.UNKNOWNS) == 7
