"""The model, and the two files that it is stored in: model.pt, and metrics.json with the accuracy and the labels."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

WEIGHTS, METRICS = "model.pt", "metrics.json"


class TextureNet(nn.Module):
    """Two convolutions, and a linear head over their means."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, kernel_size=5, stride=2, padding=2), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, kernel_size=3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        )  # fmt: skip
        self.head = nn.Linear(32, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(images).mean(dim=(2, 3)))


def save(folder: Path, model: nn.Module, accuracy: float, labels: Sequence[str]) -> None:
    """Write the files of a model, the weights as those of the CPU. A folder with metrics.json is complete."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.save({name: value.cpu() for name, value in model.state_dict().items()}, folder / WEIGHTS)
    (folder / METRICS).write_text(json.dumps({"accuracy": accuracy, "labels": list(labels)}) + "\n")


def load(folder: Path) -> tuple[TextureNet, list[str]]:
    """Return the model of a folder and its labels. The size of the head is that of the weights."""
    # weights_only, because a file of torch is a pickle, and could run code.
    weights: dict[str, Any] = torch.load(folder / WEIGHTS, map_location="cpu", weights_only=True)
    model = TextureNet(classes=len(weights["head.bias"]))
    model.load_state_dict(weights)
    labels: list[str] = json.loads((folder / METRICS).read_text())["labels"]
    return model.eval(), labels
