"""Fails the run if a notebook or a test failed, or if there was none. Its arguments are the notebooks' statuses."""

from __future__ import annotations

import os
import sys

import common


def main() -> None:
    found = common.problems(sys.argv[1:], int(os.environ["PASSED"]), int(os.environ["FAILED"]))
    if found:
        raise common.Fault("; ".join(found))
    common.log(f"{len(sys.argv[1:])} notebooks and {os.environ['PASSED']} tests passed")


if __name__ == "__main__":
    common.run(main)
