"""A run that was interrupted continues from its checkpoint with the same losses."""

from pathlib import Path

import pytest
import torch
from classifier import Classifier, train

pytestmark = pytest.mark.usefixtures("gpu_seed")


def fresh(device: torch.device) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    model = Classifier().to(device)
    return model, torch.optim.Adam(model.parameters(), lr=1e-2)


def save(path: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)


def load(path: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, device: torch.device) -> None:
    # weights_only, because a checkpoint is a pickle and may come from an untrusted source.
    saved = torch.load(path, map_location=device, weights_only=True)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])


def test_training_continues_from_a_checkpoint(device: torch.device, tmp_path: Path) -> None:
    model, optimizer = fresh(device)
    train(model, optimizer, range(5), device)
    save(tmp_path / "checkpoint.pt", model, optimizer)
    expected = train(model, optimizer, range(5, 10), device)
    again = fresh(device)
    load(tmp_path / "checkpoint.pt", *again, device)
    # The checkpoint has the optimizer's state too: without it, the first steps of Adam would differ.
    assert train(*again, range(5, 10), device) == pytest.approx(expected, rel=1e-6)


@pytest.mark.gpu
def test_the_cpu_loads_a_checkpoint_of_a_gpu(gpu_device: torch.device, tmp_path: Path) -> None:
    model, optimizer = fresh(gpu_device)
    train(model, optimizer, range(2), gpu_device)
    save(tmp_path / "checkpoint.pt", model, optimizer)
    cpu = torch.device("cpu")
    again = fresh(cpu)
    load(tmp_path / "checkpoint.pt", *again, cpu)
    for name, weight in model.state_dict().items():
        assert torch.equal(weight.cpu(), again[0].state_dict()[name]), name
