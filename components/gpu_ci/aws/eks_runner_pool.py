"""The import of EksRunnerPool for programs. The component is in kinds/eks/."""

from ..kinds.eks.args import EksRunnerPoolArgs
from ..kinds.eks.component import EksRunnerPool

__all__ = ["EksRunnerPool", "EksRunnerPoolArgs"]
