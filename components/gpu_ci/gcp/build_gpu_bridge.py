"""The import of BuildGpuBridge for programs. The component is in kinds/cloud_build_gpu/."""

from ..kinds.cloud_build_gpu.args import BuildGpuBridgeArgs
from ..kinds.cloud_build_gpu.component import BuildGpuBridge

__all__ = ["BuildGpuBridge", "BuildGpuBridgeArgs"]
