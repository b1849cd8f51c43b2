"""Changes decision code at one place at a time, and lists the changes that no test detects (`make test-mutations`).

    .venv/bin/python tools/mutations.py [judge/ checks.py manager/decision/ ...] [--jobs 2] [--quick]

It covers three parts:

- the verdict code of gpu-smoke,
- below `manager/`, the decisions of the runner manager and the registration of runners,
- below `agent/`, the registration on the machine.

A change is another comparison, `and` for `or`, an inverted condition, or another number. Each change is made in a copy
of the package in a temporary folder. The tests run on that copy until one fails: first those that call the code, then
those that run the command. `--quick` leaves the latter out. mutations.json lists expected survivors, each with the
reason. A new survivor is reported, and so is a listed one that no longer survives.

No library is used. mutmut selects the change by an environment variable (boxed/mutmut issue 511), but our tests run the
command with an environment of their own. cosmic-ray starts the whole test command for each change, which takes two
minutes here.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import pydantic  # noqa: F401 - imported once, and not for each change
import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
EXPLAINED = Path(__file__).with_suffix(".json")
# Tests that call the code, by what they are likely to see, and those that run the command.
_JUDGES = (
    "judge/test_numbers",
    "judge/test_machine",
    "judge/test_findings",
    "judge/test_health",
    "judge/test_load",
    "judge/test_slowdown",
)
CALLS = {
    "judge/": (*_JUDGES, "judge/test_floors", "history/test_baseline", "history/test_own_floors"),
    "checks.py": _JUDGES,
    "faults.py": _JUDGES,
    "compat/rules.py": ("compat/test_rules",),
    "plan.py": ("judge/test_numbers", "workers/test_schedule", "judge/test_floors", "test_documented_checks"),
}
# The numbers in these files are chosen sizes, times and limits. A test cannot detect another choice.
ONLY_CHOSEN_NUMBERS = {"plan.py"}
COMMAND = (
    "checks/test_verdicts",
    "checks/test_nvml_health",
    "judge/test_slowdown",
    "checks/test_profiles",
    "checks/test_environment",
    "checks/test_machine",
    "workers/test_nvml_monitor",
    "workers/test_hangs",
    "history/test_baseline",
    "history/test_own_floors",
)


class Package(NamedTuple):
    """The code that is changed, and the tests that should detect the change."""

    source: str
    tests: str
    prefix: str
    """The prefix of the package's files on the command line and in mutations.json."""
    calls: Mapping[str, tuple[str, ...]]
    """The tests that call the code, by the prefix of a file's path."""
    command: tuple[str, ...] = ()
    """The tests that run the code as a command."""
    limit_sec: float = 300
    """The time after which a test run counts as endless."""
    slow: bool = False
    """True to run the slow tests too."""


_DECISIONS = (
    "test_decide", "test_supply", "test_machines", "test_reruns", "test_flex_start", "test_names", "test_loop",
    "test_commit_statuses", "test_registrations",
)  # fmt: skip
MANAGER = Package(
    "manager/gpu_manager",
    "tests/manager",
    "manager/",
    {
        "decision/registrations.py": ("test_registrations", *_DECISIONS),
        "decision/": _DECISIONS,
        "loop.py": _DECISIONS,
        "registration.py": ("test_registrations", "compute/test_registrations"),
        "assignment.py": ("stores/test_shares",),
        "stores/shares.py": ("stores/test_shares", "test_shares_of_a_process", "test_commands"),
    },
    limit_sec=60,
)
COMMON = Package("common/gpu_common", "tests/manager", "common/", {"capacity.py": _DECISIONS}, limit_sec=60)
AGENT = Package(
    "agent/gpu_agent",
    "tests/agent",
    "agent/",
    {"broker/": ("broker/test_key_pair", "broker/test_registration")},
    limit_sec=60,
)
SMOKE = Package("smoke/gpu_smoke", "tests/smoke", "", CALLS, COMMAND, slow=True)
# The package without a prefix is last, because its prefix matches every path.
PACKAGES = (MANAGER, COMMON, AGENT, SMOKE)
WORKER: dict[str, Any] = {}  # in each process of the pool: its copy of the packages, and the option --quick

_OTHER_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}


class Mutant(NamedTuple):
    """One change: its file, a name that does not depend on lines above, and the whole changed file."""

    file: str
    name: str
    source: str


def mutants(file: str, source: str) -> Iterator[Mutant]:
    """Yield every change of a file."""
    tree = ast.parse(source)
    counts: Counter[str] = Counter()
    for parent, field, node, replace in _expressions(tree, ""):
        for other in () if file in ONLY_CHOSEN_NUMBERS and isinstance(node, ast.Constant) else _changes(field, node):
            replace(other)
            name = f"{file}: {parent or 'module'}: {ast.unparse(node)} -> {ast.unparse(other)}"
            counts[name] += 1
            yield Mutant(file, name if counts[name] == 1 else f"{name} ({counts[name]})", ast.unparse(tree))
        replace(node)


def _expressions(node: ast.AST, parent: str) -> Iterator[tuple[str, str, ast.AST, Callable[[ast.AST], None]]]:
    """Yield each computed expression, with the name of its function or class, its field, and a function to replace it.

    The field is the name that `ast` gives to the expression in its parent node.
    """
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "format_spec"):
            continue
        if isinstance(value, ast.expr):
            yield parent, field, value, lambda other, field=field: setattr(node, field, other)  # type: ignore[misc]
            yield from _expressions(value, parent)
        for index, each in enumerate(value if isinstance(value, list) else ()):
            if isinstance(each, ast.expr):
                yield parent, field, each, lambda other, at=value, index=index: at.__setitem__(index, other)  # type: ignore[misc]
            if isinstance(each, ast.AST):
                named = isinstance(each, (ast.FunctionDef, ast.ClassDef))
                yield from _expressions(each, f"{parent}.{each.name}".lstrip(".") if named else parent)  # type: ignore[attr-defined]


def _changes(field: str, node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Compare):
        for index, op in enumerate(node.ops):
            for other in _OTHER_COMPARISONS[type(op)]:
                yield ast.Compare(node.left, [*node.ops[:index], other(), *node.ops[index + 1 :]], node.comparators)
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        yield ast.Constant(node.value + 1 if isinstance(node.value, int) else round(node.value * 1.01, 9) or 0.01)
    elif field in ("test", "ifs") and isinstance(node, ast.expr):
        yield ast.UnaryOp(ast.Not(), node)


class _OnlyCalls:
    """A pytest plugin that runs only the tests that call the code, and not those that run the command."""

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Remove the tests that run the command `gpu-smoke`."""
        items[:] = [item for item in items if "smoke" not in item.fixturenames]


def package_of(path: str) -> Package:
    """Return the package of a path on the command line."""
    return next(package for package in PACKAGES if path.startswith(package.prefix))


def copy_packages(workspace: Path) -> Path:
    """Create a copy of the packages and of their tests."""
    ignored = shutil.ignore_patterns("__pycache__")
    for folder in ("smoke", "tests/smoke", "common", "manager", "tests/manager", "agent", "tests/agent"):
        shutil.copytree(ROOT / folder, workspace / folder, ignore=ignored)
    for file in ("tests/__init__.py", "README.md", *_DOCS):
        (workspace / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, workspace / file)
    return workspace


_DOCS = [
    str(path.relative_to(ROOT)) for suffix in ("md", "schema.json") for path in (ROOT / "docs").rglob(f"*.{suffix}")
]


def survives(workspace: Path, file: str, quick: bool) -> bool:
    """Return True if every test passes on the changed copy. A run that does not end counts as a detected change."""
    package = package_of(file)
    name = file.removeprefix(package.prefix)
    calls = next(names for path, names in package.calls.items() if name.startswith(path))
    return _pass(workspace, package, calls, [_OnlyCalls()]) and (
        quick or not package.command or _pass(workspace, package, package.command, [])
    )


def _pass(workspace: Path, package: Package, names: Sequence[str], plugins: list[Any]) -> bool:
    child = os.fork()
    if not child:
        marker = [] if package.slow else ["-m", "not slow"]
        _test(workspace, [*marker, *(f"{package.tests}/{name}.py" for name in names)], plugins)
    end = time.monotonic() + package.limit_sec
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.02)
    print(f"a change counts as detected, because its tests did not end within {package.limit_sec} s", flush=True)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def _test(workspace: Path, arguments: list[str], plugins: list[Any]) -> None:
    """Run the tests in a new process, which has imported pytest but not the code under test."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    code = 3
    try:
        os.chdir(workspace)
        sys.path[:0] = [str(workspace), *(str(workspace / name) for name in ("smoke", "common", "manager", "agent"))]
        sys.dont_write_bytecode = True
        code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *arguments], plugins=plugins)
    finally:
        os._exit(code)


def _begin(home: Path, quick: bool) -> None:
    """Create a copy for each process of the pool."""
    WORKER.update(workspace=copy_packages(home / str(os.getpid())), quick=quick)


def _run(mutant: Mutant) -> bool:
    package = package_of(mutant.file)
    target = WORKER["workspace"] / package.source / mutant.file.removeprefix(package.prefix)
    original = target.read_text(encoding="utf-8")
    try:
        target.write_text(mutant.source, encoding="utf-8")
        return survives(WORKER["workspace"], mutant.file, WORKER["quick"])
    finally:
        target.write_text(original, encoding="utf-8")


def _files(path: str) -> Iterator[tuple[str, Path]]:
    """Yield the files of a path on the command line, each with its name."""
    package = package_of(path)
    source, inside = ROOT / package.source, path.removeprefix(package.prefix)
    for file in sorted((source / inside).rglob("*.py")) if path.endswith("/") else [source / inside]:
        yield f"{package.prefix}{file.relative_to(source)}", file


def _one_for_each_test_set(files: Iterable[str]) -> list[str]:
    """Return one file for each set of tests."""
    file_of = {}
    for name in files:
        package = package_of(name)
        relative_path = name.removeprefix(package.prefix)
        file_of[package.prefix, next(path for path in package.calls if relative_path.startswith(path))] = name
    return list(file_of.values())


def main() -> int:
    """Run the command line. Return 1 for a survivor that is not listed, or a listed one that does not survive."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    everything = [f"{package.prefix}{path}" for package in reversed(PACKAGES) for path in package.calls]
    text = "below smoke/gpu_smoke; after manager/ or agent/, below manager/gpu_manager or agent/gpu_agent"
    parser.add_argument("paths", nargs="*", default=everything, help=f"{text}; a folder ends in /")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="leave out the tests that run the command")
    args = parser.parse_args()
    files = {name: file for path in args.paths for name, file in _files(path)}
    changes = [m for name, file in files.items() for m in mutants(name, file.read_text(encoding="utf-8"))]
    explained: dict[str, str] = json.loads(EXPLAINED.read_text(encoding="utf-8"))
    # The same examples for every change, and no deadline, so that no test fails because the machine is busy.
    settings.register_profile("mutations", deadline=None, derandomize=True, database=None, max_examples=25)
    settings.load_profile("mutations")
    survivors = set()
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        unchanged = copy_packages(Path(folder, "unchanged"))
        packages = [] if args.quick else {package_of(path).source: package_of(path) for path in files}.values()
        calls_pass = all(survives(unchanged, path, quick=True) for path in _one_for_each_test_set(files))
        if not calls_pass or not all(_pass(unchanged, each, each.command, []) for each in packages if each.command):
            sys.exit("mutations: the tests fail without any change")
        # Processes instead of threads: each forks for every change, and a fork of a process with threads may never end.
        with get_context("fork").Pool(args.jobs, _begin, (Path(folder), args.quick)) as pool:
            for number, (mutant, survived) in enumerate(zip(changes, pool.imap(_run, changes), strict=True), 1):
                if survived:
                    survivors.add(mutant.name)
                    print(f"{number} of {len(changes)}: survives: {mutant.name}", flush=True)
    new = [name for name in sorted(survivors) if name not in explained]
    outdated = [name for name in explained if name not in survivors and name.partition(": ")[0] in files]
    print(
        f"{len(changes)} changes of {len(files)} files: {len(changes) - len(survivors)} detected by a test, "
        f"{len(survivors)} survive,"
    )
    print(f"{len(survivors) - len(new)} of them explained in tools/mutations.json")
    for title, names in (("not explained", new), ("explained, but detected by a test or no longer made", outdated)):
        print(*(f"{title}: {name}" for name in names), sep="\n", end="\n" if names else "")
    return 1 if new or outdated else 0


if __name__ == "__main__":
    sys.exit(main())
