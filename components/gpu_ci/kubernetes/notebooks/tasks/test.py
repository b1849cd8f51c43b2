"""Runs pytest on the results of the notebooks. Failed tests fail the run in `verdict`, not this task."""

from __future__ import annotations

import collections
import os
import subprocess
import sys
from pathlib import Path

from junitparser import Error, JUnitXml, TestCase, TestSuite

import common

WHOLE = (0, 1, 5)
"""The exit codes of pytest after a whole run: all tests passed, some failed, none was found."""


def main() -> None:
    root = common.unpack("tests.tar.gz" if os.environ.get("TESTS_REPOSITORY") else "source.tar.gz")
    output, junit = Path("output").resolve(), Path("junit.xml").resolve()
    for notebook in common.get_json("prepared.json")["notebooks"]:
        for path in (f"{common.folder(notebook)}/{name}" for name in ("out.ipynb", "result.json", "out.html")):
            common.save(path, output / path)
    tests = os.environ["TESTS_PATH"]
    code, last_lines = pytest(root, tests, output, junit) if (root / tests).exists() else (5, [])
    found = JUnitXml.fromfile(str(junit)) if junit.exists() else JUnitXml()
    cases = [case for suite in found for case in suite]
    failed = sum(case.is_failure or case.is_error for case in cases)
    if code not in WHOLE and not failed:  # such as a conftest.py that cannot be imported
        case, suite = TestCase("pytest"), TestSuite("pytest")
        case.result = [Error(f"pytest exits with {code}\n" + "".join(last_lines))]
        suite.add_testcase(case)
        found.add_testsuite(suite)
        failed = 1
    common.put("junit.xml", found.tostring())
    common.result("passed", str(sum(case.is_passed for case in cases)))
    common.result("failed", str(failed))


def pytest(root: Path, tests: str, output: Path, junit: Path) -> tuple[int, list[str]]:
    """Run the tests. Return the exit code, and the last lines of the output."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--junitxml={junit}", tests]
    environment = os.environ | {"NOTEBOOK_OUTPUT": str(output)}
    last_lines: collections.deque[str] = collections.deque(maxlen=30)
    with subprocess.Popen(
        command,
        cwd=root,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        for line in process.stdout or ():
            common.log(line.rstrip("\n"))
            last_lines.append(line)
    return process.returncode, list(last_lines)


if __name__ == "__main__":
    common.run(main)
