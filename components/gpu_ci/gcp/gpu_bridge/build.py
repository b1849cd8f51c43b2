"""Runs one build step: sources, machine, output, artifacts, exit code. It deletes its machine in every case."""

from __future__ import annotations

import hashlib
import json
import secrets
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from time import time
from typing import Any

from ..gate.compute_api import ApiError
from ..gate.runner import CheckSpec, GateRunner
from ..gate.verdict import CANCELLED, NO_CAPACITY, Verdict
from ..gate.waiting import Clock, RealClock
from . import protocol
from .failures import ACCOUNT_HINT, BridgeError
from .follow import BridgeApi, Follower
from .protocol import Place, Result, Settings
from .storage import GoogleStorage
from .workspace import Source, pack, unpack_artifacts

# A machine has this time in addition before the reaper deletes it, because Google should delete it first.
_TTL_SPARE_SEC = 600
# Long, so that few of many waiting steps see the same free machine before one of them has started its own.
_WAIT_POLL_SEC = 15.0
_SIGNAL = 128
# The reasons of a machine (agent/gpu_agent/outcomes.py) that are not failures to start the command.
_OF_RESULT = {
    "wrong-source": "wrong-digest",
    "preempted": "preempted",
    "maintenance": "preempted",
    "stopped": "lost-machine",
}
_OF_PHASE = {
    "fetch": "not-started",
    "start": "not-started",
    "timeout": "timed-out",
    "artifacts": "no-artifacts",
    "output": "lost-machine",
}
_HINTS = {
    "no-driver": "use another boot image for the bridge (docs/guides/machines.md)",
    "no-verdict": "raise check_sec of the bridge",
    "check-hung": "raise check_sec of the bridge; if the GPU hangs, run the build again",
    "no-docker": "use a boot image in which rootless Docker starts (docs/how-it-works/job-isolation.md)",
    "no-image": "correct --image; the machine's service account needs roles/artifactregistry.reader for a private one",
    "no-tool": "use a boot image with the programs that the detail names",
    "disk-full": "raise diskGib of the bridge",
    "storage-refused": "run pulumi up, which restores the role of the machine's service account",
}


@dataclass(frozen=True)
class Options:
    """The options of one step."""

    command: list[str]
    build: str
    """The id of the build in Cloud Build."""
    region: str = "global"
    """The region of the build."""
    timeout_sec: int = 1800
    image: str = ""
    artifacts: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    retries_preempted: bool = False
    folder: Path = field(default_factory=Path)
    """The workspace."""


@dataclass
class BridgeBuild:
    """One build step."""

    settings: Settings
    options: Options
    api: BridgeApi
    storage: GoogleStorage
    log: Callable[[str], None]
    write: Callable[[bytes], object]
    """Prints output of the command."""
    cancel: Event = field(default_factory=Event)
    clock: Clock = field(default_factory=RealClock)
    unix: Callable[[], float] = time
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    """A secret that no other step has. It is in the names of the objects that step and machine exchange. Builds of one
    bridge share an account, so a build that knew these names could read and write the objects of another one.
    """
    machines: list[dict[str, Any]] = field(default_factory=list)
    """The machines that passed their check, for `gpu-ci jobs collect`: times in Unix seconds, by the step's clock."""

    @property
    def public_id(self) -> str:
        """A text that no other step of the build has, for labels and metadata. Any build can read these."""
        return hashlib.sha256(self.token.encode()).hexdigest()[:8]

    def run(self) -> int:
        """Return the exit code of the command. Raises BridgeError or ApiError if the bridge fails."""
        with tempfile.TemporaryDirectory(prefix="gpu-ci-") as scratch:
            source = self._send_source(Path(scratch, "source.tar.gz"))
            self._wait_until_free()
            artifacts = Path(scratch, "artifacts.tar.gz")
            try:
                return self._run(source, artifacts, attempt=1)
            except BridgeError as error:
                if error.name != "preempted" or not self.options.retries_preempted or self.cancel.is_set():
                    raise
                self.log(f"{error.detail}; running the command once more, on a machine that is not a Spot machine")
            return self._run(source, artifacts, attempt=2)

    def _send_source(self, target: Path) -> Source:
        source = pack(self.options.folder, target, self.settings.source_mib, self.log, self.cancel.is_set)
        self.storage.upload(source.object_name, target, source.sha256)
        if self.cancel.is_set():
            raise BridgeError("cancelled", "the workspace was being uploaded")
        self.log(f"uploaded {source.files} files ({target.stat().st_size} bytes)")
        return source

    def _wait_until_free(self) -> None:
        """Wait until fewer than `max` machines of the bridge exist. Raise BridgeError: no-machine or cancelled.

        Steps that see the same free machine all go on, so a few machines more than `max` may exist for a while. The
        quota of the project is the hard limit. While Google does not answer, the step waits too.
        """
        settings = self.settings
        began = self.clock.now()
        reported = ""
        while not self.cancel.is_set():
            unanswered: ApiError | None = None
            try:
                expression = f"labels.{protocol.BRIDGE_LABEL}={settings.name}"
                if len(self.api.instances_of_all_zones(settings.project, expression, ("name",))) < settings.max:
                    return
            except ApiError as error:
                if not error.not_yet:
                    raise
                unanswered = error
            if self.clock.now() - began >= settings.wait_sec:
                raise unanswered or BridgeError("no-machine", f"no machine was free within {settings.wait_sec} s")
            why = str(unanswered or f"other builds use all {settings.max} machines of the bridge")
            if why != reported:
                reported = why
                self.log(f"waiting up to {settings.wait_sec} s, because {why}")
            self.clock.wait(self.cancel, _WAIT_POLL_SEC)
        raise BridgeError("cancelled", "the step was waiting for a machine")

    def _run(self, source: Source, artifacts: Path, attempt: int) -> int:
        options, settings = self.options, self.settings
        prefix = f"builds/{options.build}/{self.token}-{attempt}/"
        limit_sec = settings.fetch_sec + options.timeout_sec
        follower = Follower(
            self.api, self.storage, settings.project, prefix, limit_sec, self.write, self.log, self.cancel, self.clock
        )
        results: list[Result] = []

        def follow(zone: str, name: str, number: str) -> None:
            self.log(f"{name} in {zone} passed its check")
            used: dict[str, Any] = {"machine": name, "id": number, "zone": zone, "started": self.unix()}
            self.machines.append(used)
            try:
                result = follower.follow(zone, name, number)
            except BridgeError as error:
                used["takenBack"] = error.name == "preempted"
                raise
            finally:
                used["completed"] = self.unix()
            if result.reason in ("stopped", "preempted") and follower.was_preempted(zone, name, number):
                # The stop may have reached the machine before Google's announcement did.
                result, used["takenBack"] = replace(result, reason="preempted"), True
            results.append(result)

        content, name = self._request(source, prefix), f"requests/{options.build}/{self.public_id}-{attempt}.json"
        digest = hashlib.sha256(content).hexdigest()
        self.storage.write(name, content)
        try:
            request = json.dumps({"bucket": settings.bucket, "name": name, "sha256": digest})
            verdict = self._start(request, attempt, follow)
        finally:
            self._delete_request(name)
        if not results:
            raise _failure(verdict)
        return self._exit_code(results[0], follower, artifacts)

    def _start(self, request: str, attempt: int, follow: Callable[[str, str, str], None]) -> Verdict:
        """Request a machine at one place after the other, until one is created. Return the verdict about it.

        Raises:
            ApiError: Google refuses the machine for a reason that holds at each place, or each place lacks quota.
        """
        places = self.settings.places(without_spot=attempt > 1)
        suggested: dict[str, None] = {}
        quotas: list[ApiError] = []
        for place in places:
            requested, earlier = self.unix(), len(self.machines)
            try:
                spec = self._spec(request, attempt, place, follow)
                verdict = GateRunner(self.api, self.log, self.cancel, self.clock).run(spec)
            except ApiError as error:
                if not error.over_quota:
                    raise
                quotas.append(error)
                self.log(f"{place.zone}: {error}")
                continue
            finally:
                for used in self.machines[earlier:]:
                    used |= {
                        "bridge": self.settings.name, "machineType": place.machine_type, "market": place.market,
                        "requested": requested, "gone": self.unix(),
                    }  # fmt: skip
            if verdict.outcome != NO_CAPACITY:
                return verdict
            suggested |= dict.fromkeys(verdict.zones_available)
        if len(quotas) == len(places):
            raise quotas[0]
        tried = [" ".join(filter(None, (each.zone, each.machine_type, each.market))) for each in places]
        others = [zone for zone in suggested if zone not in {each.zone for each in places}]
        text = f"no machine in {', '.join(tried)}" + (f"; Google suggests {', '.join(others)}" if others else "")
        return Verdict(NO_CAPACITY, "; ".join((text, *dict.fromkeys(map(str, quotas)))))

    def _request(self, source: Source, prefix: str) -> bytes:
        """Return the request. agent/gpu_agent/build/workspace.py describes its fields.

        It is an object and no metadata, because its environment may have secrets.
        """
        options, settings = self.options, self.settings
        request = {
            "format": protocol.FORMAT,
            "bucket": settings.bucket,
            "prefix": prefix,
            "source": source.object_name,
            "source_sha256": source.sha256,
            "source_bytes": source.path.stat().st_size,
            "command": options.command,
            "timeout_sec": options.timeout_sec,
            "fetch_sec": settings.fetch_sec,
            "image": options.image,
            "environment": options.environment,
            "artifacts": options.artifacts,
            "artifact_files": protocol.ARTIFACT_FILES,
            "artifact_bytes": settings.artifact_mib * 2**20,
        }
        return json.dumps(request).encode()

    def _delete_request(self, name: str) -> None:
        """Delete the request. An error must not hide the result; the bucket's lifecycle rule deletes it later."""
        try:
            self.storage.delete(name)
        except ApiError as error:
            self.log(f"{name} could not be deleted: {error}")

    def _spec(self, request: str, attempt: int, place: Place, follow: Callable[[str, str, str], None]) -> CheckSpec:
        options, settings = self.options, self.settings
        spare_sec = settings.fetch_sec + options.timeout_sec + protocol.REPORT_SEC
        ends_at = int(self.unix()) + settings.check_sec + spare_sec + _TTL_SPARE_SEC
        return CheckSpec(
            gate=f"{options.build} {self.public_id}-{attempt}",
            project=settings.project,
            template=place.template,
            zones=[place.zone],
            pool=settings.name,
            labels={
                **settings.labels,
                protocol.BRIDGE_LABEL: settings.name,
                protocol.BUILD_LABEL: options.build,
                protocol.REGION_LABEL: options.region,
                protocol.TTL_LABEL: str(ends_at),
            },
            deadline_sec=settings.check_sec,
            role=protocol.ROLE,
            metadata={protocol.REQUEST_KEY: request},
            market=place.market,
            spare_sec=spare_sec,
            after_pass=follow,
        )

    def _exit_code(self, result: Result, follower: Follower, artifacts: Path) -> int:
        if result.reason:
            name = _OF_RESULT.get(result.reason) or _OF_PHASE.get(result.failed, "lost-machine")
            raise BridgeError(name, result.detail, _HINTS.get(result.reason, ""))
        if result.signal:
            self.log(f"the command was ended by signal {result.signal}")
        code = _SIGNAL + result.signal if result.signal else result.exit_code or 0
        try:
            self._return_artifacts(result, follower, artifacts)
        except (ApiError, BridgeError) as error:
            if not code:
                raise
            # The failure of the command is the more important one.
            self.log(f"the artifacts could not be returned: {getattr(error, 'detail', error)}")
        return code

    def _return_artifacts(self, result: Result, follower: Follower, target: Path) -> None:
        if not result.artifacts:
            return
        try:
            follower.download_artifacts(result, target)
        except OSError as error:
            raise BridgeError("no-artifacts", f"{error.strerror or error} ({target})", "free disk space") from None
        limits = protocol.ARTIFACT_FILES, self.settings.artifact_mib * 2**20
        count = unpack_artifacts(target, self.options.folder, self.options.artifacts, *limits)
        self.log(f"{count} {'artifact is' if count == 1 else 'artifacts are'} in the workspace")


def _failure(verdict: Verdict) -> BridgeError:
    if verdict.outcome == CANCELLED:
        return BridgeError("cancelled", verdict.summary)
    place = f"{verdict.zone}: " if verdict.zone else ""
    if verdict.outcome == NO_CAPACITY:
        return BridgeError("no-capacity", verdict.summary)
    return BridgeError("check-failed", f"{place}{verdict.summary}", _HINTS.get(verdict.reason, ""))


def refused(error: ApiError) -> BridgeError:
    """Return the failure for an error with which Google refused a request."""
    if error.over_quota:
        return BridgeError("over-quota", str(error))
    hint = error.hint_for_builds
    if error.status == 403 and not error.constraint:
        hint = f"{ACCOUNT_HINT}; {hint}"
    return BridgeError("refused", str(error), hint)
