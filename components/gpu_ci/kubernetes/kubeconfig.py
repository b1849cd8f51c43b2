"""The kubeconfig of a cluster whose credentials a program returns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

# The API of credential plugins (docs.aws.amazon.com/eks/latest/userguide/create-kubeconfig.html,
# docs.cloud.google.com/kubernetes-engine/docs/how-to/cluster-access-for-kubectl).
_CREDENTIALS = "client.authentication.k8s.io/v1beta1"


def with_program(name: str, server: str, authority: str, program: Mapping[str, Any]) -> str:
    """Return the kubeconfig, which contains no credentials.

    Args:
        name: The name of the cluster, the user and the context.
        server: The address of the API server.
        authority: The certificate authority, in base64.
        program: The command, its args, and other fields of a credential plugin.
    """
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": {"server": server, "certificate-authority-data": authority}}],
            "users": [{"name": name, "user": {"exec": {"apiVersion": _CREDENTIALS, **program}}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        }
    )
