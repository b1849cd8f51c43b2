"""Emulate the custom resource definitions of ARC: their installation, their updates and their versions."""

from __future__ import annotations

from collections.abc import Iterator

from pulumi_sandbox.providers.kubernetes.rules.pod_rules import inner
from pulumi_sandbox.providers.resource import Resource
from pulumi_sandbox.world.store import Record, World

DEFINITION = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"
PATCH = f"{DEFINITION}Patch"
GROUP = "actions.github.com"
# actions/actions-runner-controller@9bb16ae, charts/gha-runner-scale-set-controller/crds.
KINDS = ("AutoscalingListener", "AutoscalingRunnerSet", "EphemeralRunner", "EphemeralRunnerSet")
# The sandbox's annotation with the version of the chart that installed a definition.
CHART_VERSION_ANNOTATION = "pulumi-sandbox/chart-version"


def definition_name(kind: str) -> str:
    return f"{kind.lower()}s.{GROUP}"


def find(world: World, kind: str) -> Record | None:
    return world.get(PATCH, definition_name(kind)) or world.get(DEFINITION, definition_name(kind))


def install_missing(world: World, number: str) -> None:
    """Create the missing definitions of a chart, as Helm does at the installation only.

    Source: helm/helm v3.20.2, pkg/action/install.go, installCRDs.
    """
    for kind in KINDS:
        if find(world, kind) is None:
            name, names = definition_name(kind), {"kind": kind, "plural": f"{kind.lower()}s"}
            definition = {
                "metadata": {"name": name, "annotations": {CHART_VERSION_ANNOTATION: number}},
                "spec": {"group": GROUP, "names": names, "scope": "Namespaced"},
            }
            world.insert(Record(DEFINITION, name, name, "", definition, definition, "controller"))


def apply_patch(res: Resource) -> None:
    """Delete the record of the definition: the record of the patch replaces it.

    The provider applies such a patch to the whole definition, which it creates if it is missing.

    Source: pulumi-kubernetes at 94977969, provider/pkg/await/await.go, Creation and updateResource.
    """
    res.world.delete(DEFINITION, res.id, f"taken over by {res.name}")


def refusals(world: World, res: Resource) -> Iterator[str]:
    """Yield an error if a definition is missing: the controller exits, and its release never becomes ready."""
    if res.old_inputs is None and not res.inputs.get("skipCrds"):
        return
    if missing := [definition_name(kind) for kind in KINDS if find(world, kind) is None]:
        yield (
            f"the controller's custom resource definitions are missing: {', '.join(missing)}\n"
            "  hint: a cluster accepts the release, but its pod exits again and again; Helm creates definitions only "
            "at the installation of a release without skipCrds, so create them before the release"
        )


def version_warnings(world: World, number: str) -> Iterator[str]:
    """Yield a warning for each definition that a chart of another minor version installed."""
    for kind in KINDS:
        row = find(world, kind)
        installed = inner(row.inputs, "metadata", "annotations", CHART_VERSION_ANNOTATION) if row else None
        if installed and minor_version(str(installed)) != minor_version(number):
            name = definition_name(kind)
            yield f"{name} is still version {installed}: Helm does not update it, and fields of {number} are lost"


def minor_version(number: str) -> list[str]:
    return number.split(".")[:2]
