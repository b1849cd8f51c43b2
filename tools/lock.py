"""Resolves the locks (docs/adr/0005-installation-and-libraries.md): exact versions with hashes, no download addresses.

The locks with development tools and for comments use the versions of requirements.lock, so that a package has the same
version in all of them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMON = ["--quiet", "--universal", "--python-version", "3.11", "--generate-hashes", "--no-header"]
EXTRAS = ("all", "comment", "manager", "preview", "sandbox")
PROJECT = ["pyproject.toml", "--group", "build", *(part for extra in EXTRAS for part in ("--extra", extra))]
LOCKS = {
    "agent/gpu_agent/uv.lock": ["--group", "uv"],
    "requirements.lock": PROJECT,
    "tools/locks/dev.lock": [*PROJECT, "--group", "dev", "-c", "requirements.lock"],
    "tools/locks/comment.lock": ["--group", "comment", "-c", "requirements.lock"],
    "tools/locks/notebook.lock": ["--group", "notebook", "-c", "requirements.lock"],
    "tools/locks/vertex.lock": ["--group", "vertex", "-c", "requirements.lock"],
    "tools/locks/jarvis.lock": ["--group", "rented", "-c", "requirements.lock"],
    "components/gpu_ci/gcp/build_program.lock": ["--group", "build-program", "-c", "requirements.lock"],
    "agent/gpu_agent/torch.lock": ["--group", "torch"],
    "policies/requirements.lock": ["--group", "policy"],
}


def main(upgrade: list[str]) -> None:
    for lock, sources in LOCKS.items():
        print(f"lock: {lock}", flush=True)
        uv = str(ROOT / ".tools" / "bin" / "uv")
        subprocess.run([uv, "pip", "compile", *COMMON, *upgrade, *sources, "-o", lock], check=True, cwd=ROOT)


if __name__ == "__main__":
    main(sys.argv[1:])
