"""The manager's image: locked packages, no privileges, and only the files of the checkout from which the wheel is
built.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINES = (ROOT / "manager/Dockerfile").read_text().splitlines()
IGNORED = (ROOT / "manager/Dockerfile.dockerignore").read_text().splitlines()


def test_every_package_comes_from_the_lock_with_its_hash() -> None:
    installs = [line for line in LINES if "pip install" in line]
    assert [("--require-hashes" in line, "--no-deps" in line) for line in installs] == [(True, False), (False, True)]


def test_the_process_runs_the_manager_as_a_user_without_rights() -> None:
    last = LINES[max(index for index, line in enumerate(LINES) if line.startswith("FROM ")) :]
    assert [line for line in last if line.startswith(("USER", "ENTRYPOINT", "CMD"))] == [
        "USER 10001:10001",
        'ENTRYPOINT ["/opt/gpu-ci/bin/gpu-ci"]',
        'CMD ["manager", "run", "--json"]',
    ]


def test_the_build_sees_the_packages_of_the_wheel_and_no_state() -> None:
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    folders = {package.partition("/")[0] for package in packages["packages"]}
    shown = {line[1:] for line in IGNORED if line.startswith("!")}
    assert "*" in IGNORED
    assert folders <= shown
    assert {each for each in shown - folders if (ROOT / each).is_dir()} <= {"policies"}


def test_its_python_is_the_one_that_the_lock_is_for() -> None:
    [version] = re.findall(r"^ARG PYTHON=python:(\d+\.\d+)-", "\n".join(LINES), re.MULTILINE)
    assert f'"--python-version", "{version}"' in (ROOT / "tools/lock.py").read_text()
