"""Compare measurements as ratios within one run.

    make bench                        the standard measurements, some minutes
    make bench ARGS="--pools 1,10"    smaller
    make bench ARGS="--only import"

These measurements are not part of the standard ones:

    make bench ARGS="--only boot"     a machine's boot, step by step, as root
    make bench ARGS="--only boot --device cuda"     the same with a GPU
    make bench ARGS="--only pull-request --pools 5,100"     `gpu-ci preview` compared with two plain previews
    make bench ARGS="--only cost-report"  the report of 10,000 records of machines
    make bench ARGS="--only manager --seeds 1"  waits and costs of the runner manager and RunsOn, four minutes
    make bench ARGS="--only judge"    verdicts on canaries compared with simpler rules

Two equivalent programs run in turn (A B A B …), so a machine that gets slower slows both. Only numbers of one run can
be compared with each other.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml
from rich.console import Console
from rich.table import Table

FOLDER = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent
console = Console(width=150)


def ratio_table(title: str, names: tuple[str, str], pairs: list[tuple[float, float]], goal: float) -> None:
    """Print the medians of two measurements that ran in turn, and the median of their ratios."""
    table = Table("", "median s", title=title)
    for name, seconds in zip(names, zip(*pairs, strict=True), strict=True):
        table.add_row(name, f"{statistics.median(seconds):.3f}")
    table.add_row(f"ratio (goal {goal:.2f})", f"{statistics.median(a / b for a, b in pairs):.2f}")
    console.print(table)


def import_seconds(module: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
    return time.perf_counter() - began


def bench_import(rounds: int) -> None:
    """Compare `import gpu_ci` with `import pulumi`; the goal is a ratio of 1.3."""
    import_seconds("gpu_ci")  # the first import compiles
    pairs = [(import_seconds("gpu_ci"), import_seconds("pulumi")) for _ in range(rounds)]
    ratio_table(f"import, {rounds} rounds in turn", ("import gpu_ci", "import pulumi"), pairs, 1.3)


# The checks that a preview does in addition to the resources: arguments, cost and quotas.
CHECKS = """
import json, sys, time
import gpu_catalog as catalog
from gpu_ci.gcp.runner_pool import RunnerPoolArgs
began = time.perf_counter()
catalog.machine("g2-standard-8")
first = time.perf_counter() - began
place = {"project": "example-project", "subnetwork": "projects/example-project/regions/us-central1/subnetworks/default"}
began = time.perf_counter()
pools = [
    RunnerPoolArgs(machine_type="g2-standard-8", zones=["us-central1-a", "us-central1-b"], max=4, **place)
    for _ in range(int(sys.argv[1]))
]
demands = [pool.demand(f"pool-{index}") for index, pool in enumerate(pools)]
catalog.cost.of_stack(demands).to_json()
catalog.quota.compare(catalog.quota.needs(demands), catalog.limits.from_mapping({})[0])
print(json.dumps([first, time.perf_counter() - began]))
"""


def bench_checks(rounds: int, count: int = 100) -> None:
    """Measure all checks of 100 pools as a share of their preview (goal 2 %), and the first query of the catalog."""
    with tempfile.TemporaryDirectory(prefix="gpu-ci bench ") as name:
        folder = Path(name)
        copied("components", folder)
        preview("components", 1, folder)
        firsts, shares = [], []
        for _ in range(rounds):
            whole = preview("components", count, folder)[0]
            done = subprocess.run(
                [sys.executable, "-c", CHECKS, str(count)], capture_output=True, text=True, check=True
            )
            first, checks = json.loads(done.stdout)
            firsts.append(first)
            shares.append(checks / whole)
    table = Table("", "median", title=f"the catalog, {rounds} rounds")
    table.add_row("first query, ms (goal 50)", f"{1000 * statistics.median(firsts):.0f}")
    table.add_row(f"checks of {count} pools, part of their preview (goal 2 %)", f"{statistics.median(shares):.2%}")
    console.print(table)


def copied(program: str, folder: Path) -> None:
    """Copy a program of this folder to another folder."""
    shutil.copytree(FOLDER / program, folder / program)
    text = (folder / program / "Pulumi.yaml").read_text().replace("../../", f"{FOLDER.parent}/")
    (folder / program / "Pulumi.yaml").write_text(text)


def preview(program: str, pools: int, folder: Path) -> tuple[float, float, dict[str, int]]:
    """Run one preview. Return its seconds, its peak memory in MiB, and the number of resources to create by type."""
    project = folder / program
    peak = folder / "peak"
    environment = os.environ | {
        "PULUMI_SANDBOX_DIR": str(folder / f"sandbox-{program}"),
        "BENCH_PEAK_FILE": str(peak),
    }
    began = time.perf_counter()
    done = subprocess.run(
        [BIN / "pulumi-sandbox", "preview", "--stack", "bench", "--json", "--config", f"bench:pools={pools}"],
        cwd=project, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    seconds = time.perf_counter() - began
    if done.returncode:
        sys.exit(f"the {program} program failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    counts: dict[str, int] = {}
    for step in json.loads(done.stdout)["steps"]:
        kind = step["urn"].split("::")[2].rpartition("$")[2]
        counts[kind] = counts.get(kind, 0) + 1
    return seconds, int(peak.read_text()) / 1024, counts


def bench_preview(pools: list[int], rounds: int) -> None:
    """Compare N pools from the component with the same resources by hand; goals at 100 pools: 1.05x time,
    1.10x memory.
    """
    table = Table(
        "pools", "resources", "component s", "by hand s", "ratio", "component MiB", "by hand MiB", "ratio", "ms a pool",
        title=f"preview, median of {rounds} rounds in turn; goals at 100 pools: time 1.05, memory 1.10",
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="gpu-ci bench ") as name:
        folder = Path(name)
        for program in ("components", "by_hand"):
            copied(program, folder)
            preview(program, 1, folder)  # creates the stack and the providers' caches
        for count in pools:
            turns = 1 if count >= 1000 else rounds
            runs = [(preview("components", count, folder), preview("by_hand", count, folder)) for _ in range(turns)]
            a, b = runs[0][0][2], runs[0][1][2]
            component_only = {kind: number for kind, number in a.items() if b.get(kind) != number}
            if set(component_only) != {"gpu-ci:gcp:RunnerPool"}:
                sys.exit(f"the two programs do not make the same resources: {component_only} against {b}")
            seconds = [statistics.median(run[program][0] for run in runs) for program in (0, 1)]
            memory = [statistics.median(run[program][1] for run in runs) for program in (0, 1)]
            table.add_row(
                str(count), str(sum(a.values())), f"{seconds[0]:.2f}", f"{seconds[1]:.2f}",
                f"{statistics.median(x[0] / y[0] for x, y in runs):.2f}", f"{memory[0]:.0f}", f"{memory[1]:.0f}",
                f"{memory[0] / memory[1]:.2f}", f"{1000 * seconds[0] / count:.0f}",
            )  # fmt: skip
            console.print(f"{count} pools: {seconds[0]:.1f} s against {seconds[1]:.1f} s")
    console.print(table)


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


def bench_pull_request(rounds: int, pools: int) -> None:
    """Compare `gpu-ci preview` with two plain previews of the same stack. A pull request changes one machine type.

    The difference is the time of the checkouts, the isolation and the report. Goals: at most 1.2 x two plain previews;
    on 2 cores, 20 s with the stack's own pools and 60 s with 100 pools.
    """
    from tests.preview.repository import commit, git, start

    with tempfile.TemporaryDirectory(prefix="bench-preview-", dir=Path.home()) as temporary:
        repository = start(Path(temporary).resolve() / "repository")
        stack = repository / "Pulumi.staging.yaml"
        if pools:
            with_pools(stack, pools)
            commit(repository, "pools")
        git(repository, "checkout", "-q", "-b", "change")
        stack.write_text(stack.read_text().replace("n1-standard-4", "n1-standard-8"))
        commit(repository, "change")
        gpu_ci_preview = [str(BIN / "gpu-ci"), "preview", "--base", "main", "--stack", "staging"]
        plain = [str(BIN / "pulumi-sandbox"), "preview", "--stack", "staging", "--json", "--non-interactive"]
        pairs = []
        for number in range(rounds + 1):
            gpu_ci_sec = _seconds(gpu_ci_preview, repository, (3,))
            plain_secs = [
                _seconds(plain, repository, (0,), PULUMI_SANDBOX_DIR=f"{temporary}/plain-{number}-{again}")
                for again in range(2)
            ]
            if number:  # the first one compiles
                pairs.append((gpu_ci_sec, sum(plain_secs)))
    title = f"preview of a pull request, {pools or 'its own'} pools, {rounds} rounds of both commands"
    ratio_table(title, ("gpu-ci preview --base", "pulumi preview, twice"), pairs, 1.2)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__.split("\n")[0])
    parser.add_argument(
        "--only",
        choices=["import", "checks", "preview", "boot", "pull-request", "manager", "cost-report", "judge"],
        help="one of the measurements",
    )
    parser.add_argument("--pools", default="1,10,100,1000", help="numbers of pools, e.g. 1,10,100")
    parser.add_argument("--rounds", type=int, default=3, help="rounds per number of pools (1 from 1,000 on)")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="the device that a boot checks")
    parser.add_argument("--seeds", type=int, default=3, help="manager: the number of histories")
    parser.add_argument("--days", type=int, default=7, help="manager: the days of each history")
    args = parser.parse_args()
    if args.only in (None, "import"):
        bench_import(rounds=15)
    if args.only in (None, "checks"):
        bench_checks(args.rounds)
    if args.only in (None, "preview"):
        bench_preview([int(count) for count in args.pools.split(",")], args.rounds)
    if args.only == "boot":  # it needs root and the programs of a machine
        from bench.boot import bench_boot

        bench_boot(args.rounds, args.device, console)
    if args.only == "pull-request":
        for count in args.pools.split(","):
            bench_pull_request(args.rounds, int(count))
    if args.only == "cost-report":
        from bench.cost_report import bench_cost_report

        bench_cost_report(args.rounds, console)
    if args.only == "manager":
        from bench.manager import bench_manager

        bench_manager(args.seeds, args.days, console)
    if args.only == "judge":
        from bench.judge import bench_judge

        bench_judge(2000, console)


if __name__ == "__main__":
    main()
