"""The import of Ec2RunnerPool for programs. The component is in kinds/ec2/."""

from ..kinds.ec2.args import Ec2RunnerPoolArgs
from ..kinds.ec2.component import Ec2RunnerPool

__all__ = ["Ec2RunnerPool", "Ec2RunnerPoolArgs"]
