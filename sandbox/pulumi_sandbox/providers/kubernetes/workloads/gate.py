"""Wait for Jobs as the kubernetes provider does: run a Job at its creation, and check its status at each later step.

This is how a stack fails if the smoke check of its gate, which is a Job, fails.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pulumi_sandbox.providers.kubernetes.objects import inner, items
from pulumi_sandbox.providers.kubernetes.workloads import await_rules
from pulumi_sandbox.providers.kubernetes.workloads.containers import Containers
from pulumi_sandbox.providers.kubernetes.workloads.jobs import JobRun
from pulumi_sandbox.providers.kubernetes.workloads.pods import Workloads, pods_of
from pulumi_sandbox.providers.machines import settings as guest_settings
from pulumi_sandbox.providers.machines.settings import GuestSettings
from pulumi_sandbox.providers.readiness import NotReady
from pulumi_sandbox.providers.resource import Refused, Resource
from pulumi_sandbox.providers.sandbox_file import SettingsError
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.store import Record, World

JOB = "kubernetes:batch/v1:Job"
NOT_ALLOWED = (
    "the sandbox runs the program of the container {} on this computer as your user, and sandbox.yaml does not allow "
    "that\n  {}"
)
NO_FOLDER = (
    "sandbox.yaml: guest.path: folder does not exist\n  got: {}\n  expected: a folder with the programs of the "
    "container's image\n  hint: create the folder or remove the entry; a comment in sandbox.yaml may say how"
)


@dataclass
class Gate:
    """The Jobs of one provider, for which a stack waits."""

    world: World
    workspace: Workspace
    workloads: Workloads
    cancelled: threading.Event

    def __post_init__(self) -> None:
        self.containers = Containers(self.world, self.settings, self.cancelled)

    def settings(self) -> GuestSettings:
        try:
            return guest_settings.guest(self.workspace.settings_file, self.workspace.project)
        except SettingsError as error:
            raise Refused(str(error)) from None

    def refusals(self, res: Resource) -> Iterator[str]:
        """Yield an error if sandbox.yaml does not allow the Job's programs or lists a missing folder."""
        spec, namespace = (
            inner(res.inputs, "spec", "template", "spec") or {},
            inner(res.inputs, "metadata", "namespace"),
        )
        for _, container in [*items(spec.get("initContainers")), *items(spec.get("containers"))]:
            if self.containers.programs(str(namespace), spec, container):
                settings = self.settings()
                if not settings.runs:
                    yield NOT_ALLOWED.format(container.get("name"), guest_settings.HINT)
                yield from (NO_FOLDER.format(path) for path in settings.path if not Path(path).is_dir())

    def await_ready(self, res: Resource) -> dict[str, Any]:
        """Return the Job's status.

        Raises:
            NotReady: The Job did not succeed.
        """
        if res.old_inputs is None:
            run = JobRun(res, self.workloads, self.containers, self.cancelled)
            status, pods = run.run(), run.watched
        else:
            status, pods = inner(res.outputs, "status") or {}, [row.outputs for row in self._pods(res.inputs)]
        if await_rules.is_complete(status):
            return {"status": status}
        unready = await_rules.unready(res, status, pods, cancelled=self.cancelled.is_set())
        if await_rules.annotation(res.inputs, await_rules.SKIP) == "true":
            res.log(unready.reasons[-1], "info")
            return {"status": status}
        raise unready

    def not_ready(self, record: Record) -> NotReady | None:
        """Return the error of a Job that has not succeeded (job.go, Read)."""
        status = record.outputs.get("status")
        skipped = await_rules.annotation(record.inputs, await_rules.SKIP) == "true"
        # The sandbox did not create a Job without a status, and does not know its state.
        if skipped or not status or await_rules.is_complete(status):
            return None
        name = str(inner(record.inputs, "metadata", "name"))
        pods = [row.outputs for row in self._pods(record.inputs)]
        return NotReady(await_rules.failed(name), await_rules.reasons(status, pods))

    def is_replaced(self, res: Resource) -> bool:
        """Return True if pulumi.com/replaceUnready replaces the Job (provider.go, Diff)."""
        if await_rules.annotation(res.inputs, await_rules.REPLACE) != "true":
            return False
        record = self.world.get(res.token, res.id)
        return record is not None and not await_rules.is_complete(record.outputs.get("status"))

    def forget(self, res: Resource) -> None:
        for one in self._pods(res.inputs):
            self.world.delete(one.type, one.id, res.name)

    def _pods(self, inputs: dict[str, Any]) -> list[Record]:
        meta = inner(inputs, "metadata")
        return pods_of(self.world, str(inner(meta, "namespace")), str(inner(meta, "name")))
