"""Trains a small model. It can be killed at any time: the next start continues from the newest complete checkpoint.

    gpu-ci-preempt -- python train.py --checkpoints gs://BUCKET/FOLDER --steps 2000

SIGTERM saves a checkpoint after the current step, and ends the program with exit code 75.
"""

from __future__ import annotations

import argparse
import signal
import sys
from typing import Any

import checkpoints
import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

INTERRUPTED = 75


def batch(step: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the batch of a step. It depends on the step alone, so a resumed run gets the same batches."""
    inputs = torch.randn(64, 32, generator=torch.Generator().manual_seed(step))
    return inputs.to(device), inputs.pow(2).sum(dim=1, keepdim=True).sqrt().to(device)


def main() -> int:
    """Train, and return the exit code."""
    parser = argparse.ArgumentParser(description="Train a small model that survives preemptions.")
    parser.add_argument("--checkpoints", required=True, help="a folder, or an address such as gs://BUCKET/FOLDER")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--save-every", type=int, default=100, help="steps between two checkpoints")
    arguments = parser.parse_args()
    stopped: list[int] = []
    # The handler only notes the signal. A save inside a handler could meet a half-made step, or another save.
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 1)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    progress = {"step": torch.tensor(0), "loss": torch.tensor(0.0)}

    def state() -> dict[str, Any]:
        own, of_optimizer = get_state_dict(model, optimizer)
        return {"model": own, "optimizer": of_optimizer, "progress": progress}

    newest = checkpoints.newest_complete(arguments.checkpoints)
    if newest:
        loaded = state()
        checkpoints.load(newest, loaded)
        set_state_dict(model, optimizer, model_state_dict=loaded["model"], optim_state_dict=loaded["optimizer"])
        print(f"continuing from {newest}", flush=True)
    checkpoints.delete_all_but(arguments.checkpoints, newest)

    for step in range(int(progress["step"]) + 1, arguments.steps + 1):
        inputs, expected = batch(step, device)
        loss = nn.functional.mse_loss(model(inputs), expected)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        progress["step"].fill_(step)
        progress["loss"].copy_(loss.detach())
        is_last = step == arguments.steps
        if stopped or is_last or step % arguments.save_every == 0:
            checkpoints.save(arguments.checkpoints, step, state())
        if stopped and not is_last:
            print(f"stopped after step {step}", flush=True)
            return INTERRUPTED
    print(f"step {int(progress['step'])}: loss {float(progress['loss'])!r}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
