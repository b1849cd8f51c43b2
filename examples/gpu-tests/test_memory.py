"""Tests of memory use. The plugin checks after each GPU test that no memory is left allocated."""

import pytest
import torch
from classifier import Classifier, batch

MIB = 2**20


def peak_of(step: object, device: torch.device) -> float:
    """Return the peak in MiB that a call allocates beyond the memory in use before."""
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    step()  # type: ignore[operator]
    return (torch.cuda.max_memory_allocated(device) - before) / MIB


@pytest.mark.gpu(peak_gib=0.5)
def test_a_training_step_stays_below_half_a_gib(gpu_device: torch.device) -> None:
    model = Classifier().to(gpu_device)
    images, labels = batch(1024, seed=0, device=gpu_device)
    torch.nn.functional.cross_entropy(model(images), labels).backward()


@pytest.mark.gpu
def test_inference_keeps_no_activations(gpu_device: torch.device) -> None:
    model = Classifier().to(gpu_device)
    images, _ = batch(1024, seed=0, device=gpu_device)
    model(images)  # so that one-time allocations of libraries are not counted below
    kept: list[torch.Tensor] = []
    trained = peak_of(lambda: kept.append(model(images)), gpu_device)
    kept.clear()
    with torch.inference_mode():
        asked = peak_of(lambda: model(images), gpu_device)
    assert asked <= trained


@pytest.mark.gpu(memory_gib=8)
def test_a_program_continues_after_out_of_memory(gpu_device: torch.device) -> None:
    total = torch.cuda.get_device_properties(gpu_device).total_memory
    with pytest.raises(torch.cuda.OutOfMemoryError):
        torch.empty(2 * total, dtype=torch.uint8, device=gpu_device)
    assert torch.ones(1000, device=gpu_device).sum().item() == 1000
