"""Creates the steps of the build in Cloud Build, and the archive with the modules that these steps run.

The steps install the libraries of requirements.lock, by their hashes, and then run gpu_ci.gcp.host_image.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import gpu_common
import pulumi
import pulumi_gcp as gcp

from ... import versions
from ...payload import without_comments

_ROOT = Path(__file__).resolve().parents[2]
_LOCK = "gpu_ci/gcp/host_image/requirements.lock"
# The modules that the steps import. They need the standard library and the libraries of the lock only.
_MODULES = (
    "__init__.py",
    "kinds.py",
    "naming.py",
    "gcp/__init__.py",
    "gcp/template_links.py",
    "gcp/gate/__init__.py",
    *(
        f"gcp/gate/{name}.py"
        for name in (
            "channel",
            "clock",
            "compute_api",
            "credentials",
            "google_service",
            "pace",
            "runner",
            "stopped",
            "verdict",
        )
    ),
    *(f"gcp/host_image/{name}.py" for name in ("__init__", "__main__", "api", "build", "settings")),
)
_COMMON = ("__init__", "secret_patterns", "visible")
_PACKAGES = "/workspace/packages"


@cache
def files() -> dict[str, str]:
    """Return the text of each file of the archive by its path."""
    common = Path(gpu_common.__file__).parent
    modules = {f"gpu_ci/{path}": _ROOT / path for path in _MODULES}
    modules |= {f"gpu_common/{name}.py": common / f"{name}.py" for name in _COMMON}
    # Pulumi's engine drops the text of an empty StringAsset, and the SDK then fails with "Invalid asset encountered".
    found = {path: without_comments(file.read_text(encoding="utf-8")) or "\n" for path, file in modules.items()}
    return {**found, _LOCK: (_ROOT.parent / _LOCK).read_text(encoding="utf-8")}


def digest() -> str:
    """Return a hash of the archive's content."""
    digest = hashlib.sha256()
    for path, text in sorted(files().items()):
        digest.update(f"{path}\0{text}\0".encode())
    return digest.hexdigest()[:16]


def archive() -> pulumi.AssetArchive:
    """Return the archive, which Cloud Build unpacks into /workspace."""
    return pulumi.AssetArchive({path: pulumi.StringAsset(text) for path, text in sorted(files().items())})


def steps(settings: pulumi.Input[str]) -> list[gcp.cloudbuild.TriggerBuildStepArgs]:
    """Return the steps: install the libraries, build the image, check it."""
    install = ["-m", "pip", "install", "--quiet", "--no-cache-dir", "--disable-pip-version-check", "--require-hashes"]
    return [
        _step("install", [*install, "--target", _PACKAGES, "--requirement", f"/workspace/{_LOCK}"]),
        *(_step(each, ["-m", "gpu_ci.gcp.host_image", each, "--settings", settings]) for each in ("build", "check")),
    ]


def _step(name: str, args: list[pulumi.Input[str]]) -> gcp.cloudbuild.TriggerBuildStepArgs:
    return gcp.cloudbuild.TriggerBuildStepArgs(
        id=name,
        name=versions.PYTHON_IMAGE,
        entrypoint="python",
        args=args,
        envs=[f"PYTHONPATH=/workspace:{_PACKAGES}", "PYTHONUNBUFFERED=1"],
    )
