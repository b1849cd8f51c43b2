"""The suppliers of machines.

A supplier is one folder here with a module `supplier.py`, whose SUPPLIER is a subclass of ports.Supplier. A package of
its own names its subclass in an entry point of the group `gpu_manager.suppliers`. The name of the folder, with dashes,
or of the entry point is the `supplier` of a pool in the manager's configuration.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from pathlib import Path

from ..ports import Supplier

GROUP = "gpu_manager.suppliers"


def names() -> list[str]:
    """Return the names of all suppliers."""
    built_in = (file.parent.name.replace("_", "-") for file in Path(__file__).parent.glob("*/supplier.py"))
    return sorted({*built_in, *importlib.metadata.entry_points(group=GROUP).names})


def supplier(name: str) -> type[Supplier]:
    """Return the class of a supplier. Raises KeyError for an unknown name."""
    if name not in names():
        raise KeyError(name)
    for entry in importlib.metadata.entry_points(group=GROUP, name=name):
        installed: type[Supplier] = entry.load()
        return installed
    built_in: type[Supplier] = importlib.import_module(f"{__name__}.{name.replace('-', '_')}.supplier").SUPPLIER
    return built_in
