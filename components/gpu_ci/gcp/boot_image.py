"""What the name of a public boot image tells: its NVIDIA driver, and the torch the check then runs with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from gpu_catalog import Machine, solver
from gpu_catalog.choices import source_of

from .. import versions

# The publishers whose image names end in the driver's branch, and the solver's word for those images. Deep Learning VM
# images have none here: Google's documentation rules some of them out where projects boot them all the same, and what a
# machine really does, the gate finds out.
_PUBLISHERS = {
    "ubuntu-os-accelerator-images": "accelerator-image",
    "rocky-linux-accelerator-cloud": "accelerator-image",
    "deeplearning-platform-release": None,
}
_DRIVER = re.compile(r"projects/(?P<project>[^/]+)/global/images/(?:family/)?(?P<name>.*)-nvidia-(?P<branch>\d{3})\b")
# Deep Learning VM images with torch: pytorch-2-9-cu129-ubuntu-2204-nvidia-580.
_TORCH = re.compile(r"pytorch-(\d+)-(\d+)-(cu\d+)")

_WORDS = {"driver_branch": "driver branch {}", "torch": "torch {}", "driver_source": "the driver from {}"}


class Fault(NamedTuple):
    """Why a machine cannot use an image, and the nearest one that it could."""

    text: str
    instead: str


def faults(image: str, machine: Machine) -> Iterator[Fault]:
    """What the driver or the torch of a public image cannot do with this machine's GPU; any other image is believed."""
    choices = told_by(image)
    if not choices:
        return
    answer = solver.check(machine, **choices)
    if isinstance(answer, solver.Works):
        return
    newer = _other_driver(machine, choices)
    for problem in answer.problems:
        if problem.choice in _WORDS:
            fix = [_WORDS[key].format(value) for key, value in (problem.fix or {}).items() if key in _WORDS]
            yield Fault(problem.text, newer or (f"an image of your own with {' and '.join(fix)}" if fix else ""))


def _other_driver(machine: Machine, choices: dict[str, Any]) -> str:
    """The publisher's own image with another driver, where that is enough."""
    branches = source_of(choices["driver_source"]).branches if "driver_source" in choices else None
    for branch in sorted(branches or (), reverse=True):
        if isinstance(solver.check(machine, **choices | {"driver_branch": branch}), solver.Works):
            return f"the publisher's image with driver {branch}"
    return ""


def told_by(image: str) -> dict[str, Any]:
    """The solver's choices that an image's name makes; none for an image that nothing is known of."""
    found = _DRIVER.search(image)
    if not found or found["project"] not in _PUBLISHERS:
        return {}
    choices: dict[str, Any] = {"driver_branch": int(found["branch"]), "torch": versions.TORCH}
    if source := _PUBLISHERS[found["project"]]:
        choices["driver_source"] = source
    if torch := _TORCH.match(found["name"]):
        choices["torch"] = f"{torch[1]}.{torch[2]}+{torch[3]}"
    return choices
