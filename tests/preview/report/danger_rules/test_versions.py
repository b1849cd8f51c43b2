"""Tests of the rule `goes-back`: a pinned version changes to an older one, and similar changes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gpu_preview.model import Severity

from ...danger_cases import CREATE, REPLACE, UNKNOWN, UPDATE, found

RELEASE = "kubernetes:helm.sh/v3:Release"
IMAGE = "projects/ubuntu-os-accelerator-images/global/images/ubuntu-accelerator-2404-amd64-with-nvidia-{}-v{}"
DIGEST = "@sha256:" + "0" * 64


def config(**values: Any) -> dict[str, Any]:
    return {"metadata": {"gpu-agent-config": json.dumps(values)}}


@pytest.mark.parametrize(
    ("newer", "older", "text"),
    [
        ({"version": "0.13.1"}, {"version": "0.9.3"}, "version goes back from 0.13.1 to 0.9.3"),
        ({"version": 12}, {"version": 11}, "version goes back from 12 to 11"),
        ({"version": "v1.10"}, {"version": "v1.9"}, "version goes back from v1.10 to v1.9"),
        ({"releaseVersion": "1.34.1-20260801"}, {"releaseVersion": "1.34.1-20260701"},
         "releaseVersion goes back from 1.34.1-20260801 to 1.34.1-20260701"),
        ({"spec": [{"image": f"a/b:2.336.0{DIGEST}"}]}, {"spec": [{"image": f"a/b:2.99.0{DIGEST}"}]},
         "the tag of spec[0].image goes back from 2.336.0 to 2.99.0"),
        ({"image": "localhost:5000/b:1.2"}, {"image": "localhost:5000/b:1.1"},
         "the tag of image goes back from 1.2 to 1.1"),
        ({"image": "nvidia/cuda:12.10.1-runtime-ubuntu24.04"}, {"image": "nvidia/cuda:12.9.1-runtime-ubuntu24.04"},
         "the tag of image goes back from 12.10.1 to 12.9.1"),
        ({"sourceImage": IMAGE.format(580, 20260820)}, {"sourceImage": IMAGE.format(570, 20260820)},
         "the driver of sourceImage goes back from 580 to 570"),
        ({"sourceImage": IMAGE.format(580, 20260820)}, {"sourceImage": IMAGE.format(580, 20260819)},
         "the date of sourceImage goes back from 20260820 to 20260819"),
        (config(torch="2.10.0"), config(torch="2.9.0"),
         'metadata["gpu-agent-config"]#torch goes back from 2.10.0 to 2.9.0'),
        (config(runner={"version": "2.338.0"}), config(runner={"version": "2.99.0"}),
         'metadata["gpu-agent-config"]#runner.version goes back from 2.338.0 to 2.99.0'),
        (config(driver={"branch": "R580"}), config(driver={"branch": "R570"}),
         'metadata["gpu-agent-config"]#driver.branch goes back from R580 to R570'),
    ],
)  # fmt: skip
def test_an_older_version_is_reported_and_a_newer_or_the_same_is_not(newer: Any, older: Any, text: str) -> None:
    for operation in (UPDATE, REPLACE):
        [finding] = found(RELEASE, operation, newer, older)
        assert finding.text == f"Release x: {text}"
        assert (finding.rule, finding.severity) == ("goes-back", Severity.WARNING)
    assert found(RELEASE, UPDATE, older, newer) == []
    assert found(RELEASE, UPDATE, newer, newer) == []
    assert found(RELEASE, CREATE, after=older) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"version": "2"}, {"version": UNKNOWN}),
        ({"version": "2"}, {}),
        ({"version": "latest"}, {"version": "1"}),
        ({"version": "main"}, {"version": "dev"}),
        ({"version": "9" * 65}, {"version": "1"}),
        ({"version": 10**12}, {"version": 1}),
        ({"version": "2"}, {"version": {"a": "1"}}),
        ({"apiVersion": "v2"}, {"apiVersion": "v1"}),
        ({"launchTemplate": {"id": "lt-1", "version": "7"}}, {"launchTemplate": {"id": "lt-2", "version": "1"}}),
        ({"image": "a/b:2"}, {"image": "a/c:1"}),
        ({"image": "a/b:2-ubuntu24.04"}, {"image": "a/b:1-ubuntu22.04"}),
        ({"image": f"a/b{DIGEST}"}, {"image": f"a/b{DIGEST.replace('0', '1')}"}),
        ({"sourceImage": IMAGE.format(570, 20260820)}, {"sourceImage": IMAGE.format(580, 20260819)}),
        ({"maxCount": "2"}, {"maxCount": "1"}),
        (config(uv="0.9"), {"metadata": {"gpu-agent-config": "{broken"}}),
    ],
)  # fmt: skip
def test_versions_that_cannot_be_compared_or_are_no_pins_are_no_danger(before: Any, after: Any) -> None:
    assert found("my:own:Thing", UPDATE, before, after) == []
