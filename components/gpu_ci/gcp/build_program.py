"""A Python program that steps of Cloud Build run: some modules of gpu-ci, and the lock of its libraries.

The steps install the libraries by their hashes, and run the modules without pydantic and pulumi.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import gpu_common
import pulumi
from gpu_common import google_permissions

from ..payload import without_comments
from . import identities

_ROOT = Path(__file__).resolve().parents[1]
_COMMON = ("__init__.py", "secret_patterns.py", "visible.py")
# The modules that start, watch and delete a machine.
_MACHINE = (
    "__init__.py",
    "extras.py",
    "kinds/__init__.py",
    "pool_kind.py",
    "naming.py",
    "gcp/__init__.py",
    "gcp/template_links.py",
    *(
        f"gcp/gate/{name}.py"
        for name in (
            "__init__",
            "compute_api",
            "google_service",
            "runner",
            "stopped",
            "verdict",
            "waiting",
        )
    ),
)


TYPES = (
    "gcp:cloudbuild/trigger:Trigger",
    "gcp:cloudscheduler/job:Job",
    "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate",
    google_permissions.CUSTOM_ROLE,
    "gcp:pubsub/topic:Topic",
    "gcp:storage/bucket:Bucket",
    "gcp:storage/bucketIAMMember:BucketIAMMember",
    "gcp:storage/bucketObject:BucketObject",
    *identities.TYPES,
)
"""The types of the resources with which builds start machines."""
LOCK = "gpu_ci/gcp/build_program.lock"
"""The path of the libraries' lock in a program."""
PIP_INSTALL = ["-m", "pip", "install", "--quiet", "--no-cache-dir", "--disable-pip-version-check", "--require-hashes"]
"""The arguments of Python that install a lock. The target and the lock follow."""


def archive(files: Mapping[str, str]) -> pulumi.AssetArchive:
    """Return an archive with these texts by path."""
    return pulumi.AssetArchive({path: pulumi.StringAsset(text) for path, text in sorted(files.items())})


@dataclass(frozen=True)
class BuildProgram:
    """A program in the package `folder` of gpu_ci, with these modules of it."""

    folder: str
    modules: tuple[str, ...]

    def files(self) -> dict[str, str]:
        """Return the text of each file by its path."""
        return _files(self)

    def digest(self) -> str:
        """Return a hash of the content."""
        digest = hashlib.sha256()
        for path, text in sorted(self.files().items()):
            digest.update(f"{path}\0{text}\0".encode())
        return digest.hexdigest()[:16]


@cache
def _files(program: BuildProgram) -> dict[str, str]:
    common = Path(gpu_common.__file__).parent
    own = (f"{program.folder}/{name}.py" for name in ("__init__", "__main__", *program.modules))
    found = {f"gpu_ci/{path}": _text(_ROOT / path) for path in (*_MACHINE, *own)}
    found |= {f"gpu_common/{path}": _text(common / path) for path in _COMMON}
    return {**found, LOCK: (_ROOT.parent / LOCK).read_text(encoding="utf-8")}


def _text(file: Path) -> str:
    """Return the code of a module. The text is never empty.

    The engine leaves an empty text out of an asset, and the program then fails with "Invalid asset encountered when
    unmarshalling resource property" (pulumi 3.272.0).
    """
    return without_comments(file.read_text(encoding="utf-8")) or "\n"
