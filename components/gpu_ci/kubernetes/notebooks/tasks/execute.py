"""Runs one notebook with papermill, and stores what it wrote. Only a fault of the platform fails this task."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

import common

OUT = Path("out.ipynb").resolve()
LEAST_FREE = 0.1
"""The share of a GPU's memory that must be free. Other programs use it where a pool shares GPUs."""
SAMPLE_SEC = 1
_ERROR = re.compile(r"^(?:\w+\.)*([A-Z]\w+): ?(.*)$", re.MULTILINE)
_OUT_OF_MEMORY = ("DeadKernelError", "Killed")


@dataclass
class Peak:
    """The highest memory of a notebook in MiB. It is None if it is unknown."""

    memory: int
    gpu: int | None


def main() -> None:
    # A cancelled run deletes the pod. The part that ran is stored first.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    notebook = os.environ["NOTEBOOK"]
    waited = common.seconds_since(common.get_json("prepared.json")["time"])
    source = common.unpack("source.tar.gz")
    check_gpus(int(os.environ["GPUS"]))
    began = time.monotonic()
    try:
        code, peak, log = papermill(source / notebook, float(os.environ["NOTEBOOK_LIMIT_SEC"]))
    finally:
        if OUT.exists():
            common.put(f"{common.folder(notebook)}/out.ipynb", OUT)
    status, error = outcome(code, log)
    hint = None
    if error and error["name"] in _OUT_OF_MEMORY:
        hint = f"the kernel died: if it needs more than {os.environ['MEMORY_GIB']} GiB of memory, raise memoryGib"
    elif OUT.exists() and (size := OUT.stat().st_size // common.MIB) >= common.MOST_MIB:
        hint = f"it has no page, because it has {size} MiB with its outputs: {common.MOST_MIB} MiB or more"
    found = {
        "notebook": notebook,
        "status": status,
        "error": error,
        "hint": hint,
        "seconds": round(time.monotonic() - began, 1),
        "waited": waited,
        "peakMemoryMib": peak.memory,
        "peakGpuMemoryMib": peak.gpu,
    }
    common.put_json(f"{common.folder(notebook)}/result.json", found)
    common.result("status", status)
    common.log(f"{notebook}: {status}")


def papermill(notebook: Path, limit_sec: float) -> tuple[int | None, Peak, str]:
    """Run a notebook in its folder. Return the exit code (None over the limit), the peak memory, and the log."""
    # With -P, a file next to the notebook cannot hide a module of papermill. The kernel still finds it.
    # papermill replaces fields in braces, such as {name}, in the paths of both files.
    paths = [str(each).replace("{", "{{").replace("}", "}}") for each in (notebook, OUT)]
    command = [sys.executable, "-P", "-m", "papermill", *paths, "--cwd", str(notebook.parent),
               "--log-output", "--no-progress-bar"]  # fmt: skip
    log, peak = Path("papermill.log"), Peak(0, gpu_memory("used"))
    ends = time.monotonic() + limit_sec
    with log.open("wb") as output, log.open("rb") as written:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            while process.poll() is None and time.monotonic() < ends:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(min(SAMPLE_SEC, max(0.0, ends - time.monotonic())))
                sample(peak)
                sys.stdout.buffer.write(written.read())
                sys.stdout.flush()
            code = process.poll()
        finally:
            end()
            process.wait()
            sys.stdout.buffer.write(written.read())
            sys.stdout.flush()
    # The kernel is a child of papermill, and counts if papermill waited for it.
    peak.memory = max(peak.memory, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
    with log.open("rb") as written:  # the error is at its end
        written.seek(max(0, log.stat().st_size - common.MIB))
        return code, peak, written.read().decode(errors="replace")


def end() -> None:
    """Kill every process that this one started. The kernel is in a session, and thus in a group, of its own."""
    while processes := [each for each in psutil.Process().children(True) if each.status() != psutil.STATUS_ZOMBIE]:
        for each in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        psutil.wait_procs(processes, timeout=1)


def outcome(code: int | None, log: str) -> tuple[str, dict[str, Any] | None]:
    """Return the status of a notebook, and its error with the number of the code cell, which begins at 1."""
    if code == 0:
        return "passed", None
    cells = []
    with contextlib.suppress(OSError, ValueError):
        cells = json.loads(OUT.read_text(encoding="utf-8"))["cells"]
    # papermill adds two cells of text about the error.
    cells = [each for each in cells if each["cell_type"] == "code"]
    for number, cell in enumerate(cells, 1):
        for each in cell["outputs"] if code is not None else ():
            if each["output_type"] == "error":
                return "failed", {"name": each["ename"], "message": each["evalue"], "cell": number}
    running = (n for n, each in enumerate(cells, 1) if each["metadata"].get("papermill", {}).get("status") == "running")
    cell_number = next(running, None)
    if code is None:
        text = f"the notebook ran longer than {os.environ['NOTEBOOK_LIMIT_SEC']} s (timeouts.notebookMin)"
        return "timeout", {"name": "Timeout", "message": text, "cell": cell_number}
    if code < 0 or code == 128 + signal.SIGKILL:
        return "error", {"name": "Killed", "message": "papermill was killed", "cell": cell_number}
    name, message = (_ERROR.findall(log) or [("papermill", f"exits with {code}")])[-1]
    return "error", {"name": name, "message": message, "cell": cell_number}


def sample(peak: Peak) -> None:
    """Raise the peak to what the notebook's processes use now."""
    used = 0
    for each in psutil.Process().children(True):
        with contextlib.suppress(psutil.Error):
            used += each.memory_info().rss // common.MIB
    peak.memory = max(peak.memory, used)
    if peak.gpu is not None:
        peak.gpu = max(peak.gpu, gpu_memory("used") or 0)


def check_gpus(expected: int) -> None:
    """Check that the GPUs answer, and have free memory. The sandbox has none."""
    if not shutil.which("nvidia-smi"):
        return
    free, total = nvidia_smi("free"), nvidia_smi("total")
    if len(free) < expected:
        raise common.Fault(f"GPUs are missing\n  path: gpus\n  got: {len(free)} GPUs\n  expected: {expected}")
    for number, (each, of) in enumerate(zip(free, total, strict=True)):
        if each < LEAST_FREE * of:
            raise common.Fault(
                f"another program uses the memory of GPU {number}\n  got: {each} of {of} MiB free\n"
                f"  expected: at least {LEAST_FREE:.0%}\n  hint: remove the node, if the pool does not share GPUs"
            )


def gpu_memory(what: str) -> int | None:
    """Return the memory of all GPUs together in MiB; None without nvidia-smi, or without its answer."""
    if not shutil.which("nvidia-smi"):
        return None
    with contextlib.suppress(common.Fault):
        return sum(nvidia_smi(what))
    return None


def nvidia_smi(what: str) -> list[int]:
    """Return the free, used or total memory of each GPU in MiB. It is 0 where the driver does not know it (MIG)."""
    command = ["nvidia-smi", f"--query-gpu=memory.{what}", "--format=csv,noheader,nounits"]
    try:
        lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.splitlines()
    except (OSError, subprocess.SubprocessError) as error:
        raise common.Fault(f"the GPUs do not answer\n  path: gpus\n  got: {error}") from None
    return [int(line) if line.strip().isdigit() else 0 for line in lines]


if __name__ == "__main__":
    common.run(main)
