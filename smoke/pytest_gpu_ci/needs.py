"""The requirements of a test: the arguments of its markers, parsed and compared with the machine."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pytest_gpu_ci.machine import Gpu, Machine, capability_text

# GPUs report less memory than their nominal size, because ECC and the driver use some. A T4 of 16 GB reports 14.56 GiB,
# which is 91 % (github.com/Zheng-Chong/CatVTON/issues/133). An L40S of 48 GB reports 44.53, which is 93 %
# (github.com/Wan-Video/Wan2.1/issues/205). So a test that requires 16 runs on a T4.
SHOWN_OF_NOMINAL = 0.9


@dataclass(frozen=True)
class Needs:
    """The requirements of a test.

    The fields are the arguments of the markers. Each of the first `count` GPUs must fulfil the other requirements.
    """

    count: int = 1
    memory_gib: float = 0.0
    compute_capability: tuple[int, int] = (0, 0)
    model: tuple[str, ...] = ()
    leak_mib: float | None = None
    peak_gib: float = math.inf

    def as_text(self) -> str:
        phrases = ["1 GPU" if self.count == 1 else f"{self.count} GPUs"]
        if self.memory_gib:
            phrases.append(f"{self.memory_gib:g} GiB")
        if self.compute_capability != (0, 0):
            phrases.append(f"compute capability {capability_text(self.compute_capability)} or more")
        if self.model:
            phrases.append("model " + " or ".join(self.model))
        return ", ".join(phrases)

    def met_by(self, gpu: Gpu) -> bool:
        return (
            gpu.memory_gib >= SHOWN_OF_NOMINAL * self.memory_gib
            and gpu.compute_capability >= self.compute_capability
            and (not self.model or any(is_model(gpu.name, model) for model in self.model))
        )

    def unmet(self, machine: Machine) -> str | None:
        """Return the reason why the machine cannot run the test, or None."""
        given = machine.gpus[: self.count]
        if len(given) == self.count and all(map(self.met_by, given)):
            return None
        return f"needs {self.as_text()}; here: {machine.as_text()}"


def is_model(name: str, model: str) -> bool:
    """Compare whole words, so that an L40S is no L4."""
    return re.search(rf"(?<!\w){re.escape(model)}(?!\w)", name, re.IGNORECASE) is not None


def positive_count(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise ValueError


def amount(value: Any) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf:
        return float(value)
    raise ValueError


def limit(value: Any) -> float:
    return math.inf if value == "any" else amount(value)


def peak(value: Any) -> float:
    """Parse a peak. No GPU test has a peak of 0, so 0 is an error."""
    highest = limit(value)
    if highest > 0:
        return highest
    raise ValueError


def capability(value: Any) -> tuple[int, int]:
    text = ".".join(map(str, value)) if isinstance(value, tuple) else str(value)
    if re.fullmatch(r"\d+\.\d", text):
        major, minor = text.split(".")
        return int(major), int(minor)
    raise ValueError


def models(value: Any) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else value
    if isinstance(names, (tuple, list)) and names and all(isinstance(name, str) and name.strip() for name in names):
        return tuple(names)
    raise ValueError


# Each argument with its parser, the text of what is expected, and its meaning. A test compares the table of
# docs/guides/gpu-tests.md with it.
ARGUMENTS: Mapping[str, tuple[Callable[[Any], Any], str, str]] = {
    "count": (positive_count, "a number of GPUs, 1 or more", "how many GPUs the test uses"),
    "memory_gib": (amount, "GiB, such as 16", "nominal memory of each GPU; 90 % of it is enough"),
    "compute_capability": (capability, 'a version, such as "8.9"', "lowest compute capability of each GPU"),
    "model": (models, 'a name or several, such as "L4"', "model names; the name of each GPU must contain one"),
    "leak_mib": (limit, 'MiB, such as 64, or "any"', "memory the test may leave allocated"),
    "peak_gib": (peak, 'GiB above 0, such as 4, or "any"', "highest memory that the test may allocate"),
}


def read(markers: Iterable[Any]) -> tuple[Needs, list[tuple[str, str, str]]]:
    """Read all markers of a test; the closest has precedence.

    Also returns problem, got and expected of every mistake.
    """
    values: dict[str, Any] = {}
    problems = []
    for marker in markers:
        given = {**({"count": 2} if marker.name == "multi_gpu" else {}), **marker.kwargs}
        if marker.args:
            problems.append((f"{marker.name}: takes keywords only", repr(marker.args), f"{', '.join(ARGUMENTS)}"))
        for name, value in given.items():
            if name not in ARGUMENTS:
                problems.append((f"{marker.name}: {name}: no such argument", repr(value), ", ".join(ARGUMENTS)))
                continue
            parse, expected, _ = ARGUMENTS[name]
            try:
                values.setdefault(name, parse(value))
            except ValueError:
                problems.append((f"{marker.name}: {name}: invalid value", repr(value), expected))
    return replace(Needs(), **values), problems
