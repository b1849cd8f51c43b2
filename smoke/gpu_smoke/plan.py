"""What is computed on a device, and how exact it must be; plain data, shared by who measures and who judges."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limit:
    """Errors of a right product against float64 of the same rounded inputs; above them it is wrong."""

    norm: float  # of the whole matrix: ||C - ref|| / ||ref||
    element: float  # of the worst element, in units of the reference's root mean square


# Right products of random normal matrices have, measured with torch 2.15 on a CPU at n = 512..2048 (norm, element):
# float32 2.5e-7, 2.5e-6; float16 2.1e-4, 2.0e-3; bfloat16 1.7e-3, 1.6e-2. They do not grow with n. One flipped bit of
# weight hardly moves the norm, so the worst element has a limit of its own.
LIMITS = {
    "float32": Limit(1e-5, 1e-4),
    "float16": Limit(2e-3, 1e-2),
    "bfloat16": Limit(8e-3, 6e-2),
}

# bfloat16 is native from Ampere on; torch.cuda.is_bf16_supported() also says yes where it is emulated
# (its `including_emulation` defaults to True).
BFLOAT16_SINCE = (8, 0)

REPEATS = 8  # times that a product must come out the same, bit for bit

# On a GPU, enough blocks to reach every multiprocessor of the largest one, at a reference of well under a second. A CPU
# proves the code only, and multiplies float16 slowly: 44 s at 2048 against 0.1 s at 512 on one core.
SIZES = {"cuda": 2048, "cpu": 256}


def dtypes(capability: tuple[int, int] | None) -> tuple[str, ...]:
    """The number formats that a device multiplies itself; None is a CPU, which takes them all."""
    return tuple(name for name in LIMITS if name != "bfloat16" or capability is None or capability >= BFLOAT16_SINCE)
