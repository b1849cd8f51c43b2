"""The extras of this package, and the message for a module that a missing extra installs."""

from __future__ import annotations

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


def hint(module: str) -> str:
    """Return how to install a missing module, or an empty text for a module of no extra."""
    names = [name for name in EXTRA_OF if module == name or module.startswith(f"{name}.")]
    if not names:
        return ""
    extra = EXTRA_OF[names[0]]
    return f"install gpu-ci with the extra {extra}: pip install '.[{extra}]' in a checkout of gpu-ci"
