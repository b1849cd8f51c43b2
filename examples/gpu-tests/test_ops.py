"""Compare single operations with float64 on the CPU."""

import pytest
import torch

pytestmark = pytest.mark.usefixtures("gpu_seed")

# Errors as a share of the largest value. In float32 a sum of 256 products loses a few units of 2^-24. In float16 and
# bfloat16 most of the error is the rounding of the result to 11 and 8 bits.
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


def error(result: torch.Tensor, exact: torch.Tensor) -> float:
    return ((result.cpu().double() - exact).abs().max() / exact.abs().max()).item()


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_a_product_is_right(device: torch.device, dtype: torch.dtype) -> None:
    left, right = (torch.randn(256, 256).to(dtype) for _ in range(2))
    result = left.to(device) @ right.to(device)
    assert result.dtype == dtype
    assert error(result, left.double() @ right.double()) < TOLERANCE[dtype]


def test_a_convolution_is_right(device: torch.device) -> None:
    images, kernels = torch.randn(4, 8, 16, 16), torch.randn(8, 8, 3, 3)
    result = torch.nn.functional.conv2d(images.to(device), kernels.to(device))
    exact = torch.nn.functional.conv2d(images.double(), kernels.double())
    # cuDNN may use TF32, which rounds its inputs to 11 bits:
    # https://pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices
    assert error(result, exact) < (1e-5 if device.type == "cpu" else 2e-3)


def test_a_softmax_sums_to_one(device: torch.device) -> None:
    sums = torch.softmax(100 * torch.randn(64, 1000, device=device), dim=1).sum(dim=1)
    torch.testing.assert_close(sums, torch.ones(64, device=device), rtol=0, atol=1e-5)
