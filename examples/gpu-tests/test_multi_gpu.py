"""Tests that need two GPUs. They are skipped on a machine with one."""

import pytest
import torch
from classifier import Classifier, batch

pytestmark = pytest.mark.usefixtures("gpu_seed")


@pytest.mark.multi_gpu
def test_a_copy_between_two_gpus_is_equal(gpu_devices: list[torch.device]) -> None:
    first, second = gpu_devices
    sent = torch.arange(2**20, device=first)
    assert torch.equal(sent.to(second).cpu(), sent.cpu())


@pytest.mark.multi_gpu
def test_two_gpus_give_the_same_result_as_one(gpu_devices: list[torch.device]) -> None:
    first = gpu_devices[0]
    model = Classifier().to(first).eval()
    images, _ = batch(16, seed=0, device=first)
    with torch.no_grad():
        both = torch.nn.DataParallel(model, device_ids=gpu_devices)(images)
        torch.testing.assert_close(both, model(images), rtol=1e-4, atol=1e-5)
