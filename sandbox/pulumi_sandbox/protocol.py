"""Pulumi's protocol without the rest of its SDK, for the processes that the engine starts."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
import types


def protocol_only(program: str) -> None:
    """Make `pulumi.runtime.proto` importable without the rest of the SDK, whose import takes 0.3 to 0.4 s."""
    found = importlib.util.find_spec("pulumi")
    if found is None or not found.submodule_search_locations:
        sys.exit(f"{program}: the Pulumi SDK is not installed\n  got: {sys.executable}\n"
                 "  expected: a Python environment with the package `pulumi`")  # fmt: skip
    folder = found.submodule_search_locations[0]
    for name, path in (("pulumi", folder), ("pulumi.runtime", f"{folder}/runtime")):
        module = types.ModuleType(name)
        module.__path__ = [path]
        module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
        sys.modules[name] = module
