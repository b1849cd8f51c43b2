"""What can be bought: the package gpu_catalog, under the name by which users of gpu_ci know it.

Loaded when first asked: a program that builds nothing with a GPU pays nothing for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpu_catalog import *  # noqa: F403 - the same names, whatever they are
    from gpu_catalog import __all__ as __all__


def __getattr__(name: str) -> Any:
    import gpu_catalog

    if name in gpu_catalog.__all__ or name == "__all__":
        return getattr(gpu_catalog, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    import gpu_catalog

    return list(gpu_catalog.__all__)
