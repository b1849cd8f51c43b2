"""Reads published data about machines with GPUs, to compare the catalog with it. Each source has a module.

Only `gpu-ci catalog refresh` and the tests use these modules. All other code uses the rows of the catalog, which need
no other package. Most sources are data files of installed packages, such as botocore. The modules read these files
without an import of the package, because imports are slow.
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
            f"{distribution}: is not installed\n  expected: the package, whose data is compared with the catalog\n"
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
