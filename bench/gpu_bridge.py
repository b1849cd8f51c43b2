"""Measure a build step on a GPU machine (`make bench ARGS="--only bridge"`): its start, its workspace, and its output.

The step's and the agent's clients are real, and so is the boot agent. Google's services are servers in this process, so
the times include no network, no boot of a virtual machine and no check of a GPU, and the work of the servers counts.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

from gpu_agent.build.output import Output
from gpu_agent.clock import Clock
from gpu_agent.google.storage import GoogleBucket
from gpu_ci.gcp.gate.clock import RealClock
from gpu_ci.gcp.gpu_bridge.follow import Follower
from gpu_ci.gcp.gpu_bridge.protocol import FORMAT, RESULT
from gpu_ci.gcp.gpu_bridge.storage import GoogleStorage
from gpu_ci.gcp.gpu_bridge.workspace import pack
from pulumi_sandbox.providers.gcp.object_storage import ObjectStorage, StorageServer
from pulumi_sandbox.providers.machines.metadata import TOKEN
from rich.console import Console
from rich.table import Table

from tests.gpu_ci.gcp.gpu_bridge.bridge import BUCKET, Bridge, serving

OUTPUT_MIB, WORKSPACE_MIB, FILES = 100, 2_048, 2_000
COMMAND = ["sh", "-c", f"yes 'epoch 12, loss 0.1234, 5678 images per second' | head -c {OUTPUT_MIB * 2**20}"]
# Lines of the serial port: the check begins, and the check has ended.
SERIAL = {"check": re.compile(r'GPU-AGENT-STEP .*"check"'), "verdict": re.compile("SMOKE-RESULT")}
PARTS = ("pack and upload", "boot", "check", "fetch", "start of the command, and its first output")


def bench_bridge(rounds: int, console: Console) -> None:
    """Print the parts of a step's start, a workspace without and with a cache, and the overhead of streamed output."""
    console.print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} before the measurements")
    with tempfile.TemporaryDirectory(prefix="gpu-ci-bench-") as name:
        _print_workspace(rounds, Path(name), console)
        _print_output(rounds, console)
        _print_start(rounds, Path(name), console)
    console.print(f"load {os.getloadavg()[0]:.1f} after the measurements")


@contextlib.contextmanager
def _storage() -> Iterator[tuple[StorageServer, GoogleStorage]]:
    server = StorageServer(ObjectStorage(BUCKET))
    os.environ["GOOGLE_OAUTH_ACCESS_TOKEN"] = TOKEN
    os.environ["GOOGLE_STORAGE_CUSTOM_ENDPOINT"] = f"{server.address}/storage/v1/"
    client = GoogleStorage(BUCKET)
    try:
        yield server, client
    finally:
        client.close()
        server.close()


def _print_start(rounds: int, folder: Path, console: Console) -> None:
    """Print the time from the start of a step until the first output of its command, in parts."""
    workspace = folder / "small"
    workspace.mkdir()
    (workspace / "test.py").write_text("print('first')\n")
    runs = []
    with _storage() as (server, _), serving(server, os.environ.__setitem__) as bridge:
        for number in range(rounds):
            (workspace / "number").write_text(str(number))  # another content, so that it is uploaded
            runs.append(_start(bridge, workspace))
    table = Table("part", "median s", "of the whole", title=f"from the step to the first output, {rounds} rounds")
    whole = statistics.median(sum(run.values()) for run in runs)
    for part in PARTS:
        median = statistics.median(run[part] for run in runs)
        table.add_row(part, f"{median:.2f}", f"{median / whole:.0%}")
    table.add_row("whole", f"{whole:.2f}", "")
    console.print(table)


def _start(bridge: Bridge, workspace: Path) -> dict[str, float]:
    """Run one step, and return the seconds of each part."""
    at: dict[str, float] = {}

    def log(text: str) -> None:
        if text.startswith("starting a build machine"):
            at["request"] = time.perf_counter()

    step = bridge.build(workspace, "python3", "test.py")
    step.log = log
    step.write = lambda _: at.setdefault("output", time.perf_counter())
    ended = Event()
    watch = threading.Thread(target=_watch, args=(bridge, ended, at))
    watch.start()
    began = time.perf_counter()
    try:
        code = step.run()
    finally:
        ended.set()
        watch.join()
    assert code == 0
    objects = bridge.objects.buckets[BUCKET]
    [result] = [each.content for name, each in objects.items() if name.endswith(RESULT)]
    objects.clear()
    fetch = float(json.loads(result)["seconds"]["fetch"])
    times = (began, at["request"], at["check"], at["verdict"])
    seconds = [end - start for start, end in itertools.pairwise(times)]
    return dict(zip(PARTS, (*seconds, fetch, at["output"] - at["verdict"] - fetch), strict=True))


def _watch(bridge: Bridge, ended: Event, at: dict[str, float]) -> None:
    """Note when the machine's check begins and ends."""
    while not ended.wait(0.01):
        for name in bridge.machines():
            for zone in bridge.settings.zones:
                with contextlib.suppress(AssertionError):  # the machine is in the other zone, or has ended
                    text = bridge.api.ok("GET", f"zones/{zone}/instances/{name}/serialPort", start="0")["contents"]
                    for event, pattern in SERIAL.items():
                        if pattern.search(text):
                            at.setdefault(event, time.perf_counter())


def _print_workspace(rounds: int, folder: Path, console: Console) -> None:
    workspace = folder / "workspace"
    workspace.mkdir()
    for number in range(FILES):
        # Half of each file can be compressed.
        size = WORKSPACE_MIB * 2**20 // FILES // 2
        (workspace / f"{number}.bin").write_bytes(os.urandom(size) + bytes(size))
    rows: dict[str, list[float]] = {"copy (cp -r)": [], "pack": [], "upload": [], "pack and find, already uploaded": []}
    for _ in range(rounds):
        with _storage() as (_, client):
            rows["copy (cp -r)"].append(_seconds(lambda: shutil.copytree(workspace, folder / "copy")))
            shutil.rmtree(folder / "copy")
            target = folder / "archive"
            began = time.perf_counter()
            source = pack(workspace, target, 10_000, lambda _: None)
            rows["pack"].append(time.perf_counter() - began)
            began = time.perf_counter()
            client.upload(source.object_name, target, source.sha256, lambda: False)
            rows["upload"].append(time.perf_counter() - began)
            began = time.perf_counter()
            again = pack(workspace, target, 10_000, lambda _: None)
            assert client.find(again.object_name)
            rows["pack and find, already uploaded"].append(time.perf_counter() - began)
    table = Table("", "median s", "MiB/s", title=f"workspace of {WORKSPACE_MIB} MiB in {FILES} files, {rounds} rounds")
    for name, seconds in rows.items():
        median = statistics.median(seconds)
        table.add_row(name, f"{median:.2f}", f"{WORKSPACE_MIB / median:.0f}")
    console.print(table)


def _seconds(work: Any) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _print_output(rounds: int, console: Console) -> None:
    plain, streamed, objects = [], [], 0
    for _ in range(rounds):
        plain.append(_seconds(lambda: subprocess.run(COMMAND, stdout=subprocess.PIPE, check=True)))
        began = time.perf_counter()
        objects = _stream()
        streamed.append(time.perf_counter() - began)
    table = Table("", "median s", "MiB/s", title=f"{OUTPUT_MIB} MiB of output, {rounds} rounds in turn")
    for name, seconds in (("pipe", plain), (f"{objects} objects, written and read", streamed)):
        median = statistics.median(seconds)
        table.add_row(name, f"{median:.2f}", f"{OUTPUT_MIB / median:.0f}")
    console.print(table)


def _stream() -> int:
    """Write the output of the command as the agent does, and print it as the step does. Return the objects."""
    with _storage() as (server, client), open(os.devnull, "wb") as sink:  # noqa: PTH123 - a device
        clock = Clock()
        bucket = GoogleBucket(server.address, BUCKET, lambda _: TOKEN, clock)
        output = Output(bucket, "", clock)
        process = subprocess.Popen(COMMAND, stdout=subprocess.PIPE)
        assert process.stdout is not None
        output.start(process.stdout.fileno())

        def end() -> None:
            result = {
                "format": FORMAT, "failed": "", "reason": "", "detail": "", "exit_code": process.wait(), "signal": None,
                "artifacts": None, "seconds": {},
            }  # fmt: skip
            output.finish(5, clock.now() + 60)
            content = json.dumps({**result, "logs": output.objects}).encode()
            bucket.write(RESULT, content, hashlib.sha256(content).hexdigest(), clock.now() + 60)

        threading.Thread(target=end).start()
        printed: list[int] = []
        api: Any = SimpleNamespace(status=lambda *_: "RUNNING")
        cancel = Event()
        Follower(
            api, client, "", "", 600, lambda content: printed.append(sink.write(content)), cancel, RealClock()
        ).follow("", "")
        process.stdout.close()
        assert sum(printed) == OUTPUT_MIB * 2**20
        return output.objects
