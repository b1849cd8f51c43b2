"""Published data about machines with GPUs, one module for each source, in the terms of the source.

Only `gpu_catalog.refresh` and the tests use these modules. All other code uses the catalog's own rows, which need no
other package. Data files of installed packages are read directly, mostly without an import, because imports are slow.
"""

from __future__ import annotations

import gzip
import importlib.metadata
import importlib.util
import json
from pathlib import Path
from typing import Any


class UpstreamError(Exception):
    """An error for a source that cannot be read or has an unknown format. The text says what to do."""


def folder(package: str, distribution: str) -> Path:
    """Return the folder of an installed package, without importing it."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise UpstreamError(
            f"{distribution}: not installed\n  expected: the package whose data the catalog is compared with\n"
            "  hint: make dev"
        )
    return Path(next(iter(spec.submodule_search_locations)))


def version(distribution: str) -> str:
    return importlib.metadata.version(distribution)


def read_json(path: Path) -> Any:
    """Read a JSON file, compressed or not."""
    try:
        data = path.read_bytes()
        return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    except (OSError, ValueError) as error:
        raise UpstreamError(
            f"{path}: cannot be read\n  got: {error}\n"
            "  hint: the package's layout may have changed; pin its version in pyproject.toml"
        ) from None
