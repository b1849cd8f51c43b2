"""The build steps of an image pipeline: build, check on the CPU, signature, attestation, and the tag of a candidate."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import pulumi
import pulumi_gcp as gcp
from pydantic import AfterValidator, Field

from ... import versions
from ...args import Args
from ...errors import invalid
from . import image_names
from .models import ImageBuild
from .steps import build_args, builder, docker_command

if TYPE_CHECKING:
    from pulumi_gcp.cloudbuild import TriggerBuildStepArgs as Step

_KEY = r"projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+"
_KEY_FORM = "projects/<project>/locations/<location>/keyRings/<ring>/cryptoKeys/<key>/cryptoKeyVersions/<number>"


def _key_version(value: str) -> str:
    if re.fullmatch(rf"{_KEY}/cryptoKeyVersions/[1-9][0-9]*", value):
        return value
    if value.startswith("gcpkms://"):
        hint = "remove gcpkms://"
    elif re.fullmatch(_KEY, value):
        hint = "add the version of the key, such as /cryptoKeyVersions/1"
    else:
        hint = "copy it from gcloud kms keys versions list"
    raise invalid("is not a version of a Cloud KMS key", "not-a-kms-key", expected=_KEY_FORM, hint=hint)


def _cosign_image(value: str) -> str:
    path, _, digest = value.partition("@")
    tag = path.rpartition("/")[2].partition(":")[2]
    if digest or tag not in ("", "latest"):
        return value
    raise invalid(
        "has no tag of one version, so another cosign could sign the next image",
        "no-version",
        expected="a tag other than latest, or a digest",
        hint=f"such as {versions.COSIGN_IMAGE.partition('@')[0]}",
    )


class ImageSigning(Args):
    """The signature of the images of a pipeline, by cosign with a key of Cloud KMS."""

    kms_key_version: Annotated[str, AfterValidator(_key_version)] = Field(
        description=f"the version of the key that signs, as {_KEY_FORM}; the purpose of the key is asymmetric signing",
        examples=["projects/acme-ci/locations/us-central1/keyRings/images/cryptoKeys/signer/cryptoKeyVersions/1"],
    )
    cosign_image: Annotated[str, AfterValidator(_cosign_image)] = Field(
        default=versions.COSIGN_IMAGE,
        pattern=r"^[a-z0-9][a-z0-9.-]*(:[0-9]+)?(/[a-z0-9._-]+)+(:[\w.-]+)?(@sha256:[0-9a-f]{64})?$",
        description="the container image of cosign 3 that signs, with its tag or digest",
    )
    attestor: str | None = Field(
        default=None,
        pattern=r"^projects/[^/]+/attestors/[A-Za-z0-9_-]+$",
        description="the attestor of Binary Authorization that has the public key of this version, as "
        "projects/<project>/attestors/<name>; each build also makes an attestation for it, which a policy can require; "
        "by default none",
        examples=["projects/acme-ci/attestors/images"],
    )

    @property
    def key(self) -> str:
        """The resource name of the key, without the version."""
        return self.kms_key_version.partition("/cryptoKeyVersions/")[0]


# All steps of a build share the folder /workspace.
METADATA = "/workspace/.gpu-ci-image.json"
# Shell commands that set `digest` from the metadata file of buildx. The file is JSON with one key for each line.
DIGEST = r"""digest=$(sed -n 's/.*"containerimage\.digest": *"\(sha256:[0-9a-f]\{64\}\)".*/\1/p' "$METADATA")
if [ -z "$digest" ]; then echo "buildx wrote no digest to $METADATA" >&2; exit 1; fi
"""


def image_steps(
    build: ImageBuild,
    check: Sequence[str],
    registry: pulumi.Input[str],
    sign: ImageSigning | None = None,
    *,
    reads_cache: bool = True,
) -> list[Step]:
    """Return the steps of the build. Each runs only if the steps before it have passed.

    Args:
        build: The image.
        check: The command that checks the image, and its arguments.
        registry: The address of the pipeline's registry.
        sign: The key of the signature, and the attestor. Without it, the image is not signed.
        reads_cache: False to run every command of the Dockerfile again, so that it installs newer packages.
    """
    image = pulumi.Output.concat(registry, f"/{build.image}")
    return [
        builder(),
        _build(build, registry, image, reads_cache),
        _script("check", image, check_script(check)),
        *(_signatures(image, sign) if sign else ()),
        _script("candidate", image, candidate_script()),
    ]


def check_script(check: Sequence[str]) -> str:
    """Return the script that runs the check in the pushed image.

    The container has no network, so the image cannot use the service account of the build.
    """
    command, *arguments = map(shlex.quote, check)
    run = f'docker run --rm --network none --entrypoint {command} "$IMAGE@$digest"'
    return f"{_head()}{DIGEST}exec {' '.join([run, *arguments])}\n"


def sign_script() -> str:
    """Return the script that signs the checked digest.

    cosign runs in the network `cloudbuild`, where it gets the credentials of the build's service account for Cloud KMS
    and Artifact Registry (cloud.google.com/build/docs/build-config-file-schema#network). The signature is not recorded
    in Sigstore's public log, so the step needs no other network. Its tag comes from the digest, so a cleanup policy can
    keep it. cosign 3 deprecates --tlog-upload and --new-bundle-format, and has no other flags for this.
    """
    flags = "--yes --k8s-keychain --use-signing-config=false --tlog-upload=false --new-bundle-format=false"
    run = f'docker run --rm --network cloudbuild "$COSIGN" sign {flags} --key "gcpkms://$KEY" "$IMAGE@$digest"'
    return f"{_head()}{DIGEST}exec {run}\n"


def attest_script() -> str:
    """Return the script that makes an attestation of the checked digest for Binary Authorization.

    Only the track beta has the command. With --validate it fails if the attestor does not accept the key. Without it,
    gcloud only warns (lib/surface/container/binauthz/attestations/sign_and_create.py of the Google Cloud SDK).
    """
    command = "gcloud beta container binauthz attestations sign-and-create --quiet --validate"
    options = '--project "$PROJECT" --attestor "$ATTESTOR" --keyversion "$KEY" --artifact-url "$IMAGE@$digest"'
    return f"{_head()}{DIGEST}exec {command} {options}\n"


def candidate_script() -> str:
    """Return the script that adds the tag of a candidate to the checked digest."""
    tag = image_names.tag(image_names.CANDIDATE, "$COMMIT_SHA", "$BUILD_ID")
    return f'{_head()}{DIGEST}exec docker buildx imagetools create --tag "$IMAGE:{tag}" "$IMAGE@$digest"\n'


def _head() -> str:
    return "#!/bin/sh\nset -eu\n"


def _build(build: ImageBuild, registry: pulumi.Input[str], image: pulumi.Output[str], reads_cache: bool) -> Step:
    tag = image_names.tag(image_names.BUILT, "$COMMIT_SHA", "$BUILD_ID")
    args = build_args(build, registry, writes_cache=True)
    args += [] if reads_cache else ["--no-cache"]
    args += ["--sbom=true", "--provenance=mode=max", "--metadata-file", METADATA]
    args += ["--tag", pulumi.Output.concat(image, f":{tag}"), "--push", build.context]
    return docker_command(args)


def _signatures(image: pulumi.Output[str], sign: ImageSigning) -> Iterator[Step]:
    key = f"KEY={sign.kms_key_version}"
    yield _script("sign", image, sign_script(), f"COSIGN={sign.cosign_image}", key)
    if sign.attestor:
        values = (key, f"ATTESTOR={sign.attestor}", "PROJECT=$PROJECT_ID")
        yield _script("attest", image, attest_script(), *values, program=versions.GCLOUD_BUILDER)


def _script(
    step: str, image: pulumi.Output[str], script: str, *values: str, program: str = versions.DOCKER_IMAGE
) -> Step:
    """Return a step that runs a script. Cloud Build replaces substitutions in `env`, but not in a script."""
    return gcp.cloudbuild.TriggerBuildStepArgs(
        id=step,
        name=program,
        script=script,
        envs=[
            pulumi.Output.concat("IMAGE=", image),
            f"METADATA={METADATA}",
            "COMMIT_SHA=$COMMIT_SHA",
            "BUILD_ID=$BUILD_ID",
            *values,
        ],
    )
