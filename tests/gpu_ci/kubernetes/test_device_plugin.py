"""The values of the device plugin's chart."""

from __future__ import annotations

from gpu_ci.kubernetes.device_plugin import DevicePlugin

from tests.gpu_ci.kubernetes.clusters import build, values


def test_no_mig_strategy_stands_beside_the_configurations() -> None:
    """With one, the chart would take CAP_SYS_ADMIN away, and the plugin sees no GPU on nodes that hide them."""
    assert "migStrategy" not in values(build(DevicePlugin, "nvdp"))
