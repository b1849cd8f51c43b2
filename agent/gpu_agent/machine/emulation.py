"""Where a sandbox brings an emulation of what root does for a runner."""

from __future__ import annotations

import runpy
from collections.abc import Mapping

from .system import System

VARIABLE = "GPU_AGENT_SYSTEM"


def system(environ: Mapping[str, str]) -> System | None:
    """The emulation that the environment names, as a file with a class `EmulatedSystem`; None where it names none.

    Only for a computer that is no machine of Google's: the emulation isolates no job.
    """
    file = environ.get(VARIABLE)
    if not file or "GCE_METADATA_HOST" not in environ:
        return None
    made: System = runpy.run_path(file)["EmulatedSystem"].of(environ)
    return made
