"""Builds what `make test-kubernetes` needs besides the control plane: KWOK, Kueue, Helm's packages, and ARC.

    python3 tools/kwok.py [ARC]

ARC is a clone of actions/actions-runner-controller.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import go_programs
import install

TOOLS = install.ROOT / "tools"
PACKAGES = ("sigs.k8s.io/kwok/cmd/kwok", "sigs.k8s.io/kueue/cmd/kueue")


def build(title: str, modules: Path, *packages: str) -> None:
    """Build the packages of a module into the hidden folder of this title."""
    programs = go_programs.Programs(title, modules, install.ROOT / f".{title}", Path(__file__))

    def compiled() -> None:
        programs.log(f"building {', '.join(packages)}; this takes minutes once, and can be stopped and continued")
        programs.compile(programs.home, *packages, linked=f"-s -w {version(modules)}")

    programs.main(compiled)


def version(modules: Path) -> str:
    """Return the linker's flag for ARC's version. Without it, the controller deletes all scale sets."""
    chart = modules / "charts" / "gha-runner-scale-set-controller" / "Chart.yaml"
    if not chart.exists():
        return ""
    [found] = re.findall(r'^appVersion: "(.*)"$', chart.read_text(), re.MULTILINE)
    return f"-X github.com/actions/actions-runner-controller/build.Version={found}"


if __name__ == "__main__":
    build("kwok", TOOLS / "kwok", *PACKAGES)
    build("helm", TOOLS / "helm", ".")
    for source in sys.argv[1:]:
        build("arc", Path(source).absolute(), ".")
