"""Emulate the images that builds push to Artifact Registry.

Paths and responses follow the discovery document artifactregistry v1. The sandbox has no Docker: it computes the effect
of the docker commands that a build calls. The digest of an image is a hash of the arguments, the commit and the build.
A signature of cosign is a manifest with the tag that cosign gives it. A planted fault `check` makes `docker run` fail.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.build_steps import WORKSPACE, BuildFailed, Docker
from pulumi_sandbox.providers.gcp.machine_apis import error_answer
from pulumi_sandbox.providers.gcp.names import last, part
from pulumi_sandbox.providers.gcp.project_apis import ProjectApis
from pulumi_sandbox.providers.inputs import rows, table
from pulumi_sandbox.providers.machines.local_server import Answer, as_json
from pulumi_sandbox.providers.machines.local_services import Call
from pulumi_sandbox.world.store import Record, World

IMAGES = re.compile(r"/v1/(projects/[^/]+/locations/[^/]+/repositories/[^/]+)/dockerImages")
REFERENCE = re.compile(r"(?P<region>[^/]+)-docker\.pkg\.dev/(?P<project>[^/]+)/(?P<repository>[^/]+)/(?P<package>.+)")
WRITER_ROLES = ("roles/artifactregistry.writer", "roles/artifactregistry.repoAdmin", "roles/artifactregistry.admin")
KEY_SCHEME = "gcpkms://"
SIGNER_ROLES = ("roles/cloudkms.signerVerifier", "roles/cloudkms.cryptoOperator")
READER_ROLES = ("roles/cloudkms.viewer", "roles/cloudkms.admin")
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
PAGE_SIZE = 100


@dataclass
class Image:
    """One version of a package in a repository."""

    package: str
    digest: str
    uploaded: str
    media_type: str
    tags: list[str] = field(default_factory=list)
    children: list[str] = field(default_factory=list)
    """The digests of the manifests that an index lists."""

    @property
    def age_from(self) -> datetime:
        return datetime.fromisoformat(self.uploaded)


@dataclass
class Registry:
    """The images of the repositories. `clock` returns the time of builds and of the clean-up."""

    world: World
    projects: ProjectApis
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def answer(self, call: Call) -> Answer:
        """Answer projects.locations.repositories.dockerImages.list."""
        match = IMAGES.fullmatch(call.path)
        if match is None or call.method != "GET":
            return error_answer(404, "NOT_FOUND", f"The sandbox does not serve {call.method} {call.path}.")
        if refusal := self.projects.refusal(call, part(match[1], "projects"), "artifactregistry.dockerimages.list"):
            return refusal
        repository = self.world.get(types.REPOSITORY, match[1])
        if repository is None:
            return error_answer(404, "NOT_FOUND", "Requested entity was not found.")
        found = [_answer(match[1], each) for each in self.images(repository)]
        start = int(call.query.get("pageToken", ["0"])[-1])
        size = int(call.query.get("pageSize", [str(PAGE_SIZE)])[-1]) or PAGE_SIZE
        more = {"nextPageToken": str(start + size)} if start + size < len(found) else {}
        return as_json(200, {"dockerImages": found[start : start + size], **more})

    def images(self, repository: Record) -> list[Image]:
        """Return the images of a repository after its cleanup policies have run."""
        stored = self.world.setting(_key(repository))
        found = [Image(**each) for each in json.loads(stored or "[]")]
        left = cleaned(found, rows(repository.inputs.get("cleanupPolicies")), self.clock())
        if len(left) != len(found):
            self.store(repository, left)
        return left

    def docker(self, account: str, substitutions: Mapping[str, str], trigger: Record | None = None) -> Docker:
        """Return the docker of a build with this service account."""
        return _Docker(self, account, substitutions, trigger)

    def store(self, repository: Record, images: Iterable[Image]) -> None:
        self.world.set_setting(_key(repository), json.dumps([vars(each) for each in images]))


class _Docker:
    """The docker of one build. It changes the images in the registry."""

    def __init__(
        self, registry: Registry, account: str, substitutions: Mapping[str, str], trigger: Record | None
    ) -> None:
        self.registry, self.trigger, self.substitutions = registry, trigger, substitutions
        self._member = f"serviceAccount:{last(account)}"

    def run_code(self, script: str) -> int:
        """Return 1 if `docker run` of the script fails, by a planted fault of the trigger."""
        if self.trigger is None or "docker run" not in script:
            return 0
        fault = self.registry.world.take_fault("check", types.TRIGGER, self.trigger.name, id=self.trigger.id)
        return 1 if fault else 0

    def apply(self, args: Sequence[str], folder: Path) -> None:
        """Apply the effect of a docker command. Commands other than these three have none."""
        if args[:2] == ["buildx", "build"] and "--push" in args:
            self._push(args, folder)
        elif args[:3] == ["buildx", "imagetools", "create"]:
            self._tag(_options(args, "--tag"), args[-1])
        elif args[:1] == ["run"] and "sign" in args and (keys := _options(args, "--key")):
            self._sign(keys[0].removeprefix(KEY_SCHEME), args[-1])

    def _push(self, args: Sequence[str], folder: Path) -> None:
        # The folder has another name in each run.
        inputs = json.dumps([list(args), self.substitutions], sort_keys=True).replace(str(folder), WORKSPACE)
        index, image, attestation = (_digest(f"{kind} {inputs}") for kind in ("index", "image", "attestation"))
        for reference in _options(args, "--tag"):
            repository, package, tag = self._writable(reference)
            left = self._untagged(repository, package, tag)
            now = timestamp(self.registry.clock())
            parts = [Image(package, each, now, MANIFEST) for each in (image, attestation)]
            pushed = next((each for each in left if each.digest == index), None)
            if pushed is None:
                pushed = Image(package, index, now, INDEX, children=[image, attestation])
                left += [pushed, *parts]
            pushed.tags.append(tag)
            self.registry.store(repository, left)
        for path in _options(args, "--metadata-file"):
            Path(path).write_text(json.dumps({"containerimage.digest": index}, indent=2))

    def _tag(self, targets: Iterable[str], source: str) -> None:
        digest = source.partition("@")[2]
        for reference in targets:
            repository, package, tag = self._writable(reference)
            left = self._untagged(repository, package, tag)
            found = next((each for each in left if (each.package, each.digest) == (package, digest)), None)
            if found is None:
                raise BuildFailed(f"{source}: not found")
            found.tags.append(tag)
            self.registry.store(repository, left)

    def _sign(self, key_version: str, reference: str) -> None:
        """Push the signature of a digest, as `cosign sign --new-bundle-format=false` does."""
        key, member = key_version.partition("/cryptoKeyVersions/")[0], self._member
        granted = {
            each.inputs.get("role")
            for each in self.registry.world.find(types.KEY_MEMBER)
            if (each.inputs.get("cryptoKeyId"), each.inputs.get("member")) == (key, member)
        }
        for permission, roles in (("cryptoKeys.get", READER_ROLES), ("cryptoKeyVersions.useToSign", SIGNER_ROLES)):
            if not granted & set(roles):
                raise BuildFailed(f"PermissionDenied: Permission 'cloudkms.{permission}' denied on resource '{key}'")
        name, _, digest = reference.partition("@")
        repository, package, tag = self._writable(f"{name}:{digest.replace(':', '-')}.sig")
        left = self._untagged(repository, package, tag)
        if not any((each.package, each.digest) == (package, digest) for each in left):
            raise BuildFailed(f"{reference}: not found")
        signature = _digest(f"signature {key_version} {digest}")
        left = [each for each in left if (each.package, each.digest) != (package, signature)]
        left.append(Image(package, signature, timestamp(self.registry.clock()), MANIFEST, [tag]))
        self.registry.store(repository, left)

    def _untagged(self, repository: Record, package: str, tag: str) -> list[Image]:
        """Return the images of the repository without this tag, which moves to another image."""
        found = self.registry.images(repository)
        for each in found:
            if each.package == package and tag in each.tags:
                each.tags.remove(tag)
        return found

    def _writable(self, reference: str) -> tuple[Record, str, str]:
        """Return repository, package and tag. Raise BuildFailed if the build's account may not write there."""
        found = REFERENCE.fullmatch(reference)
        denied = f"denied: Permission 'artifactregistry.repositories.uploadArtifacts' denied on {reference}"
        if found is None:
            raise BuildFailed(denied)
        place = f"projects/{found['project']}/locations/{found['region']}"
        repository = self.registry.world.get(types.REPOSITORY, f"{place}/repositories/{found['repository']}")
        granted = any(
            grant.inputs.get("member") == self._member
            and grant.inputs.get("role") in WRITER_ROLES
            and last(str(grant.inputs.get("repository"))) == found["repository"]
            for grant in self.registry.world.find(types.REPOSITORY_MEMBER)
        )
        if repository is None or not granted:
            raise BuildFailed(denied)
        package, _, tag = found["package"].partition(":")
        return repository, package, tag or "latest"


def cleaned(images: Sequence[Image], policies: Sequence[Any], now: datetime) -> list[Image]:
    """Return the images that the cleanup policies of a repository leave.

    A version that a KEEP policy matches is kept. A manifest that a kept index lists is kept too: the API refuses to
    delete it.
    """
    kept: set[str] = set()
    deleted: set[str] = set()
    for policy in map(table, policies):
        if "mostRecentVersions" in policy:
            recent = table(policy["mostRecentVersions"])
            prefixes = tuple(recent.get("packageNamePrefixes") or [""])
            for package in {each.package for each in images if each.package.startswith(prefixes)}:
                newest = sorted((each for each in images if each.package == package), key=_newest, reverse=True)
                kept |= {each.digest for each in newest[: int(recent.get("keepCount") or 0)]}
            continue
        matched = {each.digest for each in images if _matches(each, table(policy.get("condition")), now)}
        if policy.get("action") == "KEEP":
            kept |= matched
        elif policy.get("action") == "DELETE":
            deleted |= matched
    left = [each for each in images if each.digest not in deleted - kept]
    listed = {child for each in left for child in each.children}
    return [each for each in images if each in left or each.digest in listed]


def _matches(image: Image, condition: Mapping[str, Any], now: datetime) -> bool:
    state = condition.get("tagState") or "ANY"
    age = now - image.age_from
    prefixes = {
        "packageNamePrefixes": [image.package],
        "versionNamePrefixes": [image.digest],
        "tagPrefixes": image.tags,
    }
    return (
        (state == "ANY" or (state == "TAGGED") is bool(image.tags))
        and (not condition.get("olderThan") or age > _duration(str(condition["olderThan"])))
        and (not condition.get("newerThan") or age < _duration(str(condition["newerThan"])))
        and all(
            any(value.startswith(tuple(condition[key])) for value in values)
            for key, values in prefixes.items()
            if condition.get(key)
        )
    )


def _newest(image: Image) -> tuple[datetime, bool]:
    return image.age_from, image.media_type == INDEX


def _duration(text: str) -> timedelta:
    unit = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}[text[-1]]
    return timedelta(**{unit: int(text[:-1])})


def _options(args: Sequence[str], name: str) -> list[str]:
    return [args[index + 1] for index, each in enumerate(args[:-1]) if each == name]


def _digest(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _key(repository: Record) -> str:
    """Return the setting with the images of a repository. A new repository of the same name has none."""
    return f"dockerImages:{repository.id}:{repository.created}"


def timestamp(time: datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")


def _answer(repository: str, image: Image) -> dict[str, Any]:
    place = f"{part(repository, 'locations')}-docker.pkg.dev/{part(repository, 'projects')}/{last(repository)}"
    return {
        "name": f"{repository}/dockerImages/{image.package.replace('/', '%2F')}@{image.digest}",
        "uri": f"{place}/{image.package}@{image.digest}",
        **({"tags": image.tags} if image.tags else {}),
        "imageSizeBytes": "0",
        "uploadTime": image.uploaded,
        "updateTime": image.uploaded,
        "mediaType": image.media_type,
    }
