"""Gets Prometheus, promtool and Alertmanager for `make test-monitoring`, from Debian's packages.

    python3 tools/monitoring.py

The packages are unpacked into .monitoring, and not installed. Without apt-get, the tests are skipped.
This module uses only the standard library, like the installer.
"""

from __future__ import annotations

import shutil
import subprocess
import sys

import install

HOME = install.ROOT / ".monitoring"
PACKAGES = ("prometheus", "prometheus-alertmanager")
# Debian's Alertmanager reads its templates from this folder. Without a slash at its start, that is below the folder in
# which the program is started.
_TEMPLATES, _OF_THE_SAME_LENGTH = b"/usr/share/prometheus/alertmanager", b"usr/share/prometheus/alertmanager/"


def main() -> None:
    if (HOME / install.STAMP).is_file():
        return
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        print("monitoring: the tests will be skipped: they need apt-get and dpkg-deb (Debian or Ubuntu)")
        return
    shutil.rmtree(HOME, ignore_errors=True)
    (HOME / "packages").mkdir(parents=True)
    subprocess.run(["apt-get", "download", "-qq", *PACKAGES], cwd=HOME / "packages", check=True)
    for package in (HOME / "packages").glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", package, HOME], check=True)
    program = HOME / "usr/bin/prometheus-alertmanager"
    program.write_bytes(program.read_bytes().replace(_TEMPLATES, _OF_THE_SAME_LENGTH))
    (HOME / install.STAMP).touch()


if __name__ == "__main__":
    try:
        with install.installer_lock():
            main()
    except subprocess.CalledProcessError as error:
        sys.exit(
            f"monitoring: `{' '.join(map(str, error.cmd))}` exits with {error.returncode}\n"
            "  hint: apt-get update, as root"
        )
