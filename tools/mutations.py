"""`make test-mutations`: change the decision code at one place at a time, and list the changes that no test detects.

    python -m tools.mutations                     all parts; minutes each
    python -m tools.mutations judge               one part: decision, judge or stack
    python -m tools.mutations stack --only '*5'   every tenth change

mutmut makes the changes and runs the tests that reach the changed function. It needs the packages below `src`, so they
are copied to a temporary folder. Tests that start a command run the unchanged code, so they detect nothing.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = (
    "agent/gpu_agent", "agent/gpu_agent_sandbox", "catalog/gpu_catalog", "common/gpu_common", "components/gpu_ci",
    "manager/gpu_manager", "preview/gpu_preview", "sandbox/pulumi_sandbox", "smoke/gpu_smoke", "smoke/pytest_gpu_ci",
)  # fmt: skip


class Part(NamedTuple):
    """The code that is changed, below `src`, and the tests that should detect the changes."""

    code: tuple[str, ...]
    tests: tuple[str, ...]
    left_out: str = ""
    """Leaves out tests that read sources, or that fail if they run twice in one process."""


_MANAGER_TESTS = tuple(
    f"tests/manager/test_{subject}.py"
    for subject in (
        "commit_statuses", "decide", "flex_start", "loop", "machines", "names", "registrations", "reruns", "standby",
        "supply",
    )
)  # fmt: skip
PARTS = {
    "decision": Part(("gpu_manager/decision/*.py",), _MANAGER_TESTS, "not the_configuration_decides"),
    "judge": Part(("gpu_smoke/judge/*.py", "gpu_smoke/checks.py", "gpu_smoke/faults.py"), ("tests/smoke/judge",)),
    "stack": Part(
        ("gpu_ci/stack/*.py",),
        ("tests/gpu_ci/stack", "tests/gpu_ci/program", "tests/mistakes"),
        "not table_of_contents",
    ),
}
_IGNORED = shutil.ignore_patterns("__pycache__")
_CONFIGURATION = """
[tool.pytest.ini_options]
addopts = "-p no:cacheprovider -p no:gpu-ci -m 'not slow and not many_boots and not engine' -k '{left_out}'"
markers = ["engine", "slow", "many_boots"]
[tool.mutmut]
source_paths = ["src"]
only_mutate = {code}
also_copy = {copied}
pytest_add_cli_args_test_selection = {tests}
"""


def run(part: Part, names: Sequence[str], jobs: int) -> dict[str, list[str]]:
    """Return the changes by their state, such as `killed`, `survived` or `no tests`."""
    with tempfile.TemporaryDirectory(prefix="gpu-ci-mutations-") as folder_name:
        folder = Path(folder_name)
        for package in PACKAGES:
            shutil.copytree(ROOT / package, folder / "src" / Path(package).name, ignore=_IGNORED)
        copied = [
            "bootstrap",
            "docs",
            "examples",
            "images",
            "infra",
            "locks",
            "tests",
            *(file.name for file in ROOT.glob("*.yaml")),
        ]
        for each in copied:
            source = ROOT / each
            if source.is_dir():
                shutil.copytree(source, folder / each, ignore=_IGNORED)
            else:
                shutil.copy(source, folder)
        text = _CONFIGURATION.format(
            code=[f"src/{each}" for each in part.code], copied=copied, tests=list(part.tests), left_out=part.left_out
        )
        (folder / "pyproject.toml").write_text(text)
        mutmut = [sys.executable, "-m", "mutmut"]
        subprocess.run([*mutmut, "run", "--max-children", str(jobs), *names], cwd=folder, check=True)
        results = subprocess.run(
            [*mutmut, "results", "--all", "true"], cwd=folder, check=True, capture_output=True, text=True
        )
    states: dict[str, list[str]] = {}
    for line in results.stdout.splitlines():
        name, found, state = line.strip().rpartition(": ")
        if found and state != "not checked":
            states.setdefault(state, []).append(name)
    return states


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the changes that no test detects, and the numbers of each part."""
    parser = argparse.ArgumentParser(prog="make test-mutations", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("parts", nargs="*", default=[], metavar="PART", help=f"{', '.join(PARTS)} (default: all)")
    parser.add_argument(
        "--only", action="append", default=[], metavar="PATTERN", help="the names of changes: *5, *reruns*"
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: %(default)s)")
    options = parser.parse_args(arguments)
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}; expected: {', '.join(PARTS)}")
    numbers = []
    for name in options.parts or PARTS:
        states = run(PARTS[name], options.only, options.jobs)
        undetected = sorted(states.get("survived", []) + states.get("no tests", []))
        sys.stdout.writelines(f"{each}\n" for each in undetected)
        numbers.append(f"{name}: {len(undetected)} of {sum(map(len, states.values()))} changes are not detected\n")
    sys.stdout.writelines(numbers)


if __name__ == "__main__":
    main()
