"""The worker that monitors NVML during a run, as the parent sees it.

NVML is NVIDIA's library for the health of GPUs. The worker reports the state of each GPU before and after the work of
the other workers. During the work it reports samples, and Xids: the error numbers of NVIDIA's driver.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from ..checks import BAD, Check
from ..judge import health, load
from ..judge.nvml_samples import Samples, error_of, merged, other_processes
from ..judge.subject import Subject
from ..options import Options
from ..plan import TIMED
from ..receipt import Receipt
from .process import WorkerProcess

# The other workers wait this long for the first answers of NVML. NVML's first list of processes then contains none of
# the workers.
HOLD_SEC = 10.0
SILENT_SEC = 20.0  # the maximum time between two samples; five arrive in a second
END_SEC = 10.0  # the maximum time until the last answers


class NvmlMonitor:
    """The answers of NVML, and the checks of these answers. In a run on the CPU it does nothing."""

    def __init__(self, options: Options, receipt: Receipt) -> None:
        self.options, self.receipt = options, receipt
        self.worker: WorkerProcess | None = None
        self._began = self._ended = 0.0
        self._gpus: list[dict[str, Any]] = []
        self._after: list[dict[str, Any]] = []
        self._has_answers = False
        self._samples: dict[tuple[int, str], Samples] = {}
        self._xids: list[dict[str, Any]] = []
        self._xid_error: dict[str, Any] = {}  # the error by which NVML refused to report Xids

    def begin(self, start: Callable[..., WorkerProcess]) -> None:
        """Start the worker, unless the run is on the CPU."""
        if self.options.on_cpu:
            return
        self._began = time.monotonic()
        self.worker = start("health", 0, {})

    def is_ready(self) -> bool:
        """Return True if NVML's first answers have arrived, or if the other workers no longer wait for them."""
        return (
            self._has_answers or self.worker is None or self.worker.gone or time.monotonic() >= self._began + HOLD_SEC
        )

    def request_last_answers(self) -> bool:
        """Request NVML's last answers. Returns True until they have arrived."""
        if self.worker is None or self.worker.gone:
            return False
        if not self._ended:
            self._ended = time.monotonic()
            stage = self.worker.stage
            self.worker.end_tasks()
            self.worker.begin_step(stage, "asking NVML for the last time", "nvml", END_SEC)
        return True

    def handle_event(
        self, worker: WorkerProcess, kind: str, event: dict[str, Any], busy: Iterable[tuple[int, str, Collection[int]]]
    ) -> None:
        """Handle one event.

        `busy` has each stage that runs now: the GPU, the stage, and the ids of the check's own processes on that GPU.
        """
        if kind == "nvml":
            self._handle_start(event)
        elif kind == "sample":
            for index, stage, own_pids in busy:
                if sample := self._data_of(index, event["gpus"]):
                    others = other_processes(sample["processes"], own_pids)
                    self._samples.setdefault((index, stage), Samples()).add(sample, others)
        elif kind == "xid" and error_of(event):
            self._xid_error = event
        elif kind == "xid":
            self._xids.append(event)
            self.receipt.host.setdefault("xids", []).append(event)
        elif kind == "after":
            self._after = event["gpus"]
        if kind != "after" and not self._ended:
            worker.begin_step("nvml", "asking NVML", "nvml", SILENT_SEC)

    def skip_if_not_called(self, worker: WorkerProcess) -> bool:
        """Skip the checks of NVML if the worker has not called the driver yet. Returns True if they were skipped.

        The missing answer is then no fault of the driver.
        """
        if worker.stage not in ("start", "import"):
            return False
        self._skip_all(health.skipped("NVML took too long to load"))
        return True

    def add_checks(self, subjects: Mapping[int, Subject]) -> None:
        """Judge the answers, and add the cause to checks of slow GPUs."""
        if not self._has_answers:
            return
        found = health.hidden_from_cuda(self._gpus, len(self.receipt.devices))
        active_nvlinks: dict[Subject, int] = {}
        links = {
            subject: link for index, subject in subjects.items() if (link := load.link(self._timed_samples(index)))
        }
        for index, subject in subjects.items():
            before, after = self._data_of(index, self._gpus), self._data_of(index, self._after)
            better_link = load.wider(subject, links) if subject in links else ""
            found += self._checks_of(subject, before, after, better_link)
            if after and not error_of(after["nvlink"]):
                active_nvlinks[subject] = after["nvlink"]["active"]
        fewer = {check.gpu: check for check in load.unequal(active_nvlinks)}
        found = [
            fewer.get(each.gpu, each) if each.id == "nvlink" and each.status not in BAD else each for each in found
        ]
        self.receipt.add(*found, *self._xids_of_unknown_gpus(subjects))
        self.receipt.checks = [self._with_cause(check, subjects) for check in self.receipt.checks]

    def _handle_start(self, event: dict[str, Any]) -> None:
        found = health.started(event)
        if "gpus" not in event:
            self._skip_all(found)
            return
        self._has_answers, self._gpus = True, event["gpus"]
        self.receipt.host.setdefault("driver", event["driver"])
        # After HOLD_SEC the other workers have started, so the list of processes may contain them.
        if self.worker and time.monotonic() >= self._began + HOLD_SEC:
            for gpu in self._gpus:
                gpu["processes"] = {"refused": 3, "text": "NVML answered too late to assign the processes"}
        self.receipt.add(found)

    def _skip_all(self, found: Check) -> None:
        self.receipt.add(found, *health.all_skipped(found.message))

    def _timed_samples(self, index: int) -> Samples:
        return merged(samples for (gpu, stage), samples in self._samples.items() if gpu == index and stage in TIMED)

    def _checks_of(
        self, subject: Subject, before: dict[str, Any] | None, after: dict[str, Any] | None, better_link: str
    ) -> list[Check]:
        """Return the checks of one GPU, and add its samples to the receipt."""
        index = subject.index or 0
        if before is None:
            return health.not_listed(subject, self.receipt.devices[index]["uuid"])
        by_stage = {stage: samples for (gpu, stage), samples in self._samples.items() if gpu == index}
        all_samples = merged(by_stage.values())
        stages = {stage: samples.record() for stage, samples in by_stage.items()}
        seconds = round((self._ended or time.monotonic()) - self._began, 3)
        record = {"gpu": index, "stage": "nvml", "seconds": seconds, **all_samples.record(), "stages": stages}
        self.receipt.measured.append(record)
        xids = [xid["code"] for xid in self._xids if xid["uuid"] in ("", before["uuid"])]
        if after is None:
            return health.certain_failures(subject, before, all_samples, xids)
        if self._xid_error and before["events"] is True:
            before = {**before, "events": self._xid_error}
        return health.judge(self.options, subject, before, after, by_stage, xids, self.receipt.checks, better_link)

    def _xids_of_unknown_gpus(self, subjects: Mapping[int, Subject]) -> list[Check]:
        """Report Xids of GPUs that are not in the run, if NVML's list does not have every GPU of the run."""
        known = [gpu for index in subjects if (gpu := self._data_of(index, self._gpus))]
        if len(known) == len(subjects):
            return []
        codes = [xid["code"] for xid in self._xids if not any(xid["uuid"] in ("", gpu["uuid"]) for gpu in known)]
        found = health.xids("a GPU of this machine", None, codes)
        return [found] if found else []

    def _data_of(self, index: int, gpus: list[dict[str, Any]]) -> dict[str, Any] | None:
        """Return NVML's data of a GPU by its number in CUDA; None if NVML does not list the GPU.

        CUDA and NVML number GPUs differently, so GPUs are matched by UUID. A MIG slice is matched by its own UUID.
        """
        if index >= len(self.receipt.devices):
            return None
        uuid = self.receipt.devices[index]["uuid"].removeprefix("GPU-").removeprefix("MIG-")
        for gpu, known in zip(gpus, self._gpus, strict=False):
            mode = known["mig"]
            names = [known["uuid"], *mode.get("slices", [])]
            if uuid and uuid in [str(name).partition("-")[2] for name in names]:
                return gpu
        return gpus[0] if not uuid and len(gpus) == len(self.receipt.devices) == 1 else None

    def _with_cause(self, check: Check, subjects: Mapping[int, Subject]) -> Check:
        if check.gpu not in subjects or check.gpu is None:
            return check
        samples = self._samples.get((check.gpu, load.STAGES.get(check.id, "")))
        state = self._data_of(check.gpu, self._gpus)
        return load.with_cause(check, subjects[check.gpu], state, samples) if samples and state else check
