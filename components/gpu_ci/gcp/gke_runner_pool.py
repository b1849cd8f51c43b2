"""The import of GkeRunnerPool for programs. The component is in kinds/gke/."""

from ..kinds.gke.args import GkeRunnerPoolArgs
from ..kinds.gke.component import GkeRunnerPool

__all__ = ["GkeRunnerPool", "GkeRunnerPoolArgs"]
