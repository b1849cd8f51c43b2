"""Boots hundreds of machines with random faults, and counts how they end: `make test-boots`."""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from tests.agent.conftest import openssl
from tests.agent.end_to_end.random_machines import random_machine
from tests.agent.fakes import machine, whole_machine

_EVERY = 25


def main() -> int:
    """Boot them, and print a line for every 25 machines and a table. Return 1 if a rule was broken."""
    parser = argparse.ArgumentParser(prog="make test-boots", description=__doc__)
    parser.add_argument("--count", type=int, default=500, help="how many machines")
    parser.add_argument("--seed", type=int, default=1, help="of the first; each next one has the next")
    parser.add_argument("--at-once", type=int, default=2, help="how many live at the same time")
    options = parser.parse_args()
    try:
        machine.needs("nft", "ip", "curl", "openssl")
        machine.open_python()
    except pytest.skip.Exception as skipped:
        print(f"test-boots: {skipped}")
        return 2
    seeds, began = range(options.seed, options.seed + options.count), time.monotonic()
    ended: dict[str, list[float]] = defaultdict(list)
    problems: list[tuple[int, str]] = []
    leaked = alive = silent = 0
    for number, (seed, found, broke) in enumerate(run_machines(seeds, options.at_once), 1):
        ended[(found["end"] or {}).get("reason", "none")].append(found["sec"])
        leaked, alive, silent = leaked + len(found["leaked"]), alive + found["alive"], silent + (not found["end"])
        problems += [(seed, f"{rule} ({'; '.join(random_machine(seed).faults)})") for rule in broke]
        if broke or options.count == 1:
            print(f"seed {seed}: {'; '.join(random_machine(seed).faults)}\n{found['serial']}")
        if number % _EVERY == 0:
            print(f"{number:4} of {options.count} after {time.monotonic() - began:.0f} s, {len(problems)} rules broken")
        sys.stdout.flush()
    print(f"\n{'reason':20} {'machines':>8} {'p50 s':>7} {'p95 s':>7}")
    for reason, seconds in sorted(ended.items(), key=lambda each: -len(each[1])):
        print(line(reason, seconds))
    print(line("all", [each for seconds in ended.values() for each in seconds]))
    print(f"\n{silent} without a reason, {alive} alive after the deadline, {leaked} secrets found")
    for seed, rule in problems:
        print(f"seed {seed}: {rule}")
    return 1 if problems else 0


def run_machines(seeds: range, at_once: int) -> Iterator[tuple[int, dict[str, Any], list[str]]]:
    """Return each machine's seed, what remains of it, and the rules that it broke, in the order of their ends."""
    key = openssl("rsa", "-traditional", content=openssl("genrsa", "2048"))
    public_key = openssl("rsa", "-pubout", content=key)
    with ProcessPoolExecutor(at_once) as pool:
        for done in as_completed(pool.submit(one, seed, key, public_key) for seed in seeds):
            yield done.result()


def one(seed: int, key: bytes, public_key: bytes) -> tuple[int, dict[str, Any], list[str]]:
    """Run one machine."""
    met, loaded = random_machine(seed), load_pem_public_key(public_key)
    assert isinstance(loaded, RSAPublicKey)
    with tempfile.TemporaryDirectory() as folder:
        found = whole_machine.run_machine(Path(folder), key, loaded, met.plan)
    return seed, found, met.broken(found)


def line(name: str, seconds: list[float]) -> str:
    """Return a row of the table."""
    p95 = statistics.quantiles(seconds, n=20, method="inclusive")[-1] if len(seconds) > 1 else seconds[0]
    return f"{name:20} {len(seconds):8} {statistics.median(seconds):7.1f} {p95:7.1f}"


if __name__ == "__main__":
    sys.exit(main())
