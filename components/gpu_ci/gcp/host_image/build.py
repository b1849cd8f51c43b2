"""Builds a host image, checks it on a machine with a GPU, and deletes old images.

- `build` starts the builder machine. After its provisioning, `build` stops the machine and creates the image.
- `check` starts a machine with a GPU from the image. Only an image that passes gets the label gpu-ci-check: passed.
- `prune` deletes images, but none that an instance template or the stack file names.

Each function can be repeated after an interruption: it continues with the images and machines that exist.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from ..gate.compute_api import ApiError
from ..gate.runner import CheckSpec, GateRunner
from ..gate.verdict import FAIL, NO_CAPACITY, PASS, Verdict
from ..gate.waiting import Clock, RealClock
from .api import CHECK_LABEL, FAILED, IMAGE_LABEL, PASSED, GoogleImages, path_of

BUILDER_STEPS = {
    "packages": "it installed packages of the distribution",
    "driver": "it installed the NVIDIA driver, or restarted for the driver",
    "runner": "it downloaded GitHub's runner",
    "torch": "it installed torch",
    "docker": "it installed Docker and NVIDIA's container toolkit",
    "verify": "it tried the installed programs",
    "clean": "it deleted logs, keys and package lists",
}
"""A description of each step of provision.sh."""

_OPERATION_EVERY_SEC = 5.0
_DAY_SEC = 86_400
# A stop takes 90 s at most, and the image of a disk with 30 GB of data some minutes. No source gives a limit.
_STOP_WITHIN_SEC, _IMAGE_WITHIN_SEC = 300.0, 1800.0
# The time from the deadline of the builder until Google deletes it. It does not count while the machine is stopped.
_BUILDER_SPARE_SEC = 600
_HINTS = {
    "no-capacity": "run the pipeline again later, or add zones",
    "unreachable": "check that the subnetwork has Cloud NAT; run the pipeline again",
    "wrong-checksum": "correct runner.sha256 or driver.sha256: the summary names the file and its checksum",
    "wrong-key": "the signing key of the repository changed: compare it with the vendor's page, and update gpu-ci",
    "no-driver": "use another base image or driver.branch (docs/guides/images.md)",
    "no-tool": "use Ubuntu 24.04 or Debian 12 as the base image",
    "disk-full": "raise diskGib",
    "no-verdict": "raise builder.deadlineSec or check.deadlineSec",
}


class BuildError(Exception):
    """The build ended without a candidate. The text has a hint."""


@dataclass(frozen=True)
class MachineSettings:
    """A machine of the build: its template, the zones to try in order, and the time limit of its work."""

    template: str
    zones: list[str]
    deadline_sec: int


@dataclass(frozen=True)
class Settings:
    """The settings of one pipeline."""

    project: str
    pipeline: str
    """The value of the label gpu-ci-image, which is unique in the project."""
    builder: MachineSettings
    check: MachineSettings
    made_from: Mapping[str, str]
    """The inputs of the image by name, such as runner: 2.338.0. The description of the image contains them."""
    keep: int
    """The number of images that passed their check and are kept."""
    refresh_days: int
    """After this number of days, the same inputs give a new image, which has newer packages."""
    in_use: list[str] = field(default_factory=list)
    """Images that pools of the stack file name. They are never deleted."""
    labels: Mapping[str, str] = field(default_factory=dict)
    storage_location: str = ""
    """The region that stores the image."""

    def image_name(self, unix_sec: float) -> str:
        """Return the name of the image: the pipeline, and a hash of the inputs and of the refresh period."""
        period = int(unix_sec // (self.refresh_days * _DAY_SEC))
        text = json.dumps([sorted(self.made_from.items()), period])
        return f"{self.pipeline}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def parse(text: str) -> Settings:
    """Return the settings. Raise ValueError if the JSON has other fields."""
    try:
        value: dict[str, Any] = json.loads(text)
        builder, check = (MachineSettings(**value.pop(name)) for name in ("builder", "check"))
        return Settings(builder=builder, check=check, **value)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"the settings of the pipeline are incomplete: {error}") from None


@dataclass
class ImageBuild:
    """The build of one pipeline."""

    settings: Settings
    api: GoogleImages
    log: Callable[[str], None]
    unix_sec: float
    """The time at the start of the build, which is a part of the image's name."""
    cancel: Event = field(default_factory=Event)
    clock: Clock = field(default_factory=RealClock)

    @property
    def name(self) -> str:
        """The name of the image."""
        return self.settings.image_name(self.unix_sec)

    @property
    def link(self) -> str:
        """The path of the image, as a pool's field `image` has it."""
        return f"projects/{self.settings.project}/global/images/{self.name}"

    def build(self) -> None:
        """Create the image, unless it exists. Raise BuildError or ApiError if the image was not created."""
        settings = self.settings
        images = self.api.images(settings.project, settings.pipeline)
        if existing := next((image for image in images if image["name"] == self.name), None):
            if existing.get("status") == "READY":
                self.log(f"{self.link} exists, built from the same inputs")
                return
            if existing.get("status") != "FAILED":
                raise BuildError(f"{self.link} is {existing.get('status')}, so another build creates it")
            self._delete(self.name)
        self.log(f"building {self.link}")
        verdict = self._run(
            settings.builder, "build", steps=BUILDER_STEPS, after_pass=self._create, spare_sec=_BUILDER_SPARE_SEC
        )
        if verdict.outcome != PASS:
            raise BuildError(_failure("the builder machine failed", verdict))
        self.log(f"built {self.link}: {verdict.summary}")

    def check(self) -> None:
        """Check the newest image on a machine with a GPU, and label it. Raise BuildError if it did not pass."""
        image = next(iter(self.api.images(self.settings.project, self.settings.pipeline)), None)
        if image is None or image.get("status") != "READY":
            raise BuildError(f"{self.settings.pipeline} has no image to check\n  hint: run the step `build` first")
        link = path_of(str(image["selfLink"]))
        if image.get("labels", {}).get(CHECK_LABEL) == PASSED:
            self.log(f"{link} passed its check before")
            return
        self.log(f"checking {link}")
        verdict = self._run(self.settings.check, "check", image=link)
        if verdict.outcome == PASS:
            self._label(image, PASSED)
            self.log(f"candidate: {link} passed its check in {verdict.zone}: {verdict.summary}")
            return
        if verdict.outcome == FAIL:
            self._label(image, FAILED)
        raise BuildError(_failure(f"{link} is no candidate", verdict))

    def prune(self) -> None:
        """Delete old images of the pipeline.

        The newest `keep` images that passed stay, and newer images without a pass. Images that an instance template of
        the project or the stack file names stay, too.
        """
        settings = self.settings
        images = self.api.images(settings.project, settings.pipeline)
        passed = [image["name"] for image in images if image.get("labels", {}).get(CHECK_LABEL) == PASSED]
        kept = passed[: settings.keep]
        newest_kept = next((at for at, image in enumerate(images) if image["name"] in kept), len(images))
        kept += [image["name"] for image in images[:newest_kept]]
        surplus = [image for image in images if image["name"] not in kept]
        if not surplus:
            return
        named = self.api.images_of_templates(settings.project) | {path_of(image) for image in settings.in_use}
        for image in surplus:
            name, path = str(image["name"]), path_of(str(image["selfLink"]))
            if path in named:
                self.log(f"{path} stays, because a template or the stack file names it")
                continue
            self.log(f"deleting {path}, which is older than the newest {settings.keep}")
            self._delete(name)

    def _run(self, machine: MachineSettings, role: str, **special: Any) -> Verdict:
        """Run a machine until its verdict. `special` has further fields of the check."""
        settings = self.settings
        spec = CheckSpec(
            gate=f"{settings.pipeline} {role}",
            project=settings.project,
            template=machine.template,
            zones=machine.zones,
            pool=settings.pipeline,
            labels=dict(settings.labels),
            deadline_sec=machine.deadline_sec,
            role=role,
            **special,
        )
        return GateRunner(self.api, self.log, self.cancel, self.clock).run(spec)

    def _create(self, zone: str, machine: str, number: str) -> None:
        """Create the image from the disk of the builder machine with this id.

        The machine is stopped first, so that the file system is complete on the disk. Others may delete the machine,
        and create one of the same name and its disk. So the id is compared before the image is created, and after it.
        """
        settings, api = self.settings, self.api
        self.log(f"stopping {machine}")
        stop = api.stop(settings.project, zone, machine)
        self._wait(lambda: api.done(settings.project, zone, stop), f"the stop of {machine}", _STOP_WITHIN_SEC)
        disks = self._builder(zone, machine, number).get("disks", [])
        boot_disk: dict[str, Any] = next((disk for disk in disks if disk.get("boot")), {})
        self.log(f"creating {self.link}")
        body = {
            "name": self.name,
            "description": json.dumps(dict(settings.made_from), sort_keys=True),
            "labels": {**settings.labels, IMAGE_LABEL: settings.pipeline},
            # By default, the boot disk has the name of the machine (compute v1, AttachedDiskInitializeParams.diskName).
            "sourceDisk": boot_disk.get("source") or f"projects/{settings.project}/zones/{zone}/disks/{machine}",
            **({"guestOsFeatures": features} if (features := boot_disk.get("guestOsFeatures")) else {}),
            **({"storageLocations": [settings.storage_location]} if settings.storage_location else {}),
        }
        self._wait_global(api.insert_image(settings.project, body), f"the creation of {self.link}")
        try:
            self._builder(zone, machine, number)
        except (ApiError, BuildError):
            self._delete(self.name)
            raise

    def _builder(self, zone: str, machine: str, number: str) -> dict[str, Any]:
        """Return the builder machine. Raise BuildError if another machine has its name."""
        found = self.api.instance(self.settings.project, zone, machine)
        if str(found["id"]) != number:
            raise BuildError(
                f"another machine took the name {machine} in {zone} during the build\n  hint: find out who created it"
            )
        return found

    def _label(self, image: dict[str, Any], result: str) -> None:
        name, labels = str(image["name"]), {**image.get("labels", {}), CHECK_LABEL: result}
        fingerprint = str(image.get("labelFingerprint", ""))
        operation = self.api.label_image(self.settings.project, name, fingerprint, labels)
        self._wait_global(operation, f"the label of {name}")

    def _delete(self, name: str) -> None:
        self._wait_global(self.api.delete_image(self.settings.project, name), f"the deletion of {name}")

    def _wait_global(self, operation: str, what: str) -> None:
        self._wait(lambda: self.api.image_done(self.settings.project, operation), what, _IMAGE_WITHIN_SEC)

    def _wait(self, done: Callable[[], bool], what: str, within_sec: float) -> None:
        """Wait for an operation, also after a cancellation: half an image would stay."""
        until = self.clock.now() + within_sec
        while not done():
            if self.clock.now() >= until:
                raise BuildError(f"{what} did not end within {within_sec:.0f} s")
            self.clock.wait(Event(), _OPERATION_EVERY_SEC)


def refused(error: ApiError) -> str:
    """Return the message for an error with which Google refused a request."""
    hint = error.hint_for_builds
    if error.over_quota:
        hint = "request more quota, or wait until other machines have ended"
    return f"Google refused a request: {error}" + (f"\n  hint: {hint}" if hint else "")


def _failure(what: str, verdict: Verdict) -> str:
    place = f" in {verdict.zone}" if verdict.zone else ""
    reason = NO_CAPACITY if verdict.outcome == NO_CAPACITY else verdict.reason
    hint = _HINTS.get(reason, "")
    return f"{what}{place}: {verdict.summary}" + (f"\n  hint: {hint}" if hint else "")
