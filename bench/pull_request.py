"""Compare the time of `gpu-ci preview` with two plain previews of the same stack.

The difference is the time of the checkouts, the isolation and the report.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml
from rich.console import Console
from rich.table import Table

from tests.preview.repository import commit, git, start

GOAL = 1.2
_BIN = Path(sys.executable).parent


def _seconds(command: list[str], folder: Path, codes: tuple[int, ...], **environment: str) -> float:
    began = time.perf_counter()
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode not in codes:
        raise SystemExit(f"{' '.join(command)}: {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return time.perf_counter() - began


def with_pools(file: Path, count: int) -> None:
    """Add pools on Compute Engine to the staging stack until it has this number."""
    document = yaml.safe_load(file.read_text())
    pools = document["config"]["gpu-ci:pools"]
    for number in range(count - len(pools)):
        pools[f"p{number:03}"] = {**pools["l4"], "runnerLabels": ["self-hosted", "gpu", f"p{number:03}"]}
    file.write_text(yaml.safe_dump(document, sort_keys=False))


def bench_pull_request(rounds: int, pools: int, console: Console) -> None:
    """Measure the preview of a pull request that changes one machine type.

    Goals: at most 1.2 x two plain previews; on 2 cores, 20 s with the stack's own pools and 60 s with 100 pools.
    """
    with tempfile.TemporaryDirectory(prefix="bench-preview-", dir=Path.home()) as temporary:
        repository = start(Path(temporary).resolve() / "repository")
        stack = repository / "Pulumi.staging.yaml"
        if pools:
            with_pools(stack, pools)
            commit(repository, "pools")
        git(repository, "checkout", "-q", "-b", "change")
        stack.write_text(stack.read_text().replace("n1-standard-4", "n1-standard-8"))
        commit(repository, "change")
        gpu_ci_preview = [str(_BIN / "gpu-ci"), "preview", "--base", "main", "--stack", "staging"]
        plain = [str(_BIN / "pulumi-sandbox"), "preview", "--stack", "staging", "--json", "--non-interactive"]
        pairs = []
        for number in range(rounds + 1):
            gpu_ci_sec = _seconds(gpu_ci_preview, repository, (3,))
            plain_secs = [
                _seconds(plain, repository, (0,), PULUMI_SANDBOX_DIR=f"{temporary}/plain-{number}-{again}")
                for again in range(2)
            ]
            if number:  # the first one compiles
                pairs.append((gpu_ci_sec, sum(plain_secs)))
    table = Table(
        "",
        "median s",
        title=f"preview of a pull request, {pools or 'its own'} pools, {rounds} rounds of both commands",
    )
    table.add_row("gpu-ci preview --base", f"{statistics.median(a for a, _ in pairs):.1f}")
    table.add_row("pulumi preview, twice", f"{statistics.median(b for _, b in pairs):.1f}")
    table.add_row(f"ratio (goal {GOAL})", f"{statistics.median(a / b for a, b in pairs):.2f}")
    console.print(table)
