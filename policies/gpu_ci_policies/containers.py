"""The rules of containers: images are pinned, and a pod's GPU limit equals its GPU request."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .pods import GPU, JOBS, containers
from .properties import UNKNOWN, at, mapping
from .rule import Resource, Rule, RuleContext

PINNED = re.compile(r".+@sha256:[0-9a-f]{64}")


def unpinned_images(resource: Resource, _context: RuleContext) -> Iterator[str]:
    if resource.type not in JOBS:
        return
    for path, container in containers(resource):
        image = at(container, "image")
        if isinstance(image, str) and not PINNED.fullmatch(image):
            yield f"{path}.image is {image}, which has no digest"


def unequal_gpu_requests(resource: Resource, _context: RuleContext) -> Iterator[str]:
    for path, container in containers(resource):
        requests, most = mapping(at(container, "resources", "requests")), at(container, "resources", "limits")
        # Without a request, Kubernetes uses the limit as the request. So only a given request can differ.
        for name in sorted(filter(GPU.fullmatch, requests)):
            request, limit = requests[name], at(most, name)
            if request is UNKNOWN or limit is UNKNOWN:
                continue
            if limit is None:
                yield f"{path}.resources.requests has {name} and the limits have none"
            elif str(request) != str(limit):
                yield f"{path}.resources asks for {request} of {name} and has a limit of {limit}"


RULES = (
    Rule(
        name="pinned-images",
        title="Pods of jobs, checks and runners name their image by digest.",
        why="A user who can push to a registry can move a tag. Then the pool runs another image than the "
        "image that its check has tested.",
        fix="Write the image as name:tag@sha256:…; docker buildx imagetools inspect prints the digest.",
        sources=("https://kubernetes.io/docs/concepts/containers/images/#image-names",),
        check=unpinned_images,
    ),
    Rule(
        name="gpu-request-is-limit",
        title="The GPU request of a container equals its limit.",
        why="Kubernetes assigns whole GPUs. It refuses a pod with another request only when it creates the pod, which "
        "is after the deployment.",
        fix="Set the number of GPUs under resources.limits, and the same number or nothing under resources.requests.",
        sources=("https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/",),
        check=unequal_gpu_requests,
    ),
)
