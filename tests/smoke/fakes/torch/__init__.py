"""A fake of torch: real arithmetic on small matrices, described GPUs, and faults that a test chooses.

The variable FAKE_TORCH has a JSON object with these fields:

- `cuda`: the CUDA version; null for a wheel for the CPU
- `gpus`: the GPUs
- `arch`: the list of get_arch_list()
- `refusal` and `warning`: the error and the warning of CUDA's start
- `import` and `end`: what happens on import, and at the end of the process
- `cudnn`: the error of the version of cuDNN
- `speeds`, `delays` and `lasts`: the speeds of GPUs, and the time that they really take (cuda.py)
- `seen`: files to which processes add themselves (see `note`)
- `faults`: each has a `kind`, and may have `gpu`, `dtype` and other fields of the kind. A fault of products changes a
  matrix product. The code asks for other faults by name.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import random
import signal
import struct
import sys
import threading
import time
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import fake_clock

SETTINGS: dict[str, Any] = json.loads(os.environ.get("FAKE_TORCH", "{}"))
SIDE = 16  # of every matrix, whatever size is asked for


class dtype(NamedTuple):  # noqa: N801
    name: str
    size: int


float16, float32, float64, bfloat16 = (
    dtype("float16", 2),
    dtype("float32", 4),
    dtype("float64", 8),
    dtype("bfloat16", 2),
)
int16, int32, uint8 = dtype("int16", 2), dtype("int32", 4), dtype("uint8", 1)
# Faults of a product; what else strikes asks by its name.
OF_PRODUCTS = ("element", "everywhere", "value", "drift", "raise", "hang", "chatter", "exit", "say done")


def _bits(value: float, kind: dtype) -> int:
    """Return the bits of a number, rounded to its format."""
    if kind is float16:
        return int.from_bytes(struct.pack("<e", value), "little")
    single = int.from_bytes(struct.pack("<f", value), "little")
    if kind is bfloat16:
        return (single + 0x8000) >> 16 if math.isfinite(value) else single >> 16
    return single


def _number(bits: int, kind: dtype) -> float:
    if kind is float16:
        return float(struct.unpack("<e", bits.to_bytes(2, "little"))[0])
    return float(struct.unpack("<f", (bits << 16 if kind is bfloat16 else bits).to_bytes(4, "little"))[0])


@dataclass(frozen=True)
class device:  # noqa: N801
    type: str
    index: int | None = None


CPU = device("cpu")


class Tensor:
    products = 0  # on the device under test, in this process

    def __init__(
        self, values: list[float], kind: dtype = float32, where: device = CPU, n: int = SIDE, k: int = SIDE
    ) -> None:
        self.values, self.dtype, self.device, self.n, self.k = values, kind, where, n, k
        self.last: tuple[Any, list[float]] = None, []

    def to(self, target: Any) -> Tensor:
        if isinstance(target, device):
            if {target.type, self.device.type} == {"cuda", "cpu"}:
                cuda.spend("pageable", self.n * self.k * self.dtype.size / 1e9)
            return Tensor(self.values, self.dtype, target, self.n, self.k)
        values = self.values if target is float64 else [_number(_bits(v, target), target) for v in self.values]
        return Tensor(values, target, self.device, self.n, self.k)

    def double(self) -> Tensor:
        return self.to(float64)

    def cpu(self) -> Tensor:
        return self.to(CPU)

    def __matmul__(self, other: Any) -> Any:
        if not isinstance(other, Tensor):  # what learns
            return other
        values = self._times(other)
        if self.device.type == "cuda":
            cuda.linger("product")
        cuda.spend("cpu" if self.device.type == "cpu" else "gemm", 2 * self.n * self.k * other.k / 1e12, n=self.n)
        if self.dtype is float64:
            return Tensor(values, float64, self.device, self.n, other.k)
        return Tensor(_faulty(values, self), float64, self.device, self.n, other.k).to(self.dtype)

    def _times(self, other: Tensor) -> list[float]:
        """Return the exact product. Results are kept, because the same product is needed many times."""
        if self.last[0] is not other:
            side = range(SIDE)
            rows = [self.values[SIDE * i : SIDE * (i + 1)] for i in side]
            columns = [other.values[i::SIDE] for i in side]
            product = [math.fsum(map(float.__mul__, row, column)) for row in rows for column in columns]
            self.last = other, product
        return self.last[1]

    def __mul__(self, factor: float) -> Tensor:
        return Tensor([value * factor for value in self.values], self.dtype, self.device, self.n, self.k)

    def relu(self) -> Tensor:
        return Tensor([max(value, 0.0) for value in self.values], self.dtype, self.device, self.n, self.k)

    def requires_grad_(self) -> Any:
        return learning.Learner()

    def sub_(self, other: Tensor) -> Tensor:
        self.values = [a - b for a, b in zip(self.values, other.values, strict=True)]
        return self

    def __sub__(self, other: Tensor) -> Tensor:
        return Tensor([a - b for a, b in zip(self.values, other.values, strict=True)], float64)

    def __truediv__(self, other: Any) -> Tensor:
        return Tensor([self.item() / (other.item() if isinstance(other, Tensor) else other)], float64)

    def norm(self) -> Tensor:
        return Tensor([math.sqrt(math.fsum(v * v for v in self.values))], float64)

    def abs(self) -> Tensor:
        return Tensor([abs(v) for v in self.values], float64)

    def abs_(self) -> Tensor:
        self.values = [abs(v) for v in self.values]
        return self

    def max(self) -> Tensor:
        return Tensor([math.nan if any(map(math.isnan, self.values)) else max(self.values)], float64)

    def pow(self, power: int) -> Tensor:
        return Tensor([v**power for v in self.values], float64)

    def mean(self) -> Tensor:
        return Tensor([math.fsum(self.values) / len(self.values)], float64)

    def sqrt(self) -> Tensor:
        return Tensor([math.sqrt(v) for v in self.values], float64)

    def isfinite(self) -> Tensor:
        return Tensor([float(math.isfinite(v)) for v in self.values])

    def all(self) -> bool:
        return all(self.values)

    def __ne__(self, other: Any) -> Tensor:  # type: ignore[override]
        return Tensor([float(one != two) for one, two in zip(self.values, other.values, strict=True)], self.dtype)

    def any(self) -> int:
        return int(any(self.values))

    def item(self) -> float:
        [value] = self.values
        return value

    def view(self, kind: dtype) -> Tensor:
        assert kind.size == self.dtype.size
        if kind is self.dtype:
            return self
        return Tensor([_bits(v, self.dtype) for v in self.values], kind)

    def element_size(self) -> int:
        return self.dtype.size

    def numel(self) -> int:
        return len(self.values)

    def data_ptr(self) -> int:
        data = b"".join(_bits(v, self.dtype).to_bytes(self.dtype.size, "little") for v in self.values)
        self.buffer = ctypes.create_string_buffer(data)
        return ctypes.addressof(self.buffer)


def _faulty(values: list[float], tensor: Tensor) -> list[float]:
    """Return the product as a broken device computes it."""
    Tensor.products += 1
    rms = math.sqrt(math.fsum(v * v for v in values) / len(values))
    for fault in SETTINGS.get("faults", []):
        if fault.get("gpu", tensor.device.index) != tensor.device.index:
            continue
        if fault.get("dtype", tensor.dtype.name) != tensor.dtype.name:
            continue
        kind = fault["kind"]
        if "what" in fault or (kind not in OF_PRODUCTS and not kind.startswith("SIG")):
            continue
        if kind == "element":  # one element off, by so many root mean squares
            values = [values[0] + fault["by"] * rms, *values[1:]]
        elif kind == "everywhere":
            values = [v + fault["by"] * rms for v in values]
        elif kind == "value":
            values = [float(fault["value"]), *values[1:]]
        elif kind == "drift" and Tensor.products % fault["every"] == 0:  # the last bit of one element, now and then
            values = [_number(_bits(values[0], tensor.dtype) ^ 1, tensor.dtype), *values[1:]]
        elif kind == "raise":
            raise RuntimeError(fault["text"])
        else:
            happen(kind)
    return values


def faulted(kind: str, what: str | None = None) -> dict[str, Any] | None:
    """Return the fault of that kind on the current GPU, or None."""
    for fault in SETTINGS.get("faults", []):
        if (fault["kind"], fault.get("what")) == (kind, what) and fault.get("gpu", cuda.CURRENT) == cuda.CURRENT:
            return dict(fault)
    return None


def note(variable: str) -> None:
    """Add this process to the file that the variable names."""
    if variable in os.environ:
        with Path(os.environ[variable]).open("a") as file:
            file.write(f"{os.getpid()}\n")


def happen(kind: str) -> None:
    """Do what a broken driver does."""
    if kind == "hang":
        note("FAKE_TORCH_HANGS")
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(3600)
    elif kind == "slow":
        time.sleep(4)
    elif kind == "chatter":
        sys.stdout.write("chatter " * 1_000_000)
    elif kind.startswith("SIG"):
        sys.stderr.write("the driver has a last word\n")
        sys.stderr.flush()
        os.kill(os.getpid(), signal.Signals[kind])
        time.sleep(60)
    elif kind == "exit":
        os._exit(0)
    elif kind == "say done":  # a child that proves nothing and says that all is well
        os.write(int(sys.argv[2]), b'{"event": "done"}\n')
        os._exit(0)


class Generator:
    def manual_seed(self, seed: int) -> random.Random:
        return random.Random(seed)


def randn(
    rows: int,
    columns: int,
    *_: int,
    generator: random.Random | None = None,
    dtype: dtype = float32,
    device: device = CPU,
) -> Tensor:
    luck = generator or random.Random(1)
    return Tensor([luck.gauss(0.0, 1.0) for _ in range(SIDE * SIDE)], float64, device, rows, columns).to(dtype)


def randint(low: int, high: int, size: tuple[int, int], generator: random.Random) -> Tensor:
    return Tensor([float(generator.randrange(low, high)) for _ in range(SIDE * SIDE)], float64, CPU, *size)


def equal(one: Any, other: Any) -> bool:
    return bool(one.values == other.values)


def matmul(one: Tensor, other: Tensor, out: Tensor) -> None:
    cuda.linger("gemm")
    cuda.spend("gemm", 2 * one.n * one.k * other.k / 1e12, n=one.n)


def conv2d(images: Tensor, weights: Tensor) -> Tensor:
    values = [image * weight for image, weight in zip(images.values, weights.values, strict=True)]
    if images.device.type == "cuda" and faulted("convolves wrong"):
        values[0] += 1.0
    return Tensor(values, images.dtype, images.device)


def zeros_like(other: Any) -> Any:
    return other


def no_grad() -> Any:
    return contextlib.nullcontext()


def autocast(kind: str, dtype: dtype, enabled: bool) -> Any:
    return contextlib.nullcontext()


def set_float32_matmul_precision(precision: str) -> None:
    assert precision == "highest"


def set_num_threads(count: int) -> None:
    assert count >= 1


if "import" in SETTINGS:
    if SETTINGS["import"].startswith(("No module", "lib")):
        raise ImportError(SETTINGS["import"])
    happen(SETTINGS["import"])
if "end" in SETTINGS:
    os._exit = lambda _: happen(SETTINGS["end"])  # type: ignore[assignment, return-value]
note("FAKE_TORCH_IMPORTS")

from . import cuda, distributed, learning, utils  # noqa: E402

cuda.wait_once("cold" if fake_clock.cold else "import")
fake_clock.cold = False
from .words import arange, bitwise_xor, empty_like, full, zeros  # noqa: E402

__version__ = SETTINGS.get("version", "9.9.9+fake")
version = types.SimpleNamespace(cuda=SETTINGS.get("cuda", "13.2"))


def _cudnn() -> int:
    """Return its version, or raise the error of `cudnn`."""
    if "cudnn" in SETTINGS:
        raise RuntimeError(SETTINGS["cudnn"])
    return 92000


backends = types.SimpleNamespace(
    cuda=types.SimpleNamespace(matmul=types.SimpleNamespace()), cudnn=types.SimpleNamespace(version=_cudnn)
)
__all__ = ["arange", "bitwise_xor", "cuda", "distributed", "empty_like", "full", "utils", "zeros"]
