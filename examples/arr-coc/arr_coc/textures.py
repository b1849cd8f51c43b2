"""Synthetic textures: grey images of stripes, checks, noise and blobs."""

import math

import torch
from torch.nn import functional

LABELS = ("stripes", "checks", "noise", "blobs")
SIZE = 32


def batch(size: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Create textures of random labels, and return images (size, 1, SIZE, SIZE) from 0 to 1, and the labels' indices.

    The CPU creates them, so equal seeds give equal data on all devices.
    """
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(len(LABELS), (size,), generator=generator)

    def between(low: float, high: float) -> torch.Tensor:
        return low + (high - low) * torch.rand(size, 1, 1, generator=generator)

    angle, waves = between(0, math.pi), 2 * math.pi * between(3, 8)
    x, y = torch.meshgrid(torch.linspace(0, 1, SIZE), torch.linspace(0, 1, SIZE), indexing="xy")
    along = torch.sin(waves * (x * angle.cos() + y * angle.sin()) + between(0, 2 * math.pi))
    across = torch.sin(waves * (y * angle.cos() - x * angle.sin()) + between(0, 2 * math.pi))
    noise = torch.randn(size, SIZE, SIZE, generator=generator)
    coarse = torch.randn(size, 1, 6, 6, generator=generator)
    blobs = functional.interpolate(coarse, size=(SIZE, SIZE), mode="bicubic", align_corners=True).squeeze(1)
    pure = torch.stack([along, (along * across).sign(), noise, blobs])[labels, torch.arange(size)]
    images = 0.5 + between(0.1, 0.25) * (pure + between(0, 0.5) * torch.randn(pure.shape, generator=generator))
    return images.clamp(0, 1).unsqueeze(1), labels
