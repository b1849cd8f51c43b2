"""Hide the NVIDIA driver's libraries from a Python program in a container of the sandbox.

The module `site` loads this file, which uses only the standard library.
"""

from __future__ import annotations

import ctypes
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any

LIBRARIES = ("libcuda.so", "libnvidia-ml.so")

# The image may have its own sitecustomize module, which must still be loaded.
sys.path[:] = [path for path in sys.path if Path(path).absolute() != Path(__file__).absolute().parent]
found = PathFinder.find_spec("sitecustomize", sys.path)
if found and found.loader:
    found.loader.exec_module(module_from_spec(found))

_load: Any = ctypes.CDLL


def load(name: Any, *arguments: Any, **options: Any) -> Any:
    """Open a library, with the error of the loader for a library of the driver."""
    if str(name).startswith(LIBRARIES):
        raise OSError(f"{name}: cannot open shared object file: No such file or directory")
    return _load(name, *arguments, **options)


ctypes.CDLL = load  # type: ignore[misc, assignment]
