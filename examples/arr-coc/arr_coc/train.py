"""Trains the model and writes its files.

python -m arr_coc.train --out gs://BUCKET/FOLDER --steps 200
"""

import argparse
import os
import sys

import torch
from torch import nn

from . import storage
from .model import METRICS, WEIGHTS, TextureNet, save
from .textures import LABELS, batch

TESTED = 2000
"""The number of textures that measure the accuracy."""


def train(steps: int, seed: int, device: str) -> tuple[TextureNet, float]:
    """Return a trained model and its accuracy on textures that it was not trained with."""
    torch.manual_seed(seed)
    model = TextureNet(len(LABELS)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(steps, 1))
    # Each step has a seed of its own. The seed of the test is that of no step.
    first = seed * 1_000_000_000
    for step in range(1, steps + 1):
        images, labels = (each.to(device) for each in batch(64, first + step))
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
    images, labels = (each.to(device) for each in batch(TESTED, first))
    with torch.inference_mode():
        right = model.eval()(images).argmax(1) == labels
    return model, right.double().mean().item()


def main() -> int:
    """Train, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m arr_coc.train", description="Train the classifier of textures.")
    # AIP_MODEL_DIR exists in a job of Vertex AI with baseOutputDirectory.
    out = os.environ.get("MODEL_DIR") or os.environ.get("AIP_MODEL_DIR")
    parser.add_argument(
        "--out", default=out, required=not out,
        help="a folder or gs://BUCKET/FOLDER; by default that of the variable MODEL_DIR, or else AIP_MODEL_DIR",
    )  # fmt: skip
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="an equal seed gives an equal model on the same machine")
    parser.add_argument("--min-accuracy", type=float, default=0.0, help="exit with 1 below this accuracy, from 0 to 1")
    arguments = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model, accuracy = train(arguments.steps, arguments.seed, device)
    with storage.writing(arguments.out, [WEIGHTS, METRICS]) as folder:
        save(folder, model, accuracy, LABELS)
    print(f"accuracy {accuracy:.4f} on {device}: {arguments.out}", flush=True)
    if accuracy < arguments.min_accuracy:
        print(f"the accuracy is below {arguments.min_accuracy}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
