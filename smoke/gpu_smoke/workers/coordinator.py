"""The workers of a run: start them, send them tasks, and turn their events into checks.

parent.py explains workers and events, plan.py stages and tasks. A role is a function of roles.py. At first one worker
of the role `first` lists the GPUs and computes on the first of them. A worker of the role `gpu` computes on each other
GPU. The roles of LATER_ROLES follow, one after the other.
"""

from __future__ import annotations

import contextlib
import math
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import checks, faults, output, plan
from ..compat import rules
from ..data import health
from ..faults import Meaning
from ..judge import between_gpus, completeness, devices, results, speed, static
from ..judge.subject import Subject
from ..options import Options
from ..plan import ALONE, FREE, Stage
from ..receipt import Receipt
from . import process
from .nvml_monitor import NvmlMonitor
from .process import Group, WorkerProcess

# The roles that start after the stages of the GPUs, in this order. A role starts only if no check has failed before.
# The roles of _ALL_GPUS need more than one GPU.
LATER_ROLES = ("host", "peers", "rank")
_ALL_GPUS = ("peers", "rank")
# Folders for the file through which the processes of the role `rank` find each other. None is the folder for temporary
# files. /dev/shm is shared memory, which NCCL needs anyway.
_MEETING_FOLDERS = (None, "/dev/shm")  # noqa: S108
_NO_FOLDER = (
    "the all-reduce has no folder for its file: the folder for temporary files and /dev/shm cannot be written to"
)
_NO_FOLDER_MEANS = Meaning(faults.ENV, faults.FIX_POOL, "mount an emptyDir on /tmp, or make /dev/shm writable")

# The function that judges the measurements of each stage (plan.py defines the stages).
JUDGES: dict[str, Callable[[Subject, dict[str, Any]], list[checks.Check]]] = {
    "memory": results.memory,
    "gemm": results.product,
    "cudnn.conv": results.convolution,
    "train": results.training,
    "mem.pattern": results.pattern,
    "gemm.speed": results.timed,
    "mem.speed": speed.memory,
    "copies": speed.host,
    "burn": results.burned,
    "dataloader": static.loader,
    "p2p": between_gpus.pairs,
    "allreduce": between_gpus.reduction,
}


class WorkerGroup(Group):
    """All workers of a run, and the handling of their events."""

    def __init__(self, options: Options, receipt: Receipt, on_start: Callable[[WorkerProcess], None]) -> None:
        super().__init__(on_start)
        self.options, self.receipt = options, receipt
        self.profile = options.chosen_profile
        self.subjects: dict[int, Subject] = {}
        self.nvml = NvmlMonitor(options, receipt)
        self._first_started = False
        self._remaining_roles = [role for role in LATER_ROLES if getattr(self.profile, role)]
        self._folder = ""
        # Without --deadline-sec, the deadline counts from the import of torch. Before, only steps have time limits: a
        # slow import from a cold disk does not mean that a GPU hangs.
        self.deadline = math.inf if options.deadline_sec is None else receipt.clock + options.deadline_sec
        self._imported = math.inf
        if changed := process.changed(os.environ):
            receipt.host["dropped_variables"] = changed

    @property
    def time_limit_text(self) -> str:  # type: ignore[override]
        """The time limit of the run, for a sentence."""
        since = " of torch's import" if self.options.deadline_sec is None else ""
        return f"{self._budget_sec():g} s{since}"

    def begin(self) -> None:
        """Start the worker that monitors NVML. The others start after its first answers."""
        self.nvml.begin(self.start)

    def advance(self) -> bool:
        """Start the workers and the tasks that can start now. Returns False if the run is over."""
        while True:
            working = [worker for worker in self.processes if not worker.gone and worker.role != "health"]
            if working:
                break
            if not self._next_role():
                return not self._first_started or self.nvml.request_last_answers()
        for worker in startable(working, self._stages()):
            self._send_task(worker)
        for worker in working:
            if worker.idle and worker.next is None:
                worker.end_tasks()
        return True

    def stop_waiting(self, worker: WorkerProcess, reason: str) -> None:
        """Stop waiting for a worker. It is killed after the verdict."""
        worker.abandoned = True
        if worker.role == "health" and self._first_started and self.nvml.skip_if_not_called(worker):
            return
        stage = "stopped" if reason.startswith("stopped") else worker.stage
        means = faults.hang(stage, on_cpu=self.options.on_cpu)
        self.receipt.add(self._check_without_result(worker, "deadline", f"{reason} while {worker.text}", means))

    def add_final_checks(self) -> None:
        """Add the checks that need the results of all devices. A worker that hangs may still run."""
        receipt = self.receipt
        if self.subjects and not self.options.on_cpu:
            receipt.add(*between_gpus.hashes(self.subjects, receipt.products))
            receipt.add(*speed.against_peers(self.subjects, receipt.checks))
        self.nvml.add_checks(self.subjects)
        if not checks.bad(receipt.checks):
            receipt.add(*completeness.complete(self.profile, [*self.subjects.values()], receipt.checks))

    def close(self) -> None:
        """Close all workers and remove the temporary folder."""
        super().close()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def handle_event(self, worker: WorkerProcess, event: dict[str, Any]) -> None:
        """Handle one event of a worker."""
        kind = event.pop("event")
        receipt, options = self.receipt, self.options
        if kind == "stage":
            if event["stage"] == "import" and worker.role != "health":
                event["limit_sec"] = max(event["limit_sec"], options.deadline_sec or 0.0)
            worker.begin_step(**event)
            self._print_step(worker)
        elif kind == "libcuda":
            receipt.add(*static.library(receipt.host.get("driver", ""), event))
        elif kind == "torch":
            receipt.torch = event
            self._imported = time.monotonic()
            self._set_deadline()
            receipt.add(devices.torch_build(options, event))
        elif kind == "host":
            receipt.torch["arch_list"] = event["arch_list"]
        elif kind == "devices":
            self._handle_devices(worker, event)
        elif kind == "ready":
            worker.ready()
        elif kind == "measured":
            self._handle_measurement(worker, event)
        elif kind == "fault":
            receipt.add(self._handle_fault(worker, event))
        elif worker.role == "health" and kind != "done":
            self.nvml.handle_event(worker, kind, event, self._busy())
        elif kind == "done":
            worker.done = True
            worker.begin_step("end", "leaving torch", "child", 30.0)

    def handle_end(self, worker: WorkerProcess) -> None:
        """Handle the end of a process."""
        if failed := worker.handle_exit():
            self.receipt.add(self._check_without_result(worker, "child", *failed))

    def _stages(self) -> tuple[plan.Stage, ...]:
        """Return the stages of the role that runs now. One role of LATER_ROLES runs at a time."""
        working = [worker.role for worker in self.processes if not worker.gone and worker.role in LATER_ROLES]
        return getattr(self.profile, working[0]) if working else self.profile.gpu

    def _busy(self) -> list[tuple[int, str, list[int]]]:
        """Return each stage that runs on a GPU: the GPU, the stage, and the ids of the check's own processes there.

        Processes that have just ended are included. During an all-reduce the driver may list each process on every GPU,
        because the processes map each other's memory.
        """
        now = time.monotonic()
        on_gpus = [worker for worker in self.processes if worker.on_gpu and now < worker.on_gpu_until]
        found = []
        for worker in on_gpus:
            if worker.busy and worker.next and not worker.gone:
                stage = worker.next.stage.name
                found += [(index, stage) for index in (self.subjects if worker.role == "peers" else [worker.index])]
        return [
            (index, stage, [each.process.pid for each in on_gpus if each.index == index or each.role in _ALL_GPUS])
            for index, stage in found
        ]

    def _next_role(self) -> bool:
        """Start the workers of the next role. Returns False if there is no next role, or if a check has
        failed."""
        if not self._first_started:
            return self._start_first_worker()
        if not self._remaining_roles or not self.subjects or self.receipt.has_failed():
            return False
        role = self._remaining_roles.pop(0)
        several_gpus = [index for index in self.subjects if len(self.subjects) > 1]
        if role == "host":
            self._set_tasks(self.start("host", 0, {}), None)
        elif role == "peers" and several_gpus:
            self._set_tasks(self.start("peers", 0, {"index": 0}), self.subjects[0])
        elif role == "rank" and several_gpus:
            self._folder = _meeting_folder()
            if not self._folder:
                self.receipt.add(checks.failure("allreduce", _NO_FOLDER, _NO_FOLDER_MEANS, status=checks.ERROR))
                return False
            for index in several_gpus:
                self._set_tasks(self.start("rank", index, {"index": index}), self.subjects[index])
        return True

    def _start_first_worker(self) -> bool:
        """Start the first worker, which lists the devices. NVML has to answer before, while the GPUs are idle."""
        if not self.nvml.is_ready():
            return False
        self._first_started = True
        if not self.receipt.has_failed():
            self.start("first", 0, {"device": self.options.device})
        return not self.receipt.has_failed()

    def _set_tasks(self, worker: WorkerProcess, subject: Subject | None) -> None:
        """Set the tasks of a worker by its role."""
        stages_of_role = getattr(self.profile, worker.role) if worker.role in LATER_ROLES else self.profile.gpu
        timed = subject.timed if subject else ("float32", 0)
        heat_sec = plan.HEAT_SEC if subject and subject.key in health.CAPPED else 0.0
        worker.plan = plan.tasks(
            stages_of_role, subject.capability if subject else None, timed, self.options.burn_sec, heat_sec
        )
        if worker.role == "peers":
            worker.plan = [replace(task, gpus=len(self.subjects)) for task in worker.plan]

    def _send_task(self, worker: WorkerProcess) -> None:
        """Add the parameters that only the parent knows to a worker's next task, and send the task."""
        if worker.role == "rank" and worker.next:
            meeting = str(Path(self._folder, "meeting"))
            worker.next.params.update(rank=worker.index, world=len(self.subjects), meeting=meeting)
        elif worker.role == "peers" and worker.next:
            worker.next.params.update(count=len(self.subjects))  # a GPU that the worker no longer sees is an error
        if worker.next:
            worker.send(worker.next)
            self._print_step(worker)

    def _handle_devices(self, worker: WorkerProcess, event: dict[str, Any]) -> None:
        """Check the devices that were found, and plan or start a worker for each usable one."""
        receipt = self.receipt
        receipt.devices = event["devices"]
        receipt.add(*devices.devices(self.options, receipt.devices, event["message"]))
        self.subjects = {
            properties["index"]: Subject.of(self.options.device, properties) for properties in receipt.devices
        }
        self._set_deadline()
        for index, subject in self.subjects.items():
            if not self.options.on_cpu:
                found = static.arch(subject, receipt.torch["version"], receipt.torch.get("arch_list", []))
                if found.status in checks.BAD:
                    found = self._with_compatible_torch(found, subject)
                receipt.add(found)
                if found.status in checks.BAD:
                    continue
            self._set_tasks(worker if index == worker.index else self.start("gpu", index, {"index": index}), subject)

    def _budget_sec(self) -> float:
        return self.options.budget_sec(len(self.receipt.devices))

    def _set_deadline(self) -> None:
        """Set the deadline from the import of torch, and longer for more GPUs, unless the command line sets it."""
        if self.options.deadline_sec is None:
            self.deadline = self._imported + self._budget_sec()

    def _handle_measurement(self, worker: WorkerProcess, event: dict[str, Any]) -> None:
        stage, seconds = event.pop("stage"), event["seconds"]
        subject = self.subjects[worker.index] if worker.on_gpu else Subject(None, "CPU")
        gpu = subject.index if worker.role != "peers" else None
        if stage == "gemm":
            self.receipt.products.append({"gpu": gpu, **event})
        else:
            self.receipt.measured.append({"gpu": gpu, "stage": stage, **event})
        judged = JUDGES[stage](subject, event)
        self.receipt.add(*(checks.with_duration(each, seconds) for each in judged))

    def _handle_fault(self, worker: WorkerProcess, event: dict[str, Any]) -> checks.Check:
        """Return the failed check for an error that torch raised."""
        message = faults.one_line(event["message"]) or event["type"]
        means = faults.meaning(event["message"], worker.stage)
        found = self._check_without_result(worker, worker.check_id, f"{worker.text} failed: {message}", means)
        return self._with_compatible_torch(found, self.subjects.get(worker.index))

    def _with_compatible_torch(self, found: checks.Check, subject: Subject | None) -> checks.Check:
        """Add a torch that works on this GPU to the hint, if enough is known about the machine."""
        torch, driver = self.receipt.torch.get("version", ""), self.receipt.host.get("driver", "")
        if found.action not in (faults.FIX_IMAGE, faults.FIX_DRIVER) or not subject or not subject.cc or not torch:
            return found
        text = rules.hint(subject.cc, driver, torch, platform.machine())
        return checks.with_hint(found, "; ".join(filter(None, (found.hint, text))))

    def _check_without_result(
        self, worker: WorkerProcess, check_id: str, text: str, means: faults.Meaning
    ) -> checks.Check:
        """Return the failure of a check that has no result. Before a kernel ran, the message names no GPU."""
        on_gpu = worker.on_gpu and worker.stage in ("kernel", "end")
        on = f"{checks.place(self.options.device, worker.index)}: " if on_gpu else ""
        gpu = None if self.options.on_cpu or not worker.on_gpu else worker.index
        return checks.failure(check_id, f"{on}{text}", means, status=checks.ERROR, gpu=gpu)

    def _print_step(self, worker: WorkerProcess) -> None:
        on = checks.place(self.options.device, worker.index) if worker.on_gpu else "the host"
        output.say(f"gpu-smoke: {on}: {worker.text}")


def _meeting_folder() -> str:
    """Create a folder for the file through which processes find each other; empty if that fails."""
    for folder in _MEETING_FOLDERS:
        with contextlib.suppress(OSError):
            return tempfile.mkdtemp(prefix="gpu-smoke-", dir=folder)
    return ""


def startable(processes: Sequence[WorkerProcess], stages: Sequence[Stage]) -> list[WorkerProcess]:
    """Return the workers that may start their next task now. A worker that has ended blocks no other worker."""
    present = [worker for worker in processes if not worker.gone]
    starting: list[WorkerProcess] = []
    for worker in present:
        own = _stage_index(worker, stages)
        others = [
            (_stage_index(other, stages), other.busy or other in starting) for other in present if other is not worker
        ]
        if worker.idle and worker.next and _may_start(stages, own, others):
            starting.append(worker)
    return starting


def _may_start(stages: Sequence[Stage], own: float, others: Sequence[tuple[float, bool]]) -> bool:
    """Return True if a worker may start its stage.

    `own` is the index of the stage. `others` has the stage index and the busy state of each other worker.
    """
    how = stages[int(own)].how
    slowest = min([own, *(index for index, _ in others)])
    if how == FREE:  # a free stage only waits for stages that run alone
        return all(stage.how != ALONE for stage in stages[int(slowest) : int(own)])
    if how == ALONE and any(busy for index, busy in others if index == own):
        return False
    return slowest == own


def _stage_index(worker: WorkerProcess, stages: Sequence[Stage]) -> float:
    """Return the index of a worker's next stage; infinity if the worker has done all tasks."""
    if worker.next is None and worker.plan:
        return math.inf
    return stages.index(worker.next.stage) if worker.next else 0
