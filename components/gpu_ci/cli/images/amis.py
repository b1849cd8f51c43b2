"""The candidates of pipelines of kind ami, from EC2 Image Builder.

An image is available only if it passed its tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gpu_ci.aws.limits.eks_api import Account, ApiError, AwsClient
from gpu_ci.aws.resource_names import pipeline_name
from gpu_ci.cli.images.pipelines import FAILED, MISSING, PASSED, Candidate, Pipeline, PoolPin
from gpu_ci.cli.output import InputError
from gpu_ci.stack.clusters import CLUSTERS

_CHECKS = {"AVAILABLE": PASSED, "FAILED": FAILED}
"""The result by the status of an image (botocore 1.44.5, imagebuilder: ImageStatus). Others: the build has not ended.

Image Builder distributes an image, and makes it available, only after its tests have passed.
"""

_GONE = ("CANCELLED", "DELETED", "DEPRECATED", "DISABLED")
"""The statuses of images that no pool should get."""

connect = AwsClient
"""Tests replace this class."""


def candidates(pipeline: Pipeline) -> list[Candidate]:
    """Return the images of all builds. A failed build has no AMI, so its name is the version of the build."""
    return [_candidate(pipeline, each) for each in _images(pipeline) if each["state"]["status"] not in _GONE]


def owns(pipeline: Pipeline, reference: str) -> bool:
    """Return True for an AMI that the pipeline built, and that still exists."""
    return any(each.reference == reference for each in candidates(pipeline) if reference)


def keep_hint(pipeline: Pipeline, pin: PoolPin) -> str:
    """Return what keeps the image, or "" for a pool whose tag the lifecycle policy of the pipeline excludes."""
    user = f"{pin.file.stack}/{pin.pool}"
    listed = user in (pipeline.spec.choices.get("usedBy") or ())
    own = pin.file.path == pipeline.file.path
    return "" if own or listed else f"add {user} to usedBy of {pipeline.spec.path} in {pipeline.file.name}"


def _candidate(pipeline: Pipeline, image: Mapping[str, Any]) -> Candidate:
    amis = image.get("outputResources", {}).get("amis", [])
    ami = next((str(each["image"]) for each in amis if each.get("region") == pipeline.spec.region), "")
    check = _CHECKS.get(str(image["state"]["status"]), MISSING)
    return Candidate(
        ami or str(image["version"]),
        ami,
        f"recipe {str(image['version']).partition('/')[0]}",
        check if ami or check != PASSED else MISSING,
        datetime.fromisoformat(str(image["dateCreated"])),
    )


def _images(pipeline: Pipeline) -> list[dict[str, Any]]:
    """Return all images of the pipeline.

    Raises:
        InputError: AWS refuses the request or cannot be reached, or the pipeline does not exist.
    """
    where = f"{pipeline.file.name}: {pipeline.spec.path}"
    clusters = pipeline.file.values[CLUSTERS]
    cluster = clusters[pipeline.spec.choices["clusterName"]]
    account = Account(pipeline.spec.region, cluster.get("profile", ""), cluster.get("roleArn", ""))
    name = pipeline_name(pipeline.file.stack, pipeline.name)
    try:
        client = connect("imagebuilder", account)
        filters = [{"name": "name", "values": [name]}]
        found = _pages(client, "list_image_pipelines", "imagePipelineList", filters=filters)
        arn = next((each["arn"] for each in found if each["name"] == name), "")
        if not arn:
            raise InputError(
                f"{where}: {pipeline.spec.region} has no Image Builder pipeline {name}",
                hint="deploy it first: pulumi up",
            )
        return _pages(client, "list_image_pipeline_images", "imageSummaryList", imagePipelineArn=arn)
    except ApiError as error:
        raise InputError(
            f"{where}: Image Builder did not list the images",
            got=str(error),
            expected="imagebuilder:ListImagePipelines and imagebuilder:ListImagePipelineImages",
            hint="check the credentials: aws sts get-caller-identity",
        ) from None


def _pages(client: AwsClient, operation: str, key: str, **arguments: Any) -> list[dict[str, Any]]:
    """Return the entries of all pages of a list."""
    found: list[dict[str, Any]] = []
    token: dict[str, str] = {}
    while True:
        answer = client.call(operation, **arguments, **token)
        found += answer.get(key, [])
        if not answer.get("nextToken"):
            return found
        token = {"nextToken": answer["nextToken"]}
