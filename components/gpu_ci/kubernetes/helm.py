"""The base class of components around a Helm chart."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from ..component import Component

_DASHED = re.compile(r'"x-kubernetes-[a-z-]+":')


@cache
def definitions_file(name: str) -> dict[str, Any]:
    """Return a file of this package with the custom resource definitions of a chart, and their version.

    The Pulumi SDK uses names with underscores. The provider converts them back to dashes (pulumi-kubernetes at
    94977969, provider/pkg/provider/provider.go).
    """
    text = files(__package__).joinpath(name).read_text(encoding="utf-8")
    return dict(json.loads(_DASHED.sub(lambda found: found[0].replace("-", "_"), text)))


class HelmComponent(Component):
    """A component around a Helm chart: its namespace, and its release."""

    def create_namespace(self, name: str, pod_security: str = "restricted") -> pulumi.Output[str]:
        """Create the namespace of the chart, and return its name.

        Args:
            name: The name of the namespace.
            pod_security: The Pod Security Standard that the pods must meet: privileged, baseline or restricted.
        """
        namespace = kubernetes.core.v1.Namespace(
            f"{self.pulumi_resource_name}-namespace",
            metadata={"name": name, "labels": {"pod-security.kubernetes.io/enforce": pod_security}},
            opts=self.child(),
        )
        return namespace.metadata.name

    def define(self, definitions: Iterable[Mapping[str, Any]]) -> list[pulumi.Resource]:
        """Create or take over the definitions of the chart. They stay when the component is deleted.

        Helm installs the definitions of a chart once, and never updates them (helm.sh/docs/chart_best_practices/
        custom_resource_definitions). So Pulumi applies the definitions as patches. A patch also takes over an existing
        definition, of Helm or kubectl. A normal resource would fail if the definition exists (pulumi-kubernetes
        4.29.0).
        """
        return [
            kubernetes.apiextensions.v1.CustomResourceDefinitionPatch(
                f"{self.pulumi_resource_name}-{definition['spec']['names']['plural']}",
                metadata={
                    "name": definition["metadata"]["name"],
                    "annotations": {**definition["metadata"]["annotations"], "pulumi.com/patchForce": "true"},
                },
                spec=definition["spec"],
                opts=self.child(retain_on_delete=True),
            )
            for definition in definitions
        ]

    def install(
        self,
        chart: str,
        version: str,
        namespace: pulumi.Input[str],
        values: dict[str, Any],
        *,
        repository: str | None = None,
        digest: str = "",
        release_name: str = "",
        options: dict[str, Any] | None = None,
        **properties: Any,
    ) -> kubernetes.helm.v3.Release:
        """Install the chart. Outputs of the release wait until the chart's Deployments and DaemonSets are ready.

        On a replacement, the old release is deleted first. Two releases cannot have the same name, and both would
        create the cluster-wide objects of the chart.

        Args:
            chart: The name of the chart in `repository`, or its address in an OCI registry.
            version: The version of the chart.
            namespace: The namespace of the release.
            values: The values of the chart.
            repository: The address of the web page with the chart; None for an OCI registry.
            digest: The digest of the chart in its OCI registry. Helm refuses other content, and a version in the
                registry that has another digest (helm/helm v3.18.0 to v3.21.4: pkg/registry/client.go,
                ValidateReference; tried with these versions and v3.20.2 against a registry). Pulumi's resource passes
                the address and the version to it (pulumi/pulumi-kubernetes@94977969, with Helm v3.20.2:
                provider/pkg/provider/helm_release.go, locateChart).
            release_name: The name of the release; by default the name of the component.
            options: Additional options of the release, such as depends_on.
            properties: Additional properties of the release, such as skip_crds.
        """
        name = self.pulumi_resource_name
        return kubernetes.helm.v3.Release(
            f"{name}-release",
            name=release_name or name,
            namespace=namespace,
            chart=f"{chart}@{digest}" if digest else chart,
            repository_opts=None if repository is None else {"repo": repository},
            version=version,
            values=values,
            opts=self.child(delete_before_replace=True, **(options or {})),
            **properties,
        )
