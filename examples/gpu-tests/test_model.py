"""The model's forward pass."""

import pytest
import torch
from classifier import CLASSES, Classifier, batch

pytestmark = pytest.mark.usefixtures("gpu_seed")


def test_the_result_is_on_the_device_of_the_input(device: torch.device) -> None:
    images, _ = batch(8, seed=0, device=device)
    answer = Classifier().to(device)(images)
    assert (answer.shape, answer.dtype, answer.device.type) == ((8, CLASSES), torch.float32, device.type)
    assert torch.isfinite(answer).all()


@pytest.mark.gpu
def test_a_gpu_and_the_cpu_give_the_same_result(gpu_device: torch.device) -> None:
    model = Classifier().eval()
    images, _ = batch(8, seed=0, device=torch.device("cpu"))
    with torch.no_grad():
        expected = model(images)
        answer = model.to(gpu_device)(images.to(gpu_device))
    # TF32 in the convolution, as in test_ops.py.
    torch.testing.assert_close(answer.cpu(), expected, rtol=5e-3, atol=5e-3)


@pytest.mark.gpu(compute_capability="8.0")
def test_bfloat16_gives_a_similar_result(gpu_device: torch.device) -> None:
    model = Classifier().to(gpu_device)
    images, _ = batch(8, seed=0, device=gpu_device)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        answer = model(images)
    torch.testing.assert_close(answer.float(), model(images), rtol=5e-2, atol=5e-2)
