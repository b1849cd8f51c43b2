"""Builds Tekton for `make test-tekton`, from the Go modules of tools/tekton, and gets examples of GitHub's deliveries.

    python3 tools/tekton.py

The definitions, roles and Deployments of Tekton are in its modules, and are copied next to the programs.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
import tarfile
from pathlib import Path

import go_programs
import install

PROGRAMS = go_programs.Programs(
    "tekton", install.ROOT / "tools" / "tekton", install.ROOT / ".tekton", Path(__file__)
)  # fmt: skip
PACKAGES = {
    "pipeline": ("entrypoint", "controller", "webhook"),
    "triggers": ("controller", "eventlistenersink", "interceptors", "webhook"),
}
INTERCEPTORS = "tekton-triggers-core-interceptors.tekton-pipelines.svc"
DELIVERIES = "@octokit/webhooks-examples@7.6.1"
DIGEST = "De6U3XB6O3DtCa7bKgCMzTHdeopqqZ6SNivMYJnK65ierKL1AnNIA0tkRYCRS7lwGT792d+Ps1WbfHlso6MynQ=="
"""The SHA-512 of the package's archive, as npm writes it."""


def build() -> None:
    PROGRAMS.log("building Tekton; this takes three to six minutes once, and can be stopped and continued")
    for name, programs in PACKAGES.items():
        module, home = f"github.com/tektoncd/{name}", PROGRAMS.home / name
        PROGRAMS.compile(home, *(f"{module}/cmd/{each}" for each in programs))
        config = Path(PROGRAMS.facts(module, "{{.Dir}}")) / "config"
        for each in config.rglob("*.yaml"):
            copy = home / "config" / each.relative_to(config)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(each, copy)
    _get_deliveries()
    # The sink calls the interceptors by the name of their Service.
    (PROGRAMS.home / "hosts").write_text(f"127.0.0.1 localhost {INTERCEPTORS}\n")


def _get_deliveries() -> None:
    npm = install.ROOT / ".venv" / "bin" / "npm"
    install.run(npm, "pack", "--silent", "--pack-destination", PROGRAMS.home, DELIVERIES)
    [archive] = PROGRAMS.home.glob("*.tgz")
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if digest != DIGEST:
        PROGRAMS.fail(f"{DELIVERIES} is another archive", f"got: sha512-{digest}", f"expected: sha512-{DIGEST}")
    with tarfile.open(archive) as packed:
        packed.extract("package/api.github.com/index.json", PROGRAMS.home, filter="data")
    (PROGRAMS.home / "package/api.github.com/index.json").replace(PROGRAMS.home / "deliveries.json")
    shutil.rmtree(PROGRAMS.home / "package")


if __name__ == "__main__":
    if shutil.which("bwrap") is None:
        PROGRAMS.fail("no `bwrap` on PATH", "hint: apt-get install bubblewrap, or your system's package of this name")
    PROGRAMS.main(build)
