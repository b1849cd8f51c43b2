"""The command line of `gpu-smoke check`, and every error in it. compat/rules.py defines branch and card."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..compat import rules, wheels
from ..compat.data import CARDS, OPEN, PROPRIETARY, RELEASES, Card
from ..data.gpus import GPUS
from ..errors import UsageError, usage_error
from ..judge.subject import whole_gpu
from ..options import Parser, name_tokens

COMMAND = "gpu-smoke check"
_MACHINES = {"x86_64": "x86_64", "amd64": "x86_64", "arm64": "arm64", "aarch64": "arm64"}
_EPILOG = """\
exit codes:
  0   the combination works, or no source says that it does not
  2   the combination does not work
  64  wrong usage, or the answer cannot be written

examples:
  gpu-smoke check --gpu v100 --driver 580 --torch 2.15.0+cu132
  gpu-smoke check --gpu l4                        choose a driver and a torch, and list every known wheel
  gpu-smoke check --compute-capability 8.9 --torch 2.9.1 --json | jq .works
"""


@dataclass(frozen=True)
class Question:
    """The values to check together. An empty driver or torch is chosen. Any other empty value is not checked."""

    capability: str
    gpu: str = ""
    driver: str = ""
    torch: str = ""
    module: str = ""
    machine: str = "x86_64"
    python: tuple[int, int] | None = None
    json: str = ""  # a path, or - for standard output; empty if not requested

    @property
    def card(self) -> Card | None:
        """The facts about the GPU model; None if the name matches models whose facts differ."""
        found = {CARDS.get(key) for key in _keys(self.gpu)}
        return found.pop() if len(found) == 1 else None


def parse(argv: Sequence[str]) -> Question:
    """Read the command line, or raise UsageError with every error in it."""
    given = vars(_parser().parse_args(list(argv)))
    errors: list[str] = []

    def refuse(option: str, problem: str, got: str, expected: str) -> None:
        errors.append(str(usage_error(f"--{option.replace('_', '-')}", problem, got, expected, COMMAND)))

    found: dict[str, Any] = {}
    for name, (read, expected) in _READERS.items():
        if name in given:
            try:
                found[name] = read(given[name])
            except ValueError as error:
                refuse(name, str(error), given[name], expected)
    if "gpu" in given and "compute_capability" in given:
        got = f"{given['gpu']}, {given['compute_capability']}"
        refuse("gpu", "is given twice", got, "--gpu or --compute-capability, not both")
    elif "gpu" not in given and "compute_capability" not in given:
        refuse("gpu", "is missing", "", "a name, or --compute-capability")
    if errors:
        raise UsageError("\n".join(errors))
    capability = found.pop("compute_capability", "") or capability_of(found["gpu"])
    return Question(capability, **found, json=given.get("json", ""))


def capability_of(gpu: str) -> str:
    """Return the compute capability of a GPU by any of its names.

    Raises ValueError unless exactly one capability matches.
    """
    found = {GPUS[key].capability for key in _keys(gpu)}
    if len(found) > 1:
        raise ValueError("matches several GPUs")
    if not found:
        near = difflib.get_close_matches(gpu.lower(), _names(), 1)
        raise ValueError("is not in the table of GPUs" + (f": did you mean {near[0]}?" if near else ""))
    return found.pop()


def _keys(gpu: str) -> list[str]:
    """Return the keys of the GPUs whose name has every word of the given name. A MIG slice has the key of its GPU."""
    words = name_tokens(whole_gpu(gpu))
    return [key for key, row in GPUS.items() if words and any(words <= name_tokens(name) for name in (key, *row.names))]


def _names() -> list[str]:
    """Return the short name of each GPU, once: v100 for v100-sxm2-16gb and the other V100 models."""
    return list(dict.fromkeys(key if key.startswith("rtx") else key.partition("-")[0] for key in GPUS))


def _checked_by(parse: Callable[[str], object]) -> Callable[[str], str]:
    """Return a reader that parses a text to check it, and returns the text unchanged."""

    def read(text: str) -> str:
        parse(text)
        return text

    return read


def _one_of(names: dict[str, str], problem: str) -> Callable[[str], str]:
    """Return a reader that returns the value of a known name."""

    def read(text: str) -> str:
        if text not in names:
            raise ValueError(problem)
        return names[text]

    return read


def _python(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)\.(\d+)(?:\.\d+)?", text)
    if not found:
        raise ValueError("not a version of Python")
    return int(found[1]), int(found[2])


# The reader of each option, and the text of what it expects.
_READERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "gpu": (_checked_by(capability_of), f"{', '.join(_names())}; any other by --compute-capability"),
    "compute_capability": (_checked_by(rules.parse_capability), "two numbers, such as 8.9"),
    "driver": (_checked_by(rules.branch_of), "a branch or a version, such as 580 or 580.159.03"),
    "torch": (_checked_by(wheels.parse_wheel), "such as 2.9.1 or 2.9.1+cu128"),
    "module": (_one_of({OPEN: OPEN, PROPRIETARY: PROPRIETARY}, "not a kernel module"), f"{OPEN} or {PROPRIETARY}"),
    "machine": (_one_of(_MACHINES, "torch has no wheels for this processor"), " or ".join(RELEASES)),
    "python": (_python, "such as 3.12"),
}


def _parser() -> Parser:
    parser = Parser(
        prog=COMMAND,
        description="Check if a GPU, a driver and a torch work together, and name combinations that do. "
        "The check needs none of them.",
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add(
        "--gpu",
        metavar="NAME",
        help=f"one of {', '.join(_names())}; CUDA's name of a GPU or a MIG slice also works",
    )
    add("--compute-capability", metavar="X.Y", help="for a GPU that --gpu does not have, such as 8.9")
    add("--driver", metavar="VERSION", help="branch or version, such as 580 (default: chosen)")
    add("--torch", metavar="VERSION", help="such as 2.15.0+cu132; 2.15.0 is PyPI's build (default: chosen)")
    add("--module", metavar="NAME", help=f"the kernel module: {OPEN} or {PROPRIETARY} (default: not checked)")
    add("--python", metavar="X.Y", help="such as 3.12 (default: not checked)")
    add("--machine", metavar="NAME", help=f"processor architecture: {' or '.join(RELEASES)} (default: x86_64)")
    add(
        "--json",
        metavar="PATH|-",
        nargs="?",
        const="-",
        help="write the answer as JSON to this file; without PATH, or with -, to standard output",
    )
    return parser
