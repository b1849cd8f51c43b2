"""What runs in a pod is the image that was tried, and a pod gets the GPUs it asks for."""

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
        # A limit alone is the request as well, so only what is requested can differ from it.
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
        title="Pods of jobs, checks and runners run an image by its digest.",
        why="Whoever can push to a registry can change what a tag means, and the check of a pool proves one image, "
        "which then is not the one that runs.",
        fix="Write the image as name:tag@sha256:…; docker buildx imagetools inspect tells the digest.",
        sources=("https://kubernetes.io/docs/concepts/containers/images/#image-names",),
        check=unpinned_images,
    ),
    Rule(
        name="gpu-request-is-limit",
        title="A container asks for as many GPUs as it may have.",
        why="Kubernetes gives out whole GPUs, and refuses such a pod when it is made, which is after the deployment.",
        fix="Give the GPU under resources.limits, and under resources.requests the same number or nothing.",
        sources=("https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/",),
        check=unequal_gpu_requests,
    ),
)
