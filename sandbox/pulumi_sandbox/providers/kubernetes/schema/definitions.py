"""Custom resource definitions: who brings them into the world, and what a controller of ARC makes of them."""

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
# The sandbox's own mark of what a chart brought: of which version that was.
BROUGHT = "pulumi-sandbox/chart-version"


def name(kind: str) -> str:
    return f"{kind.lower()}s.{GROUP}"


def find(world: World, kind: str) -> Record | None:
    return world.get(PATCH, name(kind)) or world.get(DEFINITION, name(kind))


def bring(world: World, number: str) -> None:
    """What Helm makes of a chart's crds/ when it installs it, and never again: those that are missing
    (helm/helm v3.20.2, pkg/action/install.go, installCRDs)."""
    for kind in KINDS:
        if find(world, kind) is None:
            called, names = name(kind), {"kind": kind, "plural": f"{kind.lower()}s"}
            given = {
                "metadata": {"name": called, "annotations": {BROUGHT: number}},
                "spec": {"group": GROUP, "names": names, "scope": "Namespaced"},
            }
            world.insert(Record(DEFINITION, called, called, "", given, given, "controller"))


def patch(res: Resource) -> None:
    """A patch of a definition makes the one that is missing and takes over the one that is there, as a whole
    (pulumi-kubernetes at 94977969, provider/pkg/await/await.go, Creation and updateResource)."""
    res.world.delete(DEFINITION, res.id, f"taken over by {res.name}")


def refusals(world: World, res: Resource) -> Iterator[str]:
    """A controller that finds no kind of its own ends at once, and its release is never ready."""
    if res.old_inputs is None and not res.inputs.get("skipCrds"):
        return
    if missing := [name(kind) for kind in KINDS if find(world, kind) is None]:
        yield (
            f"the controller finds no definition of its kinds: {', '.join(missing)}\n"
            "  hint: a cluster takes the release, and its pod then ends again and again; Helm brings definitions with "
            "the first version of a release and without skipCrds only, so make them before it"
        )


def old(world: World, number: str) -> Iterator[str]:
    """Definitions of another minor version than a controller's, as far as the sandbox knows who brought them."""
    for kind in KINDS:
        row = find(world, kind)
        brought = inner(row.inputs, "metadata", "annotations", BROUGHT) if row else None
        if brought and minor(str(brought)) != minor(number):
            yield f"{name(kind)} is still that of {brought}: Helm does not update it, and fields of {number} are lost"


def minor(number: str) -> list[str]:
    return number.split(".")[:2]
