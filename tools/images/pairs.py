"""The pairs of torch and CUDA that work in the images, from the tables of gpu_smoke.compat and the catalog's machines.

docs/guides/container-images.md lists them for users.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from gpu_catalog import machines
from gpu_catalog.models import Architecture
from gpu_smoke.compat import data, rules
from gpu_smoke.compat.rules import parse_wheel
from gpu_smoke.data.gpus import GPUS

PYTHONS = ((3, 12), (3, 13))
"""The Pythons of the default bases: Ubuntu 24.04 (actions-runner) and python:3.13-slim-trixie."""
PLATFORMS: dict[str, Architecture] = {"linux/amd64": "x86_64", "linux/arm64": "arm64"}
# No machine type of Google or AWS has it, but other clouds sell it.
_OTHER_GPUS = {"arm64": ("gh200-480gb",)}


class Pair(NamedTuple):
    """A pair with a wheel for the platform and for each Python, and the GPUs that the wheel has kernels for."""

    platform: str
    torch: str
    cuda: str
    gpus: tuple[str, ...]

    @property
    def build_args(self) -> dict[str, str]:
        return {"TORCH": self.torch, "CUDA": self.cuda}


@cache
def pairs() -> tuple[Pair, ...]:
    """Return every pair that works, the newest torch and CUDA first."""
    found = []
    for platform, machine in PLATFORMS.items():
        releases = sorted(data.RELEASES[machine], key=lambda name: [int(part) for part in name.split(".")])
        for release in releases[::-1]:
            torch = f"{release}.{data.PATCHES.get(release, 0)}"
            builds = sorted(data.RELEASES[machine][release].builds, reverse=True)
            found += [Pair(platform, torch, cuda, _gpus(machine, torch, cuda)) for cuda in builds]
    return tuple(pair for pair in found if pair.gpus)


def _gpus(machine: Architecture, torch: str, cuda: str) -> tuple[str, ...]:
    wheel = str(parse_wheel(f"{torch}+{cuda}", machine))
    return tuple(
        name
        for name, capability in sorted(_capabilities(machine).items())
        if not any(rules.check(capability, torch=wheel, machine=machine, python=each).problems for each in PYTHONS)
    )


@cache
def _capabilities(machine: Architecture) -> dict[str, str]:
    """Return the compute capability of every GPU that is sold with this processor, by the GPU's name."""
    sold = {each.gpu.device_name: each.gpu.compute_capability for each in machines(architecture=machine)
            if each.gpu.is_nvidia}  # fmt: skip
    others = [GPUS[key] for key in _OTHER_GPUS.get(machine, ())]
    return sold | {gpu.names[0]: gpu.capability for gpu in others}
