"""What the command line asks for, and every way in which it can be wrong."""

from __future__ import annotations

import argparse
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from . import __version__

USAGE = 64  # EX_USAGE of sysexits.h
DEVICES = ("cuda", "cpu")
VARIABLE = "GPU_SMOKE_DEVICE"
# Every GPU may carry one of these words, so alone they expect nothing.
BRANDS = frozenset({"nvidia", "tesla", "gpu"})

_EPILOG = """\
exit codes:
  0   pass: every GPU that was expected computed right
  1   a GPU computes wrong, or died while it computed
  2   the environment: no driver, the wrong torch, another number or kind of GPUs
  3   too slow (no check measures speed yet)
  4   did not end in time: a GPU or its driver hangs, or the run was stopped from outside
  64  wrong usage

examples:
  gpu-smoke                                       one GPU, whichever it is
  gpu-smoke --expect-gpus 4 --expect-gpu "NVIDIA L4" --min-compute-capability 8.9
  gpu-smoke --json receipt.json                   keep the receipt (schema smoke/1)
  gpu-smoke --device cpu --json - | jq .summary   the same code without a GPU: proves the check, not a GPU
"""


class UsageError(Exception):
    """The command cannot be run as it was given; the text is for the person who typed it."""


@dataclass(frozen=True)
class Options:
    """A command line that can be run."""

    device: str
    expect_gpus: int = 1
    expect_gpu: str = ""
    min_compute_capability: str = ""
    deadline_sec: float = 120.0
    json: str = ""
    pool: str = ""
    termination_log: str = ""

    @property
    def on_cpu(self) -> bool:
        """Whether this run proves the check and not a GPU."""
        return self.device == "cpu"


def words(name: str) -> frozenset[str]:
    """What tells one GPU's name from another's, so that an L40S is no L4, and a Tesla T4 is an `nvidia-tesla-t4`."""
    return frozenset(re.findall(r"[a-z0-9]+", name.lower())) - BRANDS


def capability(text: str) -> tuple[int, int]:
    """A compute capability as numbers: 10.0 is above 8.9."""
    major, minor = text.split(".")
    return int(major), int(minor)


def parse(argv: Sequence[str], environment: Mapping[str, str] = os.environ) -> Options:
    """Read the command line, or raise UsageError."""
    given = vars(_parser().parse_args(list(argv)))
    subject = "--device" if "device" in given else VARIABLE
    device = given.setdefault("device", environment.get(VARIABLE) or DEVICES[0])
    if device not in DEVICES:
        raise usage_error(subject, "unknown device", device, " or ".join(DEVICES))
    return Options(**given)


def usage_error(subject: str, problem: str, got: str, expected: str) -> UsageError:
    """The form that every error of this project has."""
    return UsageError(f"gpu-smoke: {subject}: {problem}\n{_details(got, expected)}\n  hint: gpu-smoke --help")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise instead of leaving with argparse's 2, which here means a broken environment."""
        raise UsageError(f"gpu-smoke: {message.removeprefix('argument ')}\n  hint: gpu-smoke --help")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="gpu-smoke",
        description="Runs kernels on every GPU of this machine, compares them with a CPU: may it take jobs?",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--device", metavar="cuda|cpu", help=f"where to compute (default: ${VARIABLE}, else cuda)")
    add("--expect-gpus", metavar="N", type=_count, help="how many GPUs (default: 1)")
    add("--expect-gpu", metavar="NAME", type=_gpu, help='which GPU, such as "NVIDIA L4" or t4 (default: any)')
    add("--min-compute-capability", metavar="X.Y", type=_capability, help="the least that will do, such as 8.9")
    add("--deadline-sec", metavar="SEC", type=_seconds, help="when to stop waiting for an answer (default: 120)")
    add("--json", metavar="PATH|-", type=_path, help="write the receipt here; - is standard output")
    add("--pool", metavar="NAME", type=_pool, help="whose machine this is; begins the summary")
    add("--termination-log", metavar="PATH", type=_path, help="write the message here, at most 4000 bytes")
    add("--version", action="version", version=f"gpu-smoke {__version__}")
    return parser


def _details(got: str, expected: str) -> str:
    return f"  got: {got!r}\n  expected: {expected}"


def _wrong(problem: str, got: str, expected: str) -> argparse.ArgumentTypeError:
    return argparse.ArgumentTypeError(f"{problem}\n{_details(got, expected)}")


def _count(text: str) -> int:
    # Expecting no GPU would let a machine without any pass.
    if not re.fullmatch(r"[0-9]{1,3}", text) or int(text) < 1:
        raise _wrong("not a number of GPUs", text, "a whole number from 1 to 999")
    return int(text)


def _gpu(text: str) -> str:
    if not words(text):
        raise _wrong("any GPU would match", text, 'a model, such as "NVIDIA L4" or t4')
    return text.strip()


def _capability(text: str) -> str:
    if not re.fullmatch(r"[0-9]{1,2}\.[0-9]", text):
        raise _wrong("not a compute capability", text, "two numbers, such as 8.9")
    return text


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= 86_400:  # false for NaN as well
        raise _wrong("not a deadline", text, "seconds above 0, at most 86400 (a day)")
    return seconds


def _path(text: str) -> str:
    if not text:
        raise _wrong("not a path", text, "the path of a file")
    return text


def _pool(text: str) -> str:
    if not text.isprintable() or len(text) > 100:
        raise _wrong("not a name", text, "at most 100 printable characters")
    return text.strip()
