"""EC2 Image Builder: builds of image pipelines, lifecycle policies that delete old images, and component documents.

A build ends at once: with an AMI, or with the failure of a planted fault. A policy runs after each build, not once a
day. The commands of components do not run. A policy keeps each image that its tags exclude. The sandbox stores no time
of the last launch, so it does not apply `lastLaunched`.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import jsonschema
import yaml

from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.inputs import rows, table, text_of
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.world.store import Record, World, now

Json = dict[str, Any]

NOT_FOUND = "ResourceNotFoundException"
SERVED = {
    ("PUT", "/StartImagePipelineExecution"),
    ("POST", "/ListImagePipelineImages"),
    ("POST", "/ListImagePipelines"),
}
FAILURES = {"image": "BUILDING", "check": "TESTING"}
"""By kind of fault, the status in which a build fails (botocore 1.44.5, imagebuilder: ImageStatus)."""


def start(world: World, pipeline: Record, build_type: str) -> Record:
    """Build an image of a pipeline, and delete the images that the policies of its recipe no longer keep."""
    recipe = _recipe(world, pipeline)
    with world.transaction():
        place = recipe.id.replace(":image-recipe/", ":image/")
        arn = f"{place}/{world.next_number(f'image build {place}')}"
        failure = _failure(world, pipeline)
        outputs: Json = {
            "arn": arn,
            "pipelineArn": pipeline.id,
            "name": text_of(recipe.inputs, "name"),
            "version": arn.partition(":image/")[2].partition("/")[2],
            "dateCreated": now(),
            "buildType": build_type,
            "parentImage": text_of(recipe.inputs, "parentImage"),
            "state": failure or {"status": "AVAILABLE"},
            "amis": [] if failure else list(_amis(world, pipeline, arn)),
        }
        made = world.insert(Record(types.BUILT_IMAGE, arn, pipeline.name, outputs=outputs))
        _apply_policies(world, recipe)
    return made


def _recipe(world: World, pipeline: Record) -> Record:
    found = world.get(types.IMAGE_RECIPE, text_of(pipeline.inputs, "imageRecipeArn"))
    if found is None:
        raise LookupError(f"the recipe of {pipeline.id} does not exist")
    return found


def _failure(world: World, pipeline: Record) -> Json | None:
    """Return the state of a build that fails because of a fault, or None."""
    for kind, status in FAILURES.items():
        if fault := world.take_fault(kind, pipeline.type, pipeline.name, id=pipeline.id):
            reason = fault.message or f"the workflow failed with the image in the status {status} (a planted fault)"
            return {"status": "FAILED", "reason": reason, "failureContext": {"imageStatus": status}}
    return None


def _amis(world: World, pipeline: Record, arn: str) -> Iterator[Json]:
    """Create the AMI of each region, and yield it as the API describes it."""
    configured = world.get(types.IMAGE_DISTRIBUTION, text_of(pipeline.inputs, "distributionConfigurationArn"))
    regions = rows(configured.inputs.get("distributions")) if configured else [{"region": arn.split(":")[3]}]
    for row in regions:
        settings = table(table(row).get("amiDistributionConfiguration"))
        name = text_of(settings, "name").replace("{{ imagebuilder:buildDate }}", now().replace(":", "-"))
        ami = f"ami-0{secrets.token_hex(8)}"
        # Image Builder sets both tags (docs.aws.amazon.com/imagebuilder/latest/userguide/tag-resources.html).
        tags = {**table(settings.get("amiTags")), "CreatedBy": "EC2 Image Builder", "Ec2ImageBuilderArn": arn}
        world.insert(
            Record(types.AMI, ami, name, inputs={"name": name, "tags": tags}, outputs={"id": ami, "name": name})
        )
        yield {"region": table(row).get("region"), "image": ami, "name": name, "accountId": arn.split(":")[4]}


def _apply_policies(world: World, recipe: Record) -> None:
    """Delete the images of a recipe that are older than the newest N and have no tag of the exclusions."""
    name = text_of(recipe.inputs, "name")
    for policy in world.find(types.IMAGE_LIFECYCLE):
        selected = rows(table(policy.inputs.get("resourceSelection")).get("recipes"))
        if name not in [text_of(table(one), "name") for one in selected] or policy.inputs.get("status") == "DISABLED":
            continue
        for detail in map(table, rows(policy.inputs.get("policyDetails"))):
            rule = table(detail.get("filter"))
            if rule.get("type") != "COUNT" or table(detail.get("action")).get("type") != "DELETE":
                continue
            kept = table(table(table(detail.get("exclusionRules")).get("amis")).get("tagMap"))
            images = [one for one in world.find(types.BUILT_IMAGE, name=name) if one.outputs.get("amis")]
            for image in images[: -int(rule["value"])]:
                if not any(_has_tag(world, ami["image"], kept) for ami in image.outputs["amis"]):
                    _delete(world, image)


def _has_tag(world: World, ami: str, wanted: Json) -> bool:
    record = world.get(types.AMI, ami)
    tags = {**table(record.inputs.get("tags")), **_added_tags(world, ami)} if record else {}
    return any(tags.get(key) == value for key, value in wanted.items())


def _added_tags(world: World, ami: str) -> Json:
    found = [one.inputs for one in world.find(types.TAG) if one.inputs.get("resourceId") == ami]
    return {str(one.get("key")): one.get("value") for one in found}


def _delete(world: World, image: Record) -> None:
    for ami in image.outputs["amis"]:
        world.delete(types.AMI, ami["image"])
    world.delete(types.BUILT_IMAGE, image.id)


class ApiError(Exception):
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
                raise ApiError(NOT_FOUND, f"The resource {arn} does not exist")
            image = start(self._world, pipeline, "USER_INITIATED")
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


# -- component documents ----------------------------------------------------------------------------------------------

# EC2 Image Builder's program AWSTOE runs them. Sources: docs.aws.amazon.com/imagebuilder/latest/userguide, pages
# toe-use-documents.html (the document) and toe-action-modules.html (the actions). AWS publishes no schema. This one has
# what the documents of components use.
ACTIONS = (
    "Assert", "CopyFile", "CreateFile", "CreateFolder", "CreateSymlink", "DeleteFile", "ExecuteBash", "ExecuteBinary",
    "ExecuteDocument", "ReadFile", "Reboot", "S3Download", "SetFileOwner", "SetFilePermissions", "UpdateOS",
    "WebDownload",
)  # fmt: skip
STEP: dict[str, Any] = {
    "type": "object",
    "required": ["name", "action"],
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "action": {"enum": list(ACTIONS)},
        "timeoutSeconds": {"type": "integer"},
        "onFailure": {"enum": ["Abort", "Continue", "Ignore"]},
        "inputs": {"type": ["object", "array"]},
    },
    "if": {"properties": {"action": {"const": "ExecuteBash"}}},
    "then": {
        "required": ["inputs"],
        "properties": {
            "inputs": {
                "required": ["commands"],
                "additionalProperties": False,
                "properties": {"commands": {"type": "array", "minItems": 1, "items": {"type": "string"}}},
            }
        },
    },
}
PHASE: dict[str, Any] = {
    "type": "object",
    "required": ["name", "steps"],
    "additionalProperties": False,
    "properties": {
        "name": {"enum": ["build", "validate", "test", "container-host-test"]},
        "steps": {"type": "array", "minItems": 1, "items": STEP},
    },
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["schemaVersion", "phases"],
    "properties": {
        "schemaVersion": {"enum": [1.0, "1.0"]},
        "phases": {"type": "array", "minItems": 1, "items": PHASE},
    },
}


def document_problems(inputs: dict[str, Any]) -> Iterator[Problem]:
    """Check the document of a component."""
    if isinstance(data := inputs.get("data"), str):
        for text in document_refusals(data):
            yield Problem("data", f"InvalidRequestException: the component document is not valid: {text}")


def document_refusals(data: str) -> Iterator[str]:
    """Yield each problem of a document."""
    try:
        document = yaml.safe_load(data)
    except yaml.YAMLError as error:
        yield f"not YAML: {' '.join(str(error).split())}"
        return
    for each in jsonschema.Draft202012Validator(SCHEMA).iter_errors(document):
        yield f"{each.json_path}: {each.message}"
