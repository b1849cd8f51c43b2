"""Which cluster a provider speaks with: told by its kubeconfig, where that asks for a token of a named one."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from pulumi_sandbox.providers.kubernetes_pod_rules import inner, items

# `aws eks get-token --cluster-name x` and `aws-iam-authenticator token -i x` (docs.aws.amazon.com/eks/latest/userguide/
# create-kubeconfig.html).
FLAGS = ("--cluster-name", "--cluster-id", "-i")


def name(kubeconfig: Any) -> str:
    """Empty where there is none, or none that is known yet."""
    try:
        # The provider takes the text itself or the path of a file.
        text = kubeconfig if "\n" in str(kubeconfig) or "{" in str(kubeconfig) else Path(kubeconfig).read_text()
        document = yaml.safe_load(text)
    except (OSError, TypeError, ValueError, yaml.YAMLError):
        return ""
    current = next(
        (inner(one, "context", "user") for _, one in items(inner(document, "contexts"))
         if one.get("name") == inner(document, "current-context")), None,
    )  # fmt: skip
    for _, user in items(inner(document, "users")):
        if current in (None, user.get("name")):
            arguments = [str(one) for one in inner(user, "user", "exec", "args") or ()]
            for flag, value in pairwise(arguments):
                if flag in FLAGS:
                    return value
    return ""
