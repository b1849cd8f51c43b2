"""`python -m tools.scaffold WHAT NAME`: writes the folder of a new kind of pool, or of a new supplier of machines."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from gpu_ci.cli.new_files import render
from gpu_ci.naming import check

from tools.install import ROOT

TEMPLATES = Path(__file__).parent / "templates"
FOLDERS: Mapping[str, tuple[str, str]] = {
    "pool-kind": ("pool_kind", "components/gpu_ci/kinds"),
    "supplier": ("supplier", "manager/gpu_manager/suppliers"),
}
"""What can be written: the folder of its templates, and the folder of the repository that gets the new folder."""


def files(what: str, name: str) -> dict[str, str]:
    """Return the text of each file of a new folder, by path. `name` has the form of a `kind`, such as night-runners."""
    names = {"name": name, "module": name.replace("-", "_"), "class_name": name.title().replace("-", "")}
    return render(TEMPLATES / FOLDERS[what][0], names, ".j2")


def main(arguments: list[str]) -> int:
    """Return 0, or 1 if the folder exists. An invalid name raises ArgsError."""
    parser = argparse.ArgumentParser(prog="python -m tools.scaffold", description=(__doc__ or "").partition(": ")[2])
    parser.add_argument("what", choices=FOLDERS)
    parser.add_argument("name", help="such as night-runners")
    options = parser.parse_args(arguments)
    check(options.what, options.name)
    folder = ROOT / FOLDERS[options.what][1] / options.name.replace("-", "_")
    if folder.exists():
        print(f"{folder.relative_to(ROOT)} exists", file=sys.stderr)
        return 1
    folder.mkdir()
    for path, text in files(options.what, options.name).items():
        (folder / path).write_text(text)
    print(f"{folder.relative_to(ROOT)} is written; CONTRIBUTING.md has the next steps")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
