"""The environment of workers. Variables of the image must not change results or speed."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

# 0 keeps NVIDIA's libraries from TF32 whatever the image sets. With TF32, float32 products would look wrong. If loaded
# eagerly, the kernels of torch and its libraries may take more memory than `exclusive` allows. On an H100 `quick` then
# took 11.5 s instead of 4.3 (bench/results/2026-11-23-h100-h200.md).
SET = {"NVIDIA_TF32_OVERRIDE": "0", "CUDA_MODULE_LOADING": "LAZY", "PYTHONUNBUFFERED": "1"}

# Variables that change kernels, bits, memory or speed. Their sources are:
#
# - CUDA C++ Programming Guide, "CUDA Environment Variables"
# - cuBLAS, "Results Reproducibility"
# - NCCL and PyTorch, "Environment Variables"
#
# Variables that select GPUs or network interfaces are kept.
DROPPED = (
    "ATEN_CPU_CAPABILITY",
    "CUBLAS_*", "CUBLASLT_*", "CUDNN_*",
    "COMPUTE_PROFILE*", "CUDA_PROFILE*", "CUDA_INJECTION*", "CUDA_*COREDUMP*", "CUDA_*PTX_JIT",
    "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_DATA_LOADING",
    "NCCL_ALGO", "NCCL_PROTO", "NCCL_P2P_*", "NCCL_SHM_DISABLE", "NCCL_NVLS_ENABLE", "NCCL_M??_NCHANNELS",
    "NCCL_BUFFSIZE", "NCCL_NTHREADS",
    "GOMP_*", "KMP_*", "MKL_*", "OMP_*",
    "PYTORCH_*ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING", "TORCH_*TF32*", "TORCH_BLAS_*", "TORCH_CUDNN_*",
    "TORCH_NCCL_*",
)  # fmt: skip


def of_worker(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a worker, from those of the command."""
    return {name: value for name, value in environment.items() if not _dropped(name)} | SET


def changed(environment: Mapping[str, str]) -> list[str]:
    """Return the names of variables that workers do not get, or get with another value."""
    found = [name for name in environment if _dropped(name)]
    return sorted(found + [name for name, value in SET.items() if environment.get(name, value) != value])


def _dropped(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in DROPPED)
