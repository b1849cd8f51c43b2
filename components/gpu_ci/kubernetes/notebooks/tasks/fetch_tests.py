"""Clones the repository with the tests at its revision, and stores its files."""

from __future__ import annotations

import os
from pathlib import Path

import common


def main() -> None:
    target = Path("tests").resolve()
    commit = common.clone(os.environ["TESTS_REPOSITORY"], os.environ["TESTS_REVISION"] or "HEAD", target)
    common.log(f"the tests are those of {commit}")
    common.pack(target, "tests.tar.gz")


if __name__ == "__main__":
    common.run(main)
