"""The calls of EC2 Image Builder that start a build and list images. Source: botocore 1.44.5, imagebuilder."""

from __future__ import annotations

from typing import Any

from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.aws.imagebuilder import builds
from pulumi_sandbox.world.store import Record, World

Json = dict[str, Any]
NOT_FOUND = "ResourceNotFoundException"
SERVED = {
    ("PUT", "/StartImagePipelineExecution"),
    ("POST", "/ListImagePipelineImages"),
    ("POST", "/ListImagePipelines"),
}


class ImageBuilderError(Exception):
    """A refusal with the error code that clients expect."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class ImageBuilderApi:
    """The answers of the API, independent of HTTP."""

    def __init__(self, world: World) -> None:
        self._world = world

    def serves(self, method: str, path: str) -> bool:
        return (method, path) in SERVED

    def answer(self, path: str, body: Json) -> Json:
        if path == "/ListImagePipelines":
            wanted = [value for each in body.get("filters") or [] if each["name"] == "name" for value in each["values"]]
            found = self._world.find(types.IMAGE_PIPELINE)
            chosen = [each for each in found if not wanted or each.inputs["name"] in wanted]
            return {"imagePipelineList": [{"arn": each.id, "name": each.inputs["name"]} for each in chosen]}
        arn = str(body.get("imagePipelineArn") or "")
        pipeline = self._world.get(types.IMAGE_PIPELINE, arn)
        if path == "/StartImagePipelineExecution":
            if pipeline is None:
                raise ImageBuilderError(NOT_FOUND, f"The resource {arn} does not exist")
            image = builds.start(self._world, pipeline, "USER_INITIATED")
            return {"clientToken": body.get("clientToken"), "imageBuildVersionArn": image.id}
        # "If the ARN that you specify doesn't exist, Image Builder returns an empty list" (the same model).
        images = self._world.find(types.BUILT_IMAGE, pipelineArn=arn)
        return {"imageSummaryList": [_summary(image) for image in images]}


def _summary(image: Record) -> Json:
    names = ("arn", "name", "version", "state", "dateCreated", "buildType")
    return {
        **{name: image.outputs[name] for name in names},
        "type": "AMI",
        "platform": "Linux",
        "outputResources": {"amis": image.outputs["amis"]},
    }
