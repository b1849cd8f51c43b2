"""The worker that monitors NVML during a run, as the parent sees it: its start, its events and its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from ..checks import BAD, Check
from ..history.receipts import Run
from ..judge import health, history, load, slowdown
from ..judge.nvml_samples import Seen, refused, strangers, together
from ..judge.subject import Subject
from ..options import Options
from ..plan import TIMED
from ..receipt import Receipt
from .process import Child

# Other processes on a GPU are listed before those of the check start. So workers wait for the first answers of NVML,
# but not longer than this.
HOLD_SEC = 10.0
SILENT_SEC = 20.0  # between two samples; five arrive in a second
END_SEC = 10.0  # for its last answers


class Watcher:
    """The answers of NVML and the checks that follow from them. On the CPU it does nothing."""

    def __init__(self, options: Options, receipt: Receipt) -> None:
        self.options, self.receipt = options, receipt
        self.child: Child | None = None
        self._began = self._ended = 0.0
        self._gpus: list[dict[str, Any]] = []
        self._after: list[dict[str, Any]] = []
        self._has_event = False
        self._seen: dict[tuple[int, str], Seen] = {}
        self._xids: list[dict[str, Any]] = []
        self._deaf: dict[str, Any] = {}  # the error of NVML by which no Xids are reported

    def begin(self, start: Callable[..., Child]) -> None:
        """Start the worker, unless the run is on the CPU."""
        if self.options.on_cpu:
            return
        self._began = time.monotonic()
        self.child = start("health", 0, {})

    def looked(self) -> bool:
        """Return True if NVML's first answers are here, or if they took too long for others to wait."""
        return self._has_event or self.child is None or self.child.gone or time.monotonic() >= self._began + HOLD_SEC

    def going(self) -> bool:
        """Ask for NVML's last answers. Returns True while they are outstanding."""
        if self.child is None or self.child.gone:
            return False
        if not self._ended:
            self._ended = time.monotonic()
            stage = self.child.stage
            self.child.dismiss()
            self.child.enters(stage, "asking NVML for the last time", "nvml", END_SEC)
        return True

    def hear(
        self, child: Child, kind: str, event: dict[str, Any], busy: Iterable[tuple[int, str, Collection[int]]]
    ) -> None:
        """Handle one event. `busy` has the stages that run: GPU, stage, and the check's own processes there."""
        if kind == "nvml":
            self._begun(event)
        elif kind == "sample":
            for index, stage, ours in busy:
                described = self._of(index, event["gpus"])
                if described:
                    self._seen.setdefault((index, stage), Seen()).add(
                        described, strangers(described["processes"], ours)
                    )
        elif kind == "xid" and refused(event):
            self._deaf = event
        elif kind == "xid":
            self._xids.append(event)
            self.receipt.host.setdefault("xids", []).append(event)
        elif kind == "after":
            self._after = event["gpus"]
        if kind != "after" and not self._ended:
            child.enters("nvml", "asking NVML", "nvml", SILENT_SEC)

    def lose(self, child: Child) -> bool:
        """Return True if the missing answer is no fault of the driver, because it was not called yet."""
        if child.stage not in ("start", "import"):
            return False
        self._without(health.skipped("NVML took too long to load"))
        return True

    def verdict(self, subjects: Mapping[int, Subject], earlier: Sequence[Run] = ()) -> None:
        """Judge the answers, and add the cause to slow checks. `earlier` are other runs, for their PCIe links."""
        if not self._has_event:
            return
        found = health.machine(self._gpus, len(self.receipt.devices))
        up: dict[Subject, int] = {}
        links = {subject: link for index, subject in subjects.items() if (link := load.link(self._timed(index)))}
        for index, subject in subjects.items():
            was, now = self._of(index, self._gpus), self._of(index, self._after)
            here = load.wider(subject, links) if subject in links else ""
            before = history.wider(subject.name, links[subject].width, earlier) if subject in links else ""
            found += self._gpu(subject, was, now, here or before)
            if now and not refused(now["nvlink"]):
                up[subject] = now["nvlink"]["active"]
        fewer = {check.gpu: check for check in load.unequal(up)}
        found = [
            fewer.get(each.gpu, each) if each.id == "nvlink" and each.status not in BAD else each for each in found
        ]
        self.receipt.add(*found, *self._strays(subjects))
        self.receipt.checks = [self._blamed(check, subjects) for check in self.receipt.checks]

    def _begun(self, event: dict[str, Any]) -> None:
        found = health.started(event)
        if "gpus" not in event:
            self._without(found)
            return
        self._has_event, self._gpus = True, event["gpus"]
        self.receipt.host.setdefault("driver", event["driver"])
        if (
            self.child and time.monotonic() >= self._began + HOLD_SEC
        ):  # the others did not wait, so they may be in this list
            for gpu in self._gpus:
                gpu["processes"] = {
                    "refused": 3,
                    "text": "NVML answered too late to assign the processes",
                }
        self.receipt.add(found)

    def _without(self, found: Check) -> None:
        self.receipt.add(found, *health.all_skipped(found.message))

    def _timed(self, index: int) -> Seen:
        return together(seen for (gpu, stage), seen in self._seen.items() if gpu == index and stage in TIMED)

    def _gpu(
        self, subject: Subject, was: dict[str, Any] | None, now: dict[str, Any] | None, better_link: str
    ) -> list[Check]:
        index = subject.index or 0
        if was is None:
            return health.unknown(subject, self.receipt.devices[index]["uuid"])
        parts = {stage: seen for (gpu, stage), seen in self._seen.items() if gpu == index}
        whole = together(parts.values())
        stages = {stage: seen.record() for stage, seen in parts.items()}
        seconds = round((self._ended or time.monotonic()) - self._began, 3)
        described = {"gpu": index, "stage": "nvml", "seconds": seconds, **whole.record(), "stages": stages}
        self.receipt.measured.append(described)
        xids = [xid["code"] for xid in self._xids if xid["uuid"] in ("", was["uuid"])]
        if now is None:
            return health.hurried(subject, was, whole, xids)
        if self._deaf and was["events"] is True:
            was = {**was, "events": self._deaf}
        return health.judge(self.options, subject, was, now, parts, xids, self.receipt.checks, better_link)

    def _strays(self, subjects: Mapping[int, Subject]) -> list[Check]:
        """Report Xids of a GPU that cannot be matched. Not every GPU of the run is found in NVML's list."""
        known = [gpu for index in subjects if (gpu := self._of(index, self._gpus))]
        if len(known) == len(subjects):
            return []
        codes = [xid["code"] for xid in self._xids if not any(xid["uuid"] in ("", gpu["uuid"]) for gpu in known)]
        found = health.xids("a GPU of this machine", None, codes)
        return [found] if found else []

    def _of(self, index: int, gpus: list[dict[str, Any]]) -> dict[str, Any] | None:
        """Return NVML's data of a GPU by its number in CUDA.

        The two count differently, so the UUID decides, also of a slice.
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

    def _blamed(self, check: Check, subjects: Mapping[int, Subject]) -> Check:
        if check.gpu not in subjects or check.gpu is None:
            return check
        seen = self._seen.get((check.gpu, slowdown.STAGES.get(check.id, "")))
        state = self._of(check.gpu, self._gpus)
        return slowdown.blame(check, subjects[check.gpu], state, seen) if seen and state else check
