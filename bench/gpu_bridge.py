"""Measure a build step on a GPU machine (`make bench ARGS="--only bridge"`): its workspace, and its output.

The step's and the agent's clients are real. Cloud Storage is a server in this process, so the times include no network,
and its work counts too.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpu_agent.build.output import Output, name_of
from gpu_agent.clock import Clock
from gpu_agent.google.storage import GoogleBucket
from gpu_ci.gcp.gpu_bridge.storage import GoogleStorage
from gpu_ci.gcp.gpu_bridge.workspace import pack
from pulumi_sandbox.providers.gcp.object_storage import ObjectStorage, StorageServer
from pulumi_sandbox.providers.machines.metadata import TOKEN
from rich.console import Console
from rich.table import Table

OUTPUT_MIB, WORKSPACE_MIB, FILES = 100, 512, 2_000
BUCKET = "bench"
COMMAND = ["sh", "-c", f"yes 'epoch 12, loss 0.1234, 5678 images per second' | head -c {OUTPUT_MIB * 2**20}"]


def bench_bridge(rounds: int, console: Console) -> None:
    """Print the time of a workspace without and with a cache, and the overhead of streamed output."""
    with tempfile.TemporaryDirectory(prefix="gpu-ci-bench-") as name:
        folder = Path(name)
        _print_workspace(rounds, folder, console)
    _print_output(rounds, console)


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
    """Write the output of the command as the agent does, and read it as the step does."""
    with _storage() as (server, client), open(os.devnull, "wb") as sink:  # noqa: PTH123 - a device
        output = Output(GoogleBucket(server.address, BUCKET, lambda _: TOKEN, Clock()), "", Clock())
        process = subprocess.Popen(COMMAND, stdout=subprocess.PIPE)
        assert process.stdout is not None
        output.start(process.stdout.fileno())
        ended = threading.Event()

        def end() -> None:
            process.wait()
            output.finish(5, Clock().now() + 60)
            ended.set()

        threading.Thread(target=end).start()
        number = 1
        while not ended.is_set() or number <= output.objects:
            entry = client.find(name_of("", number))
            if entry is None:
                time.sleep(0.05)
                continue
            client.read(name_of("", number), entry.generation, sink)
            number += 1
        process.stdout.close()
        return output.objects
