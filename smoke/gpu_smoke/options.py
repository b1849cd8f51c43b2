"""The options of `gpu-smoke run`, and every error in them."""

from __future__ import annotations

import argparse
import ipaddress
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from . import __version__, plan
from .output import UsageError, details, usage_error

USAGE = 64  # EX_USAGE of sysexits.h
DEVICES = ("cuda", "cpu")
VARIABLE = "GPU_SMOKE_DEVICE"
# How long a pod stays after its pass, so that its peers can see it (peers.py). Cluster DNS caches for 30 s that a name
# does not exist (kubernetes/kubernetes@008b365: cluster/addons/dns/coredns/coredns.yaml.base). The other 30 s are a
# reserve.
LINGER_SEC = 60.0
# Words that do not identify a model, because every GPU may have them in its name.
BRANDS = frozenset({"nvidia", "tesla", "gpu"})

_EPILOG = """\
commands (gpu-smoke COMMAND --help):
  run          check the GPUs of this machine (default)
  diagnose     find out why a GPU cannot be used, and what to run next
  prove-nodes  in a Kubernetes cluster: check each node of a pool before it may take jobs

exit codes:
  0   pass: every expected GPU computed correctly
  1   a GPU computed wrong results, or failed while it computed
  2   the environment: no driver, a wrong torch, a wrong number or model of GPUs
  3   too slow (profiles standard and burn), slowed down, or a warning with --strict
  4   did not end in time: a GPU or its driver hangs, a peer never started, or the run was stopped
  64  wrong usage

examples:
  gpu-smoke                                       one GPU of any model
  gpu-smoke --expect-gpus 4 --expect-gpu "NVIDIA L4" --min-compute-capability 8.9
  gpu-smoke --profile standard                    speeds too
  gpu-smoke --json receipt.json                   keep the receipt (schema smoke/1)
  gpu-smoke --no-gpu-in /dev                      in a container without a GPU request: pass if it has none
  gpu-smoke --device cpu --json - | jq .summary   without a GPU: tests the check, not a GPU
  gpu-smoke --peers check-0.l4,check-1.l4         one of two machines: pass after both ran at the same time
"""


@dataclass(frozen=True)
class Options:
    """A valid command line."""

    device: str
    expect_gpus: int = 1
    expect_gpu: str = ""
    min_compute_capability: str = ""
    profile: str = "quick"
    burn_sec: float = plan.BURN_SEC
    deadline_sec: float | None = None
    strict: bool = False
    json: str = ""
    termination_log: str = ""
    pool: str = ""
    node: str = ""
    no_gpu_in: str = ""
    closed_to: tuple[str, int] | None = None
    """The IP address and port that must accept no connections."""
    peers: tuple[str, ...] = ()
    peers_sec: float = 900.0
    linger_sec: float = LINGER_SEC

    @property
    def chosen_profile(self) -> plan.Profile:
        """The profile that was chosen."""
        return plan.PROFILES[self.profile]

    def budget_sec(self, gpus: int) -> float:
        """Return the deadline in seconds: from the start if the command line sets it, else from the import of torch."""
        if self.deadline_sec is not None:
            return self.deadline_sec
        burn = self.burn_sec if self.profile == "burn" else 0.0
        return self.chosen_profile.deadline_sec + burn + self.chosen_profile.gpu_sec * (max(gpus, 1) - 1)

    @property
    def on_cpu(self) -> bool:
        """True if the run is on the CPU, so it tests the check itself and no GPU."""
        return self.device == "cpu"


def name_tokens(name: str) -> frozenset[str]:
    """Return the words of a name that identify a GPU model. `Tesla T4` and `nvidia-tesla-t4` both have only t4."""
    return frozenset(re.findall(r"[a-z0-9]+", name.lower())) - BRANDS


def capability(text: str) -> tuple[int, int]:
    """Return a compute capability as numbers, so that 10.0 is above 8.9."""
    major, minor = text.split(".")
    return int(major), int(minor)


def parse(argv: Sequence[str], environment: Mapping[str, str] = os.environ) -> Options:
    """Read the command line, or raise UsageError."""
    given = vars(_parser().parse_args(list(argv)))
    others = sorted(given.keys() - {"no_gpu_in", "closed_to", "pool", "termination_log"})
    if "no_gpu_in" in given and others:
        flags = " ".join(f"--{name.replace('_', '-')}" for name in others)
        raise usage_error("--no-gpu-in", "runs no kernels", flags, "--closed-to, --pool and --termination-log at most")
    if "closed_to" in given and "no_gpu_in" not in given:
        raise usage_error("--closed-to", "requires --no-gpu-in", "a check of GPUs", "--no-gpu-in as well")
    device = given.setdefault("device", environment.get(VARIABLE) or DEVICES[0])
    if device not in DEVICES:
        raise usage_error(VARIABLE, "unknown device", device, " or ".join(DEVICES))
    profile = given.get("profile", "quick")
    if "burn_sec" in given and profile != "burn":
        raise usage_error(
            "--burn-sec", f"the profile {profile} has no burn", f"{given['burn_sec']:g}", "--profile burn"
        )
    for name in ("peers_sec", "linger_sec"):
        if name in given and "peers" not in given:
            option = f"--{name.replace('_', '-')}"
            raise usage_error(option, "requires --peers", f"{given[name]:g}", "--peers as well")
    message = Path(given.get("termination_log", "")).absolute()
    same = "termination_log" in given and given.get("json", "-") != "-" and message == Path(given["json"]).absolute()
    if same and (message.is_file() or not message.exists()):  # /dev/stderr and other devices can take both
        raise usage_error("--termination-log", "the same file as --json", given["json"], "a separate file")
    return Options(**given)


class Parser(argparse.ArgumentParser):
    """A parser that raises UsageError, keeps the line breaks of its texts, and omits options that are not given."""

    def __init__(self, **flags: Any) -> None:
        form: dict[str, Any] = {
            "formatter_class": argparse.RawDescriptionHelpFormatter,
            "argument_default": argparse.SUPPRESS,
            "allow_abbrev": False,
        }
        super().__init__(**form | flags)

    def error(self, message: str) -> NoReturn:
        """Raise an error. argparse would exit with code 2, which means a broken environment here."""
        raise UsageError(f"{self.prog}: {message.removeprefix('argument ')}\n  hint: {self.prog} --help")


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="gpu-smoke",
        usage="gpu-smoke [COMMAND] [options]",
        description="Run kernels on every GPU of this machine and compare their results with the CPU's.",
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add(
        "--device", choices=DEVICES, metavar="|".join(DEVICES), help=f"where to compute (default: ${VARIABLE}, or cuda)"
    )
    add("--expect-gpus", metavar="N", type=_count, help="the expected number of GPUs (default: 1)")
    add("--expect-gpu", metavar="NAME", type=_gpu, help='the expected model, such as "NVIDIA L4" or t4 (default: any)')
    lowest = "the lowest accepted compute capability, such as 8.9"
    add("--min-compute-capability", metavar="X.Y", type=_capability, help=lowest)
    profiles = "; ".join(f"{name}: {each.text}" for name, each in plan.PROFILES.items())
    about = f"the set of checks (default: quick). {profiles}"
    add("--profile", choices=[*plan.PROFILES], metavar="NAME", help=about)
    add("--burn-sec", metavar="SEC", type=seconds, help=f"how long to burn (default: {plan.BURN_SEC:g})")
    deadlines = ", ".join(
        f"{name} {each.deadline_sec:g} + {each.gpu_sec:g} for each further GPU" for name, each in plan.PROFILES.items()
    )
    stop = f"when to stop, counted from the start (default, counted from torch's import: {deadlines}; plus the burn)"
    add("--deadline-sec", metavar="SEC", type=seconds, help=stop)
    add("--strict", action="store_true", help="turn warnings into failures")
    add("--json", metavar="PATH|-", type=_path, help="write the receipt here; - is standard output")
    add("--termination-log", metavar="PATH", type=_path, help="write the message here, at most 4000 bytes")
    add("--pool", metavar="NAME", type=_name, help="the name of the pool, at the start of the summary")
    add("--node", metavar="NAME", type=_name, help="the name of the machine, after the pool")
    add("--peers", metavar="HOST,...", type=_peers, help="host names of all machines checked at once, with this one")
    add("--peers-sec", metavar="SEC", type=seconds, help="how long to wait for all peers (default: 900)")
    add("--linger-sec", metavar="SEC", type=seconds, help="how long to stay for the other peers (default: 60)")
    add("--no-gpu-in", metavar="DIR", type=_path, help="run no kernels: pass if this folder of devices has no GPU")
    closed = "with --no-gpu-in: pass if this address accepts no connections"
    add("--closed-to", metavar="IP:PORT", type=_address, help=closed)
    add("--version", action="version", version=f"gpu-smoke {__version__}")
    return parser


def _wrong(problem: str, got: str, expected: str) -> argparse.ArgumentTypeError:
    return argparse.ArgumentTypeError(f"{problem}\n{details(got, expected)}")


def _count(text: str) -> int:
    # With 0 a machine without any GPU would pass.
    if not re.fullmatch(r"[0-9]{1,3}", text) or int(text) < 1:
        raise _wrong("not a number of GPUs", text, "a whole number from 1 to 999")
    return int(text)


def _gpu(text: str) -> str:
    if not name_tokens(text):
        raise _wrong("any GPU would match", text, 'a model, such as "NVIDIA L4" or t4')
    return text.strip()


def _capability(text: str) -> str:
    if not re.fullmatch(r"[0-9]{1,2}\.[0-9]", text):
        raise _wrong("not a compute capability", text, "two numbers, such as 8.9")
    return text


def seconds(text: str) -> float:
    """Return a time to wait in seconds, as the type of an option."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 < found <= 86_400:  # also false for NaN
        raise _wrong("not a deadline", text, "seconds above 0, at most 86400 (a day)")
    return found


def _path(text: str) -> str:
    if not text:
        raise _wrong("not a path", text, "the path of a file")
    return text


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    try:
        # A host name that does not resolve would pass as a closed address.
        return str(ipaddress.ip_address(host.strip("[]"))), int(port)
    except ValueError:
        raise _wrong("not an address with a port", text, "such as 10.100.0.1:443") from None


def _name(text: str) -> str:
    if not text.isprintable() or len(text) > 100:
        raise _wrong("not a name", text, "at most 100 printable characters")
    return text.strip()


def _peers(text: str) -> tuple[str, ...]:
    # A single machine needs no peers, and a machine named twice would count as two. A peer counts as started when its
    # name resolves. Addresses are refused, because an address always resolves.
    names = tuple(text.split(","))
    different = {name.lower().removesuffix(".") for name in names}
    if len(names) < 2 or len(different) < len(names) or not all(map(_is_host, names)):
        raise _wrong("not the names of several machines", text, "host names, each once, such as check-0.l4,check-1.l4")
    return names


def _is_host(name: str) -> bool:
    # By RFC 3696 (2) the last label of a name is not all digits. A resolver also takes 0x7f as an address.
    last = name.removesuffix(".").rpartition(".")[2]
    return bool(re.fullmatch(r"[A-Za-z0-9.-]{1,253}", name) and not re.fullmatch(r"[0-9]*|0[xX][0-9a-fA-F]*", last))
