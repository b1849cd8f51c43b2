"""How long a machine takes from its boot script to a registered runner, step by step (`make bench ARGS="--only boot"`).

All parts are real but these: Google and GitHub are servers on this machine, so no network is in it; the GPU is this
machine's CPU; and the runner's archive has random bytes in the size of GitHub's, with a stand-in for its program. Needs
root, nft and the environment with torch (`make torch`).
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
from gpu_ci.payload import smoke_archive
from rich.console import Console
from rich.table import Table

from tests.agent.fakes import github_server, machine, runner
from tests.agent.fakes.boot import Boot, config
from tests.agent.fakes.google import FakeGoogle
from tests.agent.fakes.google import serving as serving_google
from tests.agent.fakes.life import SECRET, Github

ROOT = Path(__file__).resolve().parent.parent
[TORCH] = (ROOT / ".venv-torch" / "lib").glob("python3*/site-packages")
# actions-runner-linux-x64-2.338.0.tar.gz has 227,660,598 bytes (seen in notes of 2026-10-08 on installing it).
ARCHIVE_BYTES = 227_660_598
DOES = """
hook = os.environ["ACTIONS_RUNNER_HOOK_JOB_STARTED"]
say("Running job: train")
end(subprocess.run([hook], env={**os.environ, "GITHUB_JOB": "train"}).returncode)
"""
STEPS = {
    "config": "the agent is there, its configuration read",
    "driver": "the driver answers",
    "check": "gpu-smoke, torch's import in it",
    "key": "the App's key",
    "runner": "fetched, compared, unpacked; the cage made and tried; the GPU looked at",
    "register": "a token and a just-in-time configuration",
    "waiting": "the runner started, its job seen",
}


def bench_boot(rounds: int, console: Console) -> None:
    """Seconds of each step, with the runner fetched and with the runner in the image."""
    machine.needs("nft", "ip")
    # Hexadecimal digits of random bytes, which pack to little more than those bytes.
    filling = runner.Entry("./externals/filling", os.urandom(ARCHIVE_BYTES * 7 // 8).hex())
    archive = runner.archive(runner.listener(machine.open_python(), DOES), filling)
    runs: dict[str, list[dict[str, float]]] = {"fetched": [], "baked": []}
    with tempfile.TemporaryDirectory(prefix="bench-boot-", dir="/srv") as folder:
        for number in range(rounds):
            for how, found in runs.items():
                place = Path(folder, f"{how}-{number}")
                place.mkdir(mode=0o755)
                found.append(machine.inside(partial(_boot, place, archive, how == "baked")))
    table = Table(
        "step",
        "what",
        "runner fetched, s",
        "runner in the image, s",
        title=f"boot, median of {rounds}; an archive of {len(archive) / 1e6:.0f} MB",
    )
    for step, what in STEPS.items():
        table.add_row(step, what, *(f"{statistics.median(run[step] for run in found):.1f}" for found in runs.values()))
    table.add_row(
        "", "sum", *(f"{statistics.median(sum(run.values()) for run in found):.1f}" for found in runs.values())
    )
    console.print(table)


def _boot(folder: Path, archive: bytes, baked: bool) -> dict[str, float]:
    """One machine's life: how many seconds each step took."""
    machine.network()
    folder.parent.chmod(0o755)  # the stand-ins are for the runner's user too
    for path in ("/var/lib", "/usr/local/sbin"):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0755", "own", path], check=True)
    key = subprocess.run(["openssl", "genrsa", "2048"], capture_output=True, check=True).stdout
    public = subprocess.run(["openssl", "rsa", "-pubout"], input=key, capture_output=True, check=True).stdout
    sha256 = runner.sha256(archive)
    pin = {"version": runner.VERSION, "sha256": {"x64": sha256, "arm64": sha256}, "idle_sec": 60, "register_sec": 300}
    own = {"owner": "acme", "app_id": "12345", "installation_id": 77, "private_key": SECRET, "runner_group": "gpu"}
    releases = runner.releases(lambda _: (200, archive, len(archive)))
    public_key: Any = load_pem_public_key(public)
    github = Github(public_key, time.time)
    with serving_google(FakeGoogle()) as google, github_server.serving(github) as url, releases as (base, _):
        google.secrets[SECRET] = key
        boot = Boot(folder, google)
        shutil.rmtree(boot.torch)
        boot.tools.add("python3", f'exec "{machine.open_python()}" "$@"')
        smi = boot.tools.add("nvidia-smi", "[[ $* != *query-gpu* ]] || echo 'GPU-1a2b3c4d, 3, 0'")
        Path("/usr/local/sbin/nvidia-smi").symlink_to(smi)
        if baked:
            _bake(archive, sha256)
        told = json.dumps(config(github={**own, "labels": ["gpu"]}, runner=pin))
        environ = boot.environ() | {
            "GPU_AGENT_GITHUB_URL": url, "GPU_AGENT_RUNNER_URL": base, "GPU_SMOKE_DEVICE": "cpu",
            "PYTHONPATH": str(TORCH),
        }  # fmt: skip
        boot.environ = lambda: environ  # type: ignore[method-assign]
        process = boot.start(gpu_ci_role="", gpu_agent_config=told, gpu_smoke_pyz=smoke_archive())
        serial, _ = process.communicate(timeout=300)
    lines = [json.loads(line.split(" ", 1)[1]) for line in serial.splitlines() if line.startswith("GPU-AGENT-STEP ")]
    times = {line["step"]: float(line["seconds"]) for line in lines}
    names = [*times, ""]
    assert "job" in times, serial
    return {step: times[names[names.index(step) + 1]] - times[step] for step in STEPS}


def _bake(archive: bytes, sha256: str) -> None:
    """The runner as an image would have it."""
    home = Path("/opt/actions-runner", runner.VERSION)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0755", "own", "/opt"], check=True)
    home.mkdir(parents=True)
    subprocess.run(["tar", "-xz", "--no-same-owner", "--no-same-permissions", "-C", home], input=archive, check=True)
    (home / ".gpu-agent-sha256").write_text(f"{sha256}\n")
