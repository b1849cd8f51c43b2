"""The workers of a run: start them, give them orders, and turn their events into checks."""

from __future__ import annotations

import contextlib
import math
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import checks, compat_hint, faults, output, plan
from ..data import health
from ..faults import Meaning
from ..history.receipts import Run
from ..history.reference_data import Known
from ..judge import between_gpus, completeness, devices, history, speed, stages, static
from ..judge.subject import Subject
from ..options import Options
from ..receipt import Receipt
from . import environment, schedule
from .nvml_monitor import Watcher
from .process import Child

# The roles after the stages of the GPUs. Each starts only if there was no failure before it. Those over several GPUs
# need more than one GPU.
LATER = ("host", "peers", "rank")
_ALL_GPUS = ("peers", "rank")
# Folders for the file in which the processes of `rank` meet: the one for temporary files, or the shared memory that
# NCCL needs anyway.
_MEETING_FOLDERS = (None, "/dev/shm")  # noqa: S108
_NO_FOLDER = (
    "the all-reduce has no folder for its file: neither the one for temporary files nor /dev/shm can be written to"
)
_NO_FOLDER_MEANS = Meaning(faults.ENV, faults.FIX_POOL, "mount an emptyDir on /tmp, or make /dev/shm writable")


class WorkerGroup:
    """All workers of a run, and the handling of their events."""

    def __init__(self, options: Options, receipt: Receipt, known: Known, started: Callable[[Child], None]) -> None:
        self.options, self.receipt, self.known, self.profile = options, receipt, known, options.asks
        self.children: list[Child] = []
        self.subjects: dict[int, Subject] = {}
        self.watcher = Watcher(options, receipt)
        self._started = started
        self._begun = False
        self._later = [role for role in LATER if getattr(self.profile, role)]
        self._folder = ""
        # Until torch is imported each step has its own limit, because a cold disk does not mean that a GPU hangs.
        self.deadline = math.inf if options.deadline_sec is None else receipt.clock + options.deadline_sec
        self._imported = math.inf
        if changed := environment.changed(os.environ):
            receipt.host["dropped_variables"] = changed

    @property
    def within(self) -> str:
        """The time limit of the run, for a sentence."""
        since = " of torch's import" if self.options.deadline_sec is None else ""
        return f"{self._budget_sec():g} s{since}"

    def begin(self) -> None:
        """Start the worker that monitors NVML. The others start after its first answers."""
        self.watcher.begin(self._start)

    def going(self) -> bool:
        """Start workers and give orders that can begin now. Returns True if the run is not over."""
        while True:
            now = [child for child in self.children if not child.gone and child.role != "health"]
            if now:
                break
            if not self._next_role():
                return not self._begun or self.watcher.going()
        for child in schedule.startable(now, self._stages()):
            self._order(child)
        for child in now:
            if child.idle and child.next is None:
                child.dismiss()
        return True

    def late(self, now: float) -> list[Child]:
        """Return the workers that exceeded their time limit. A worker that waits for others has none."""
        return [child for child in self.children if not child.gone and not child.idle and now >= child.deadline]

    def lose(self, child: Child, reason: str) -> None:
        """Stop waiting for a worker. It is killed after the verdict."""
        child.lost = True
        if child.role == "health" and self._begun and self.watcher.lose(child):
            return
        stage = "stopped" if reason.startswith("stopped") else child.stage
        means = faults.hang(stage, on_cpu=self.options.on_cpu)
        self.receipt.add(self._broken(child, "deadline", f"{reason} while {child.text}", means))

    def give_up(self, reason: str) -> None:
        """Stop waiting for all workers."""
        waited_for = [child for child in self.children if not child.gone]
        for child in [child for child in waited_for if child.role != "health"] or waited_for:
            self.lose(child, reason)

    def conclude(self) -> None:
        """Add the checks that need the results of all devices, while a hanging worker still hangs."""
        receipt = self.receipt
        if self.subjects and not self.options.on_cpu:
            receipt.add(*between_gpus.hashes(self.subjects, receipt.products))
            receipt.add(*speed.against_peers(self.subjects, receipt.checks))
        if self.subjects and self.known.earlier is not None:
            receipt.add(*history.judge(Run("", receipt.record()), self.known.earlier))
        self.watcher.verdict(self.subjects, self.known.earlier or ())
        if not checks.bad(receipt.checks):
            receipt.add(*completeness.complete(self.profile, [*self.subjects.values()], receipt.checks))

    def close(self) -> None:
        """Close all workers and remove the temporary folder."""
        for child in self.children:
            child.close()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def hear(self, child: Child, event: dict[str, Any]) -> None:
        """Handle one event of a worker."""
        kind = event.pop("event")
        receipt, options = self.receipt, self.options
        if kind == "stage":
            if event["stage"] == "import" and child.role != "health":
                event["limit_sec"] = max(event["limit_sec"], options.deadline_sec or 0.0)
            child.enters(**event)
            self._say(child)
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
            self._found(child, event)
        elif kind == "ready":
            child.ready()
        elif kind == "measured":
            self._measured(child, event)
        elif kind == "fault":
            receipt.add(self._fault(child, event))
        elif child.role == "health" and kind != "done":
            self.watcher.hear(child, kind, event, self._busy())
        elif kind == "done":
            child.done = True
            child.enters("end", "leaving torch", "child", 30.0)

    def ended(self, child: Child) -> None:
        """Handle the end of a process."""
        if died := child.death():
            self.receipt.add(self._broken(child, "child", *died))

    def _start(self, role: str, index: int, given: dict[str, Any]) -> Child:
        child = Child(role, index, given)
        self.children.append(child)
        self._started(child)
        return child

    def _stages(self) -> tuple[plan.Stage, ...]:
        """Return the stages of the workers that run now: one role runs at a time."""
        working = [child.role for child in self.children if not child.gone and child.role in LATER]
        return getattr(self.profile, working[0]) if working else self.profile.gpu

    def _busy(self) -> list[tuple[int, str, list[int]]]:
        """Return the stages that run on each GPU, with the ids of the check's own processes there.

        Processes that have just ended are included.

        Processes that add up over all GPUs map each other's memory, so the driver may list each of them on every GPU.
        """
        now = time.monotonic()
        on_gpus = [child for child in self.children if child.on_gpu and now < child.on_gpu_until]
        found = []
        for child in on_gpus:
            if child.busy and child.next and not child.gone:
                stage = child.next.stage.name
                found += [(index, stage) for index in (self.subjects if child.role == "peers" else [child.index])]
        return [
            (index, stage, [each.process.pid for each in on_gpus if each.index == index or each.role in _ALL_GPUS])
            for index, stage in found
        ]

    def _next_role(self) -> bool:
        """Start the workers of the next role. Returns False if there is no next role, or if it would be pointless."""
        if not self._begun:
            return self._first()
        if not self._later or not self.subjects or self.receipt.wrong():
            return False
        role = self._later.pop(0)
        several_gpus = [index for index in self.subjects if len(self.subjects) > 1]
        if role == "host":
            self._plan(self._start("host", 0, {}), None)
        elif role == "peers" and several_gpus:
            self._plan(self._start("peers", 0, {"index": 0}), self.subjects[0])
        elif role == "rank" and several_gpus:
            self._folder = _meeting_folder()
            if not self._folder:
                self.receipt.add(checks.failure("allreduce", _NO_FOLDER, _NO_FOLDER_MEANS, status=checks.ERROR))
                return False
            for index in several_gpus:
                self._plan(self._start("rank", index, {"index": index}), self.subjects[index])
        return True

    def _first(self) -> bool:
        """Start the first worker, which finds the devices, once the monitor no longer needs the GPUs idle."""
        if not self.watcher.looked():
            return False
        self._begun = True
        if not self.receipt.wrong():
            self._start("first", 0, {"device": self.options.device})
        return not self.receipt.wrong()

    def _plan(self, child: Child, subject: Subject | None) -> None:
        """Set the orders of a worker by its role."""
        mine = getattr(self.profile, child.role) if child.role in LATER else self.profile.gpu
        timed = subject.timed if subject else ("float32", 0)
        heat_sec = plan.HEAT_SEC if subject and subject.key in health.CAPPED else 0.0
        child.plan = plan.orders(mine, subject.capability if subject else None, timed, self.options.burn_sec, heat_sec)
        if child.role == "peers":
            child.plan = [replace(order, gpus=len(self.subjects)) for order in child.plan]

    def _order(self, child: Child) -> None:
        if child.role == "rank" and child.next:
            meeting = str(Path(self._folder, "meeting"))
            child.next.params.update(rank=child.index, world=len(self.subjects), meeting=meeting)
        elif child.role == "peers" and child.next:
            child.next.params.update(count=len(self.subjects))  # a GPU that the worker no longer sees is an error
        if child.next:
            child.order(child.next)
            self._say(child)

    def _found(self, child: Child, event: dict[str, Any]) -> None:
        """Check the devices that were found, and plan or start a worker for each usable one."""
        receipt = self.receipt
        receipt.devices = event["devices"]
        receipt.add(*devices.devices(self.options, receipt.devices, event["message"]))
        self.subjects = {
            properties["index"]: Subject.of(self.options.device, properties, self.known.own)
            for properties in receipt.devices
        }
        self._set_deadline()
        for index, subject in self.subjects.items():
            if not self.options.on_cpu:
                found = static.arch(subject, receipt.torch["version"], receipt.torch.get("arch_list", []))
                if found.status in checks.BAD:
                    found = self._advised(found, subject)
                receipt.add(found)
                if found.status in checks.BAD:
                    continue
            self._plan(child if index == child.index else self._start("gpu", index, {"index": index}), subject)

    def _budget_sec(self) -> float:
        return self.options.budget_sec(len(self.receipt.devices))

    def _set_deadline(self) -> None:
        """Set the deadline from the import of torch, and longer for more GPUs, unless the command line sets it."""
        if self.options.deadline_sec is None:
            self.deadline = self._imported + self._budget_sec()

    def _measured(self, child: Child, event: dict[str, Any]) -> None:
        stage, seconds = event.pop("stage"), event["seconds"]
        subject = self.subjects[child.index] if child.on_gpu else Subject(None, "CPU")
        gpu = subject.index if child.role != "peers" else None
        if stage == "gemm":
            self.receipt.products.append({"gpu": gpu, **event})
        else:
            self.receipt.measured.append({"gpu": gpu, "stage": stage, **event})
        judged = stages.JUDGES[stage](subject, event)
        self.receipt.add(*(checks.took(each, seconds) for each in judged))

    def _fault(self, child: Child, event: dict[str, Any]) -> checks.Check:
        """Return the failed check for an error that torch raised."""
        message = faults.one_line(event["message"]) or event["type"]
        means = faults.meaning(event["message"], child.stage)
        found = self._broken(child, child.what, f"{child.text} failed: {message}", means)
        return self._advised(found, self.subjects.get(child.index))

    def _advised(self, found: checks.Check, subject: Subject | None) -> checks.Check:
        """Add a torch that works on this GPU to the hint, if enough is known about the machine."""
        torch, driver = self.receipt.torch.get("version", ""), self.receipt.host.get("driver", "")
        if found.action not in (faults.FIX_IMAGE, faults.FIX_DRIVER) or not subject or not subject.cc or not torch:
            return found
        text = compat_hint.nearest(subject.cc, driver, torch, platform.machine())
        return checks.hinted(found, "; ".join(filter(None, (found.hint, text))))

    def _broken(self, child: Child, what: str, text: str, means: faults.Meaning) -> checks.Check:
        """Return a check without a result. Before a kernel ran, the message names no GPU."""
        on_gpu = child.on_gpu and child.stage in ("kernel", "end")
        on = f"{checks.place(self.options.device, child.index)}: " if on_gpu else ""
        gpu = None if self.options.on_cpu or not child.on_gpu else child.index
        return checks.failure(what, f"{on}{text}", means, status=checks.ERROR, gpu=gpu)

    def _say(self, child: Child) -> None:
        on = checks.place(self.options.device, child.index) if child.on_gpu else "the host"
        output.say(f"gpu-smoke: {on}: {child.text}")


def _meeting_folder() -> str:
    """Create a folder for the file in which processes meet; empty if that fails."""
    for folder in _MEETING_FOLDERS:
        with contextlib.suppress(OSError):
            return tempfile.mkdtemp(prefix="gpu-smoke-", dir=folder)
    return ""
