"""Exports all names of the package gpu_catalog, for programs that use gpu_ci.

gpu_catalog is imported at the first use of a name, because a program without GPU pools does not need it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpu_catalog import *  # noqa: F403 - all names of that package
    from gpu_catalog import __all__ as __all__


def __getattr__(name: str) -> Any:
    import gpu_catalog

    if name in gpu_catalog.__all__ or name == "__all__":
        return getattr(gpu_catalog, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    import gpu_catalog

    return list(gpu_catalog.__all__)
