"""Measure each step from a machine's boot script to its registered runner (`make bench ARGS="--only boot"`).

Everything is real except these parts:

- Google and GitHub are servers on this machine, so the times include no network.
- The GPU is this machine's CPU, and nvidia-smi is a fake.
- The runner's archive has random bytes in the size of GitHub's archive, with a fake of its program.

It needs root, nft and the environment with torch (`make torch`).

One variant downloads GitHub's runner. The other one has the runner in the image, as a host image does, and may install
nothing: a boot that needs a download would fail. Both have torch in the image.

With `--device cuda` the GPU, the driver and nvidia-smi are real too. It uses the torch of the running Python, and its
job computes on the GPU as the runner's user.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.serialization import load_pem_public_key
from gpu_agent.runner.archive import MARKER
from gpu_ci.payload import smoke_archive
from rich.console import Console
from rich.table import Table

from tests.agent.fakes import machine, runner
from tests.agent.fakes.boot import Boot, config
from tests.agent.fakes.github import serving as serving_github
from tests.agent.fakes.google import FakeGoogle
from tests.agent.fakes.google import serving as serving_google
from tests.agent.fakes.runner import job
from tests.agent.fakes.whole_machine import SECRET, Github

ROOT = Path(__file__).resolve().parent.parent
FETCHED, HOST_IMAGE, DOWNLOADED = "runner downloaded", "host image", "downloaded"
RUNNERS = Path("/opt/actions-runner")  # where the agent looks for a runner of the image (gpu_agent.runner.archive)
# actions-runner-linux-x64-2.338.0.tar.gz has 227,660,598 bytes (seen in notes of 2026-10-08 on installing it).
ARCHIVE_BYTES = 227_660_598
# The job of a machine without a GPU: it runs the hook that starts a job, and ends.
JOB_WITHOUT_GPU = """
hook = os.environ["ACTIONS_RUNNER_HOOK_JOB_STARTED"]
say("Running job: train")
end(subprocess.run([hook], env={**os.environ, "GITHUB_JOB": "train"}).returncode)
"""
# The only step of a job on a GPU. It exits with 1 if the product is wrong.
STEP = """
import sys, torch
ones = torch.ones(4096, 4096, device="cuda")
sys.exit(not (ones @ ones).eq(4096).all())
"""
STEPS = {
    "config": "start of the agent, read its configuration",
    "driver": "wait for the driver",
    "check": "gpu-smoke, with the import of torch",
    "key": "the App's key",
    "runner": "download, checksum, unpack; network isolation with its test; GPU state",
    "register": "a token and a just-in-time configuration",
    "waiting": "start of the runner until its job",
}


def bench_boot(rounds: int, device: str, console: Console) -> None:
    """Measure the seconds of each step, with a downloaded runner and with everything in the image."""
    machine.needs("nft", "ip")
    on_gpu = device == "cuda"
    python = machine.open_python()
    step = f"code = subprocess.run([{python!r}, '-c', {STEP!r}]).returncode\nhook('COMPLETED')\nend(code)"
    # Hexadecimal digits of random bytes, which compress to little more than those bytes.
    filling = runner.Entry("./externals/filling", os.urandom(ARCHIVE_BYTES * 7 // 8).hex())
    archive = runner.archive(runner.listener(python, job(step) if on_gpu else JOB_WITHOUT_GPU), filling)
    runs: dict[str, list[dict[str, float]]] = {FETCHED: [], HOST_IMAGE: []}
    is_new = not RUNNERS.exists()
    RUNNERS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-boot-", dir="/srv") as folder:
        for number in range(rounds):
            for variant, results in runs.items():
                folder_of_run = Path(folder, f"{list(runs).index(variant)}-{number}")
                folder_of_run.mkdir(mode=0o755)
                results.append(machine.inside(partial(_boot, folder_of_run, archive, variant == HOST_IMAGE, on_gpu)))
    if is_new:
        RUNNERS.rmdir()
    table = Table(
        "step",
        "what",
        *(f"{variant}, s" for variant in runs),
        title=f"boot on {device}, median of {rounds}; an archive of {len(archive) / 1e6:.0f} MB",
    )
    for step, description in STEPS.items():
        table.add_row(
            step, description, *(f"{statistics.median(run[step] for run in results):.1f}" for results in runs.values())
        )
    sums = [statistics.median(sum(run[step] for step in STEPS) for run in results) for results in runs.values()]
    table.add_row("", "sum", *(f"{seconds:.1f}" for seconds in sums))
    table.add_row(
        "", "downloaded, MB", *(f"{max(run[DOWNLOADED] for run in results):.0f}" for results in runs.values())
    )
    console.print(table)


def _boot(folder: Path, archive: bytes, host_image: bool, on_gpu: bool) -> dict[str, float]:
    """Boot one machine and return the seconds of each step, and the megabytes that it downloaded."""
    smi = shutil.which("nvidia-smi")
    machine.network()
    folder.parent.chmod(0o755)  # the runner's user needs the fakes too
    for path in ("/var/lib", "/usr/local/sbin"):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0755", "own", path], check=True)
    key = subprocess.run(["openssl", "genrsa", "2048"], capture_output=True, check=True).stdout
    public = subprocess.run(["openssl", "rsa", "-pubout"], input=key, capture_output=True, check=True).stdout
    sha256 = runner.sha256(archive)
    pin = {"version": runner.VERSION, "sha256": {"x64": sha256, "arm64": sha256}, "idle_sec": 60, "register_sec": 300}
    github_settings = {
        "owner": "acme",
        "app_id": "12345",
        "installation_id": 77,
        "private_key": SECRET,
        "runner_group": "gpu",
    }
    releases = runner.releases(lambda _: (200, archive, len(archive)))
    public_key: Any = load_pem_public_key(public)
    github = Github(public_key, time.time)
    with serving_google(FakeGoogle()) as google, serving_github(github) as url, releases as (base, asked):
        google.secrets[SECRET] = key
        boot = Boot(folder, google)
        shutil.rmtree(boot.torch)
        boot.tools.add("python3", f'exec "{machine.open_python()}" "$@"')
        if not on_gpu:
            smi = str(boot.tools.add("nvidia-smi", "[[ $* != *query-gpu* ]] || echo 'GPU-1a2b3c4d, 3, 0'"))
        assert smi, "nvidia-smi is not on PATH"
        Path("/usr/local/sbin/nvidia-smi").symlink_to(smi)
        if host_image:
            _install_runner(archive, sha256)
        agent_config = json.dumps(
            config(
                github={**github_settings, "labels": ["gpu"]},
                runner={**pin, "installs": not host_image},
                installs=not host_image,
            )
        )
        environ = boot.environ() | {"GPU_AGENT_GITHUB_URL": url, "GPU_AGENT_RUNNER_URL": base}
        environ |= {"PYTHONPATH": ""} if on_gpu else {"PYTHONPATH": _torch_for_cpu(), "GPU_SMOKE_DEVICE": "cpu"}
        boot.environ = lambda: environ  # type: ignore[method-assign]
        process = boot.start(gpu_ci_role="", gpu_agent_config=agent_config, gpu_smoke_pyz=smoke_archive())
        serial, _ = process.communicate(timeout=300)
    lines = [json.loads(line.split(" ", 1)[1]) for line in serial.splitlines() if line.startswith("GPU-AGENT-STEP ")]
    times = {line["step"]: float(line["seconds"]) for line in lines}
    names = [*times, ""]
    assert '"reason":"job-done"' in serial, serial
    seconds = {step: times[names[names.index(step) + 1]] - times[step] for step in STEPS}
    return seconds | {DOWNLOADED: len(asked) * len(archive) / 1e6}


def _torch_for_cpu() -> str:
    [packages] = (ROOT / ".venv-torch" / "lib").glob("python3*/site-packages")
    return str(packages)


def _install_runner(archive: bytes, sha256: str) -> None:
    """Install the runner as in a host image."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0755", "own", RUNNERS], check=True)
    home = RUNNERS / runner.VERSION
    home.mkdir()
    subprocess.run(["tar", "-xz", "--no-same-owner", "--no-same-permissions", "-C", home], input=archive, check=True)
    (home / MARKER).write_text(f"{sha256}\n")
