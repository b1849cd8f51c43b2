"""The import of BuildPool for programs. The component is in kinds/cloud_build/."""

from ..kinds.cloud_build.args import BuildPoolArgs
from ..kinds.cloud_build.component import BuildPool

__all__ = ["BuildPool", "BuildPoolArgs"]
