"""Emulate image pulls of the kubelet, for images that sandbox.yaml describes.

`values: {kubernetes: {images: [{match: "ghcr.io/acme/*", private: true, user: 1001, userPackages: folder}]}}`

Sources, k8s.io/kubernetes v1.36.0: pkg/kubelet/kubelet_pods.go (getPullSecretsForPod), pkg/kubelet/images/
image_manager.go, pkg/credentialprovider/secrets/secrets.go (MakeDockerKeyring). The error without a login: containerd,
core/remotes/docker/authorizer.go and auth/fetch.go.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pulumi_sandbox.providers.kubernetes.rules.pod_rules import inner, items
from pulumi_sandbox.world.store import World

SECRET = "kubernetes:core/v1:Secret"  # noqa: S105
LOGIN = "kubernetes.io/dockerconfigjson"
# pkg/kubelet/events/event.go, FailedToRetrieveImagePullSecret. The kubelet continues without the missing Secrets.
NO_SECRETS = (
    "FailedToRetrieveImagePullSecret: Unable to retrieve some image pull secrets ({}); attempting to pull the image "
    "may not succeed."
)
UNAUTHORIZED = (
    'failed to pull and unpack image "{0}": failed to resolve reference "{0}": failed to authorize: failed to fetch '
    "anonymous token: unexpected status from GET request to https://{1}/token: 401 Unauthorized"
)


@dataclass(frozen=True)
class Images:
    """The images that the pods of one cluster use."""

    world: World
    values: Callable[[], Mapping[str, Any]]
    """Returns the values of sandbox.yaml and the fixtures for the cluster."""
    project: Path

    def entry_of(self, image: str) -> Mapping[str, Any]:
        """Return the first entry that matches the image; empty if no entry matches."""
        found = (one for _, one in items(self.values().get("images")) if fnmatchcase(image, str(one.get("match"))))
        return next(found, {})

    def missing_secrets(self, namespace: str, spec: Mapping[str, Any]) -> str:
        """Return the event about missing pull secrets; empty if all exist."""
        missing = [name for name in _pull_secrets(spec) if not self._exists(namespace, name)]
        return NO_SECRETS.format(", ".join(missing)) if missing else ""

    def back_off(self, namespace: str, spec: Mapping[str, Any]) -> str:
        """Return the message of ImagePullBackOff for the first image that a registry refuses; else empty."""
        for kind in ("initContainers", "containers"):
            for _, container in items(spec.get(kind)):
                image = str(container.get("image"))
                registry = image.partition("/")[0]
                if self.entry_of(image).get("private") and registry not in self._logins(namespace, spec, registry):
                    return f'Back-off pulling image "{image}": ErrImagePull: {UNAUTHORIZED.format(image, registry)}'
        return ""

    def pull_failures(self, namespace: str, spec: Mapping[str, Any]) -> list[str]:
        """Return the events because of which a pod would not start."""
        return [each for each in (self.missing_secrets(namespace, spec), self.back_off(namespace, spec)) if each]

    def user_packages(self, spec: Mapping[str, Any], container: Mapping[str, Any]) -> str:
        """Return the folder of packages that pip installed for the image's user (`pip install` after USER).

        Python finds ~/.local only as that user with an unchanged HOME. Another user may not enter a home of mode 0750
        (Ubuntu's adduser). Another HOME changes the folder (docs.python.org/3/library/site.html#site.USER_BASE).
        """
        entry = self.entry_of(str(container.get("image")))
        runs_as = inner(container, "securityContext", "runAsUser") or inner(spec, "securityContext", "runAsUser")
        other_home = any(one.get("name") == "HOME" for _, one in items(container.get("env")))
        if not entry.get("userPackages") or runs_as not in (None, entry.get("user")) or other_home:
            return ""
        return str(self.project.absolute() / entry["userPackages"])

    def _exists(self, namespace: str, name: str) -> bool:
        identity = f"{namespace}/{name}"
        existing: Collection[str] = self.values().get("secrets") or ()
        return identity in existing or self.world.get(SECRET, identity) is not None

    def _logins(self, namespace: str, spec: Mapping[str, Any], registry: str) -> list[str]:
        """Return the registries for which the pod's Secrets have a login.

        A Secret with unknown contents counts as a login for the given registry.
        """
        registries: list[str] = []
        for name in _pull_secrets(spec):
            row = self.world.get(SECRET, f"{namespace}/{name}")
            if row is None:
                registries += [registry] if self._exists(namespace, name) else []
            elif row.inputs.get("type") == LOGIN:
                text = inner(row.inputs, "stringData", ".dockerconfigjson")
                registries += json.loads(text)["auths"] if isinstance(text, str) else [registry]
        return registries


def _pull_secrets(spec: Mapping[str, Any]) -> Iterator[str]:
    return (str(one.get("name")) for _, one in items(spec.get("imagePullSecrets")))
