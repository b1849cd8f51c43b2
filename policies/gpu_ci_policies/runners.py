"""The rules that runners take one job each, and have a version to which GitHub sends jobs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .pods import CHARTS, SCALE_SET_CHART, chart, containers
from .properties import at, boolean, document, texts
from .rule import Resource, Rule, RuleContext
from .tokens import decoded

# The registration of a runner in a script, with its arguments. A backslash continues a line.
CONFIGURES = re.compile(r"\bconfig\.(?:sh|cmd)\b(?P<arguments>(?:\\\r?\n|[^\n;&|])*)")
OLD_CHART = "actions-runner-controller"
OLD_KINDS = {
    "kubernetes:actions.summerwind.dev/v1alpha1:RunnerDeployment": ("spec", "template", "spec", "ephemeral"),
    "kubernetes:actions.summerwind.dev/v1alpha1:RunnerSet": ("spec", "ephemeral"),
    "kubernetes:actions.summerwind.dev/v1alpha1:Runner": ("spec", "ephemeral"),
}
VERSION = r"(\d+\.\d+\.\d+)"
ARCHIVE = re.compile(rf"actions-runner-(?:linux|win|osx)-(?:x64|arm64|arm)-{VERSION}\.")
TAG = re.compile(rf".*:v?{VERSION}(?:-[\w.-]*)?(?:@sha256:[0-9a-f]+)?")
# The name of the runner's container in the template of a scale set, by the rule of the chart.
RUNNER_CONTAINER = "[runner]"


def persistent_runners(resource: Resource, _context: RuleContext) -> Iterator[str]:
    for path, text in texts(resource.props):
        for readable in (text, decoded(text)):
            for found in CONFIGURES.finditer(readable):
                if "--url" in found["arguments"] and "--ephemeral" not in found["arguments"]:
                    yield f"{path} registers a runner without --ephemeral"
    if chart(resource) == OLD_CHART:
        yield f"the chart {OLD_CHART} is the controller of before scale sets, whose runners may last"
    switch = OLD_KINDS.get(resource.type)
    if switch and boolean(at(resource.props, *switch)) is False:
        yield f"{'.'.join(switch)} is off"


def job_pods(resource: Resource, _context: RuleContext) -> Iterator[str]:
    mode = at(resource.props, "values", "containerMode", "type")
    if chart(resource) == SCALE_SET_CHART and mode in ("kubernetes", "kubernetes-novolume"):
        yield f"values.containerMode.type is {mode}"


def versions(resource: Resource) -> dict[str, str]:
    """Return the runner versions of a resource by path. Images whose tag is not a version are left out."""
    found = {}
    config = document(at(resource.props, "metadata", "gpu-agent-config"))
    version = at(config, "runner", "version")
    if isinstance(version, str) and re.fullmatch(VERSION, version):
        found["metadata.gpu-agent-config: runner.version"] = version
    for path, container in containers(resource):
        image = at(container, "image")
        runs = path.endswith(RUNNER_CONTAINER) and resource.type in {*CHARTS, *SCALE_SETS}
        if runs and isinstance(image, str) and (tag := TAG.fullmatch(image)):
            found[f"{path}.image"] = tag[1]
    for path, text in texts(resource.props):
        for readable in (text, decoded(text)):
            if archive := ARCHIVE.search(readable):
                found[path] = archive[1]
    return found


SCALE_SETS = {"kubernetes:actions.github.com/v1alpha1:AutoscalingRunnerSet"}


def refused_versions(resource: Resource, _context: RuleContext) -> Iterator[str]:
    from gpu_catalog import staleness  # an optional package: Rule.needs_catalog

    for path, version in versions(resource).items():
        if floor := staleness.runner_floor(version):
            yield f"{path} is {version}, and GitHub registers {floor} or later"


def outdated_versions(resource: Resource, context: RuleContext) -> Iterator[str]:
    from gpu_catalog import staleness

    for path, version in versions(resource).items():
        if not staleness.runner_floor(version):
            yield from (f"{path}: {stale}" for stale in staleness.runner(version, context.today))


RULE_OF_GITHUB = "https://docs.github.com/en/actions/reference/runners/self-hosted-runners"

RULES = (
    Rule(
        name="ephemeral-runners",
        title="A runner runs one job and then ends.",
        why="Files and processes of a job would reach the next job, which may belong to another user.",
        fix="Register with a just-in-time configuration, or with config.sh --ephemeral. On Kubernetes, use the chart "
        "gha-runner-scale-set.",
        sources=("https://docs.github.com/en/actions/reference/security/secure-use#hardening-for-self-hosted-runners",),
        check=persistent_runners,
    ),
    Rule(
        name="no-job-pods",
        title="Jobs on Kubernetes run in the runner's own pod.",
        why="In the container modes kubernetes and kubernetes-novolume, a runner's account may create pods and read "
        "Secrets. A job that gets the runner's token can read the key of the GitHub App, and register runners for the "
        "whole organization. The rule is advisory, because a team may trust all its workflows.",
        fix="Use an image with the runner and the tools of the job, without a container mode.",
        sources=(
            "https://github.com/actions/actions-runner-controller/blob/master/charts/gha-runner-scale-set/templates/kube_mode_role.yaml",
            "https://kubernetes.io/docs/concepts/security/rbac-good-practices/#workload-creation",
        ),
        check=job_pods,
        level="advisory",
    ),
    Rule(
        name="runner-accepted",
        title="The version of a runner is one that GitHub registers.",
        why="GitHub refuses older versions. The machines start and cost money, but get no job.",
        fix="Use a newer version of github.com/actions/runner, or an image with a newer version.",
        sources=(RULE_OF_GITHUB, "catalog/gpu_catalog/data/runners.json"),
        check=refused_versions,
        needs_catalog=True,
    ),
    Rule(
        name="runner-fresh",
        title="A runner is updated within 30 days of a newer release.",
        why="GitHub gives older runners no jobs. The rule is advisory, because an unchanged stack would start to fail "
        "after a release, and the installed catalog may not know the newest releases.",
        fix="Use a newer version of github.com/actions/runner, or an image with a newer version.",
        sources=(RULE_OF_GITHUB, "catalog/gpu_catalog/data/runners.json"),
        check=outdated_versions,
        level="advisory",
        needs_catalog=True,
    ),
)
