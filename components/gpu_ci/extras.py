"""The modules that extras of this package install, and the hint for a missing module."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
from collections.abc import Collection
from typing import Any

EXTRA_OF = {
    "botocore": "aws",
    "click": "cli",
    "google.auth": "gcp",
    "google_auth_httplib2": "gcp",
    "googleapiclient": "gcp",
    "httpx2": "manager",
    "jinja2": "cli",
    "jwt": "manager",
    "packaging": "preview",
    "prometheus_client": "manager",
    "psutil": "preview",
    "pulumi_aws": "aws",
    "pulumi_gcp": "gcp",
    "pulumi_github": "github",
    "pulumi_kubernetes": "kubernetes",
    "rich": "cli",
    "starlette": "manager",
    "uvicorn": "manager",
}
"""The extra that installs each module."""


def hint(module: str, needed: Collection[str] = ()) -> str:
    """Return the hint that installs a missing module. Return an empty text if no extra installs the module.

    Args:
        module: The missing module.
        needed: The extras of clouds that the stack needs. The hint names those that are missing, so that one
            installation is enough.
    """
    names = [name for name in EXTRA_OF if module == name or module.startswith(f"{name}.")]
    if not names:
        return ""
    missing = sorted({EXTRA_OF[names[0]], *(extra for extra in needed if not _is_installed(extra))})
    extras = f"extras {', '.join(missing)}" if len(missing) > 1 else f"extra {missing[0]}"
    return f"install gpu-ci with the {extras}: pip install {_argument(missing)}; name them in requirements.txt too"


def _is_installed(extra: str) -> bool:
    """Return True if the Pulumi package of a cloud's extra is installed."""
    return importlib.util.find_spec(f"pulumi_{extra}") is not None


def _argument(missing: Collection[str]) -> str:
    """Return the argument of `pip install` that adds extras to the running gpu-ci."""
    names = f"gpu-ci[{','.join(missing)}]"
    address = source()
    if direct_url().get("dir_info", {}).get("editable"):
        return f"-e '{address.removeprefix('file://')}[{','.join(missing)}]'"
    return f"'{names} @ {address}'" if address else f"'{names}=={importlib.metadata.version('gpu-ci')}'"


def source() -> str:
    """Return the address that this package was installed from, or an empty text if pip took it from an index."""
    found = direct_url()
    if "vcs_info" in found:
        return f"{found['vcs_info']['vcs']}+{found['url']}@{found['vcs_info']['commit_id']}"
    return str(found.get("url", ""))


def direct_url() -> dict[str, Any]:
    """Return the record of the address that this package was installed from. It is empty for an index.

    packaging.python.org/en/latest/specifications/direct-url
    """
    text = importlib.metadata.distribution("gpu-ci").read_text("direct_url.json")
    found: dict[str, Any] = json.loads(text) if text else {}
    return found
