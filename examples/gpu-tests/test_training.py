"""The model must learn: a training loop that learns nothing passes most other tests."""

import math

import pytest
import torch
from classifier import CLASSES, Classifier, batch, train

pytestmark = pytest.mark.usefixtures("gpu_seed")


@pytest.mark.slow
def test_the_model_learns(device: torch.device) -> None:
    model = Classifier().to(device)
    losses = train(model, torch.optim.Adam(model.parameters(), lr=1e-2), range(60), device)
    # Before training the model can only guess, with a loss of ln(4).
    assert losses[0] == pytest.approx(math.log(CLASSES), abs=0.3)
    assert max(losses[-10:]) < 0.1
    images, labels = batch(256, seed=1_000, device=device)
    assert (model(images).argmax(1) == labels).float().mean().item() > 0.95


def test_every_weight_gets_a_gradient(device: torch.device) -> None:
    model = Classifier().to(device)
    images, labels = batch(16, seed=0, device=device)
    torch.nn.functional.cross_entropy(model(images), labels).backward()
    missing = [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert missing == []
