"""The import of RunnerPool for programs. The component is in kinds/gce/."""

from ..kinds.gce.args import RunnerPoolArgs
from ..kinds.gce.component import RunnerPool

__all__ = ["RunnerPool", "RunnerPoolArgs"]
