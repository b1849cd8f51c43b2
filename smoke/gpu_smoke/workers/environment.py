"""The environment of workers: what the image sets for its jobs must not change what is computed here, or how fast."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

# 0 keeps NVIDIA's libraries from TF32 whatever the image says; with it float32 products would look wrong. Loaded
# eagerly, the kernels of torch and its libraries may take more memory than `exclusive` allows, and on an H100 `quick`
# took 11.5 s instead of 4.3 (bench/results/2026-11-23-h100-h200.md).
SET = {"NVIDIA_TF32_OVERRIDE": "0", "CUDA_MODULE_LOADING": "LAZY", "PYTHONUNBUFFERED": "1"}

# Variables that change kernels, bits, memory or speed. They are from the lists of their vendors: CUDA C++ Programming
# Guide, "CUDA Environment Variables"; cuBLAS, "Results Reproducibility"; NCCL and PyTorch, "Environment Variables".
# Variables that choose GPUs or network interfaces are kept.
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
    """The variables of a worker, from those of the command."""
    return {name: value for name, value in environment.items() if not _dropped(name)} | SET


def changed(environment: Mapping[str, str]) -> list[str]:
    """The names of the variables that workers do not get, or get with another value than the command has."""
    found = [name for name in environment if _dropped(name)]
    return sorted(found + [name for name, value in SET.items() if environment.get(name, value) != value])


def _dropped(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in DROPPED)
