"""Work that jobs also do: a cuDNN convolution, the training of a small model, and data loading."""

from __future__ import annotations

from typing import Any

from .gemm import SEED, finite

STEPS, RATE, MOMENTUM = 30, 0.5, 0.9
SCALE = 1024.0  # keeps small gradients above the lowest number of float16
ITEMS, SIZE, BATCH = 16, 2**18, 4  # items of 1 MiB


def convolve(torch: Any, target: Any) -> dict[str, Any]:
    """Convolve in float32 without TF32, and compare with float64 on the CPU."""
    # This comes first: only this call compares the loaded cuDNN with the cuDNN that torch was built for.
    version = torch.backends.cudnn.version() if target.type == "cuda" else None
    generator = torch.Generator().manual_seed(SEED)
    images = torch.randn(4, 8, 32, 32, generator=generator)
    weights = torch.randn(16, 8, 3, 3, generator=generator)
    reference = torch.conv2d(images.double(), weights.double())
    result = torch.conv2d(images.to(target), weights.to(target)).cpu().double()
    return {"error": finite((result - reference).norm() / reference.norm()), "cudnn": version}


def train(torch: Any, target: Any, dtype: str) -> dict[str, Any]:
    """Train a model with one hidden layer to reproduce the outputs of another model.

    The optimizer is written out, because torch's optimizers load its compiler, which takes longer than everything else
    here.
    """
    generator = torch.Generator().manual_seed(SEED)

    def normal(rows: int, columns: int, scale: float) -> Any:
        return (torch.randn(rows, columns, generator=generator) * scale).to(target)

    inputs = normal(256, 64, 1.0)
    with torch.no_grad():
        wanted = (inputs @ normal(64, 128, 0.125)).relu() @ normal(128, 8, 0.125)
    weights = [normal(64, 128, 0.125).requires_grad_(), normal(128, 8, 0.125).requires_grad_()]
    speeds = [torch.zeros_like(weight) for weight in weights]
    losses, all_finite = [], True
    for _ in range(STEPS):
        with torch.autocast(target.type, dtype=getattr(torch, dtype), enabled=dtype != "float32"):
            found = (inputs @ weights[0]).relu() @ weights[1]
        loss = (found.float() - wanted).pow(2).mean()
        (loss * SCALE).backward()
        losses.append(finite(loss.detach()))
        with torch.no_grad():
            for weight, speed in zip(weights, speeds, strict=True):
                all_finite = all_finite and bool(weight.grad.isfinite().all())
                speed.mul_(MOMENTUM).add_(weight.grad / SCALE)
                weight.sub_(speed * RATE)
                weight.grad = None
    return {"dtype": dtype, "first": losses[0], "last": losses[-1], "finite": all_finite, "steps": STEPS}


class _Items:
    """Tensors that their sum identifies."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch

    def __len__(self) -> int:
        return ITEMS

    def __getitem__(self, index: int) -> Any:
        return self.torch.full((SIZE,), index, dtype=self.torch.int32)


def load_data(torch: Any, _: Any) -> dict[str, Any]:
    """Read tensors once through two worker processes, which share memory, as in training. No GPU is needed."""
    # Forking is safe, because this process has no GPU open, and it needs no pickling.
    loader = torch.utils.data.DataLoader(
        _Items(torch), batch_size=BATCH, num_workers=2, timeout=30, multiprocessing_context="fork"
    )
    total = sum(int(batch.double().sum().item()) for batch in loader)
    return {"bytes": ITEMS * SIZE * 4, "right": total == SIZE * ITEMS * (ITEMS - 1) // 2}
