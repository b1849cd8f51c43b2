"""The modules that extras of this package install, and the hint for a missing module."""

from __future__ import annotations

import importlib.metadata
import json
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
    "prometheus_client": "manager",
    "psutil": "preview",
    "pulumi_aws": "aws",
    "pulumi_gcp": "gcp",
    "pulumi_github": "github",
    "pulumi_kubernetes": "kubernetes",
    "rich": "cli",
}
"""The extra that installs each module."""


def hint(module: str) -> str:
    """Return the hint that installs a missing module. Return an empty text if no extra installs the module."""
    extra = next((EXTRA_OF[name] for name in EXTRA_OF if module == name or module.startswith(f"{name}.")), "")
    text = f"install gpu-ci with the extra {extra}: pip install {_argument(extra)}; name it in requirements.txt too"
    return text if extra else ""


def _argument(extra: str) -> str:
    """Return the argument of `pip install` that adds an extra to the running gpu-ci."""
    names = f"gpu-ci[{extra}]"
    address = source()
    if direct_url().get("dir_info", {}).get("editable"):
        return f"-e '{address.removeprefix('file://')}[{extra}]'"
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
