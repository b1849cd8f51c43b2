"""Loads the sandbox's emulation of root's tasks for a runner."""

from __future__ import annotations

import runpy
from collections.abc import Mapping

from .system import System

VARIABLE = "GPU_AGENT_SYSTEM"


def system(environ: Mapping[str, str]) -> System | None:
    """Return the emulation from the file in the environment variable, or None without the variable.

    The file has a class `EmulatedSystem`. It is only for computers outside Compute Engine, because it isolates no job.
    """
    file = environ.get(VARIABLE)
    if not file or "GCE_METADATA_HOST" not in environ:
        return None
    made: System = runpy.run_path(file)["EmulatedSystem"].of(environ)
    return made
