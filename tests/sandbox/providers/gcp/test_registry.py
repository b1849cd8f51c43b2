"""The sandbox's Cloud Build and Artifact Registry: answers, permissions, steps and the clean-up of images."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.registry import INDEX, MANIFEST, Image, cleaned
from pulumi_sandbox.providers.machines.local_services import Call
from pulumi_sandbox.world.store import World

from tests.gpu_ci.cli.doctor.google_apis import compare
from tests.gpu_ci.cli.image_cloud import IMAGE, OWNER, PLACE, REPOSITORY, TRIGGER, ImageCloud

NOW = datetime(2026, 11, 26, tzinfo=UTC)


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[ImageCloud]:
    world = World(tmp_path / "world.db")
    found = ImageCloud(world)
    found.deploy()
    yield found
    found.builds.close()
    world.close()


def asked(cloud: ImageCloud, path: str, body: Any = None, who: str = OWNER, **query: list[str]) -> tuple[int, Any]:
    service = cloud.registry.answer if "dockerImages" in path else cloud.builds.answer
    answer = service(Call("GET" if body is None else "POST", f"/v1/{path}", query, who, body))
    return answer.status, json.loads(answer.body)


def test_each_answer_has_the_form_of_its_discovery_document(cloud: ImageCloud) -> None:
    status, operation = asked(cloud, f"{TRIGGER}:run", {"source": {"branchName": "main"}})
    assert status == 200
    compare(operation | {"metadata": {}}, "cloudbuild", "Operation")
    build = operation["metadata"]["build"]
    compare(build, "cloudbuild", "Build")
    cloud.builds.wait(60)
    ended = asked(cloud, f"{PLACE}/builds/{build['id']}")[1]
    assert (build["status"], ended["status"]) == ("WORKING", "SUCCESS")
    status, images = asked(cloud, f"{REPOSITORY}/dockerImages")
    assert status == 200
    compare(images, "artifactregistry", "ListDockerImagesResponse")
    index, *parts = images["dockerImages"]
    commit = build["substitutions"]["COMMIT_SHA"]
    assert index["tags"] == [f"build-{commit}-{build['id']}", f"candidate-{commit}-{build['id']}"]
    assert [each["mediaType"] for each in (index, *parts)] == [INDEX, MANIFEST, MANIFEST]
    assert all("tags" not in each and each["uri"].startswith(f"{IMAGE}@sha256:") for each in parts)


def test_an_account_without_permissions_is_refused(cloud: ImageCloud) -> None:
    for path, body in ((f"{TRIGGER}:run", {}), (f"{REPOSITORY}/dockerImages", None), (f"{PLACE}/builds/b", None)):
        assert asked(cloud, path, body, who="Bearer unknown")[0] in (401, 403)


def test_a_build_whose_account_may_not_write_to_the_registry_pushes_nothing(cloud: ImageCloud) -> None:
    grant = f"{REPOSITORY}/writer"
    row = cloud.world.get(types.REPOSITORY_MEMBER, grant)
    assert row
    cloud.world.update(types.REPOSITORY_MEMBER, grant, inputs=row.inputs | {"role": "roles/artifactregistry.reader"})
    build = cloud.build()
    assert build["status"] == "FAILURE"
    assert "artifactregistry.repositories.uploadArtifacts" in build["statusDetail"]
    assert cloud.digests() == []


SIGN = {"kmsKeyVersion": "projects/keys/locations/us-central1/keyRings/r/cryptoKeys/k/cryptoKeyVersions/2"}


def stored(cloud: ImageCloud) -> list[Image]:
    repository = cloud.world.get(types.REPOSITORY, REPOSITORY)
    assert repository
    return cloud.registry.images(repository)


def test_a_signature_has_the_tag_that_cosign_gives_it_and_outlives_the_image(cloud: ImageCloud) -> None:
    sign = {**SIGN, "attestor": "projects/keys/attestors/images"}  # an attestation is no version
    cloud.deploy(sign=sign, registry={"keepMostRecent": 1, "deleteAfterDays": 10})
    assert cloud.build()["status"] == "SUCCESS"
    index, image, attestation, signature = stored(cloud)
    assert [tag.split("-")[0] for tag in index.tags] == ["build", "candidate"]
    assert signature.tags == [index.digest.replace(":", "-") + ".sig"]
    assert (signature.package, signature.media_type) == (index.package, MANIFEST)
    # A second build displaces the first image and its parts after 10 days, but not its signature.
    assert cloud.build(after_days=11)["status"] == "SUCCESS"
    left = {each.digest for each in stored(cloud)}
    assert (len(left), signature.digest in left) == (5, True)
    assert not {index.digest, image.digest, attestation.digest} & left


@pytest.mark.parametrize(
    ("role", "permission"),
    [
        ("roles/cloudkms.viewer", "cloudkms.cryptoKeys.get"),
        ("roles/cloudkms.signerVerifier", "cloudkms.cryptoKeyVersions.useToSign"),
    ],
)
def test_an_image_that_is_not_signed_is_no_candidate(cloud: ImageCloud, role: str, permission: str) -> None:
    cloud.deploy(sign=SIGN)
    [grant] = [each for each in cloud.world.find(types.KEY_MEMBER) if each.inputs["role"] == role]
    cloud.world.update(types.KEY_MEMBER, grant.id, inputs=grant.inputs | {"cryptoKeyId": "projects/keys/other"})
    build = cloud.build()
    key = SIGN["kmsKeyVersion"].partition("/cryptoKeyVersions")[0]
    assert (build["status"], build["statusDetail"]) == (
        "FAILURE", f"PermissionDenied: Permission '{permission}' denied on resource '{key}'"
    )  # fmt: skip
    assert [[tag.split("-")[0] for tag in each.tags] for each in stored(cloud)] == [["build"], [], []]


def image(digest: str, days: float, *tags: str, package: str = "gpu", children: tuple[str, ...] = ()) -> Image:
    uploaded = (NOW - timedelta(days=days)).isoformat()
    return Image(package, digest, uploaded, INDEX if children else MANIFEST, list(tags), list(children))


DELETE = {"action": "DELETE", "condition": {"tagState": "ANY", "olderThan": "864000s"}}


@pytest.mark.parametrize(
    ("policies", "left"),
    [
        ([], "abcde"),
        ([DELETE], "a"),
        ([DELETE, {"action": "KEEP", "mostRecentVersions": {"keepCount": 2, "packageNamePrefixes": ["gpu"]}}], "ab"),
        ([DELETE, {"action": "KEEP", "mostRecentVersions": {"keepCount": 1}}], "ae"),
        ([DELETE, {"action": "KEEP", "condition": {"versionNamePrefixes": ["c"]}}], "acd"),
        ([DELETE, {"action": "KEEP", "condition": {"tagState": "TAGGED"}}], "acd"),
        ([DELETE | {"condition": {"tagPrefixes": ["v"], "olderThan": "10d"}}], "abde"),
        ([DELETE | {"condition": {"tagState": "UNTAGGED", "newerThan": "12d"}}], "acde"),
        ([DELETE | {"condition": {"packageNamePrefixes": ["cache"]}}], "abcd"),
    ],
)
def test_cleanup_policies_keep_and_delete_as_documented(policies: list[Any], left: str) -> None:
    images = [
        image("a", 5, "new"),
        image("b", 11),
        image("c", 20, "v1", children=("d",)),
        image("d", 20),
        image("e", 30, package="cache/gpu"),
    ]
    assert "".join(each.digest for each in cleaned(images, policies, NOW)) == left
