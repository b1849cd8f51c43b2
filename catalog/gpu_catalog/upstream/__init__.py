"""What others publish about machines with GPUs: one module a source, each in the source's own words.

Only `gpu_catalog.refresh` and the tests read these. Everything else asks the catalog's own rows, which need nothing
installed. Files of other packages are read where they lie, mostly without importing the package: its import is slow,
and what counts is the data.
"""

from __future__ import annotations

import gzip
import importlib.metadata
import importlib.util
import json
from pathlib import Path
from typing import Any


class UpstreamError(Exception):
    """A source cannot be read, or is not what this module knows. The text says which, and what to do."""


def folder(package: str, distribution: str) -> Path:
    """Where an installed package lies, without importing it."""
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
    """A JSON file, packed or not."""
    try:
        data = path.read_bytes()
        return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    except (OSError, ValueError) as error:
        raise UpstreamError(
            f"{path}: cannot be read\n  got: {error}\n"
            "  hint: the package's layout may have changed; pin its version in pyproject.toml"
        ) from None
