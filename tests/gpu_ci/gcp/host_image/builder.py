"""A builder machine: the real provisioning script in a folder, with stubs for the programs that change a machine."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import subprocess
import tarfile
from pathlib import Path
from typing import Any

from gpu_ci.gcp import host_image_pipeline as resources
from gpu_ci.gcp.gate.verdict import VERDICT_KEY, Verdict, from_serial_log

from tests.agent.fakes.boot import Tools
from tests.agent.fakes.google import FakeGoogle

RUNNER, TORCH = "9.8.7", "9.9.9"
DOCKER_KEY, NVIDIA_KEY = "9DC858229FC7DD38854AE2D88D81803C0EBFCD88", "C95B321B61E88C1809C4F759DDCAE044F796ECB0"
_NAME = f"actions-runner-linux-x64-{RUNNER}.tar.gz"


def runner_archive() -> bytes:
    """An archive with the two programs that the provisioning starts."""
    buffer = io.BytesIO()
    files = {
        "bin/Runner.Listener": f'#!/bin/sh\nmkdir -p "${{0%/bin/*}}/_diag"\necho {RUNNER}\n',
        "bin/installdependencies.sh": '#!/bin/sh\necho "installdependencies" >>"$CALLS"\n',
    }
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.uid, entry.gid = len(text), 0o775, 1001, 1001
            archive.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()


class Builder:
    """A disk, the stubs, and the files that curl downloads by their names."""

    def __init__(self, folder: Path, google: FakeGoogle) -> None:
        self.root, self.google = folder / "root", google
        self.tools = Tools(folder / "tools")
        self.downloads = folder / "downloads"
        self.calls = folder / "calls"
        for path in ("tmp", "var/tmp"):
            (self.root / path).mkdir(parents=True)
        for path, text in {
            "etc/os-release": "ID=ubuntu\nVERSION_CODENAME=noble\n",
            "etc/machine-id": "0123\n",
            "etc/ssh/ssh_host_ed25519_key": "secret",
            "var/lib/apt/lists/one": "list",
            "var/log/journal/1/system.journal": "log",
            "var/log/syslog": "log",
            "var/log/syslog.1": "log",
            "tmp/left": "x",
            "root/.cache/pip": "x",
            "home/ci/.ssh/authorized_keys": "key",
        }.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text)
        self.downloads.mkdir()
        archive = runner_archive()
        self.lock = "uv==1.2.3 --hash=sha256:0\n"
        self.settings: dict[str, str] = {
            "DRIVER": "image",
            "RUNNER": RUNNER,
            "SHA256": hashlib.sha256(archive).hexdigest(),
            "ARCHITECTURE": "x64",
            "TORCH": TORCH,
            "DOCKER": "rootless",
        }
        for name, content in {
            _NAME: archive,
            "gpg": b"docker",
            "gpgkey": b"nvidia",
            "cuda_installer.pyz": b"installer",
        }.items():
            (self.downloads / name).write_bytes(content)
        self._add_stubs()

    def _add_stubs(self) -> None:
        log = 'echo "${0##*/} $*" >>"$CALLS"'
        for name in ("apt-get", "systemctl", "nvidia-ctk", "cloud-init", "nft", "setpriv", "git", "openssl", "sync"):
            self.tools.add(name, log)
        for name in ("docker", "dockerd", "dockerd-rootless.sh", "newuidmap", "newgidmap", "slirp4netns", "nvidia-smi"):
            self.tools.add(name, log)
        self.tools.add(
            "curl",
            '[[ $* == *computeMetadata* ]] && exec /usr/bin/curl "$@"\n'
            'echo "curl ${@: -1}" >>"$CALLS"\n'
            'while [[ $1 != -o ]]; do shift; done; cp "$DOWNLOADS/${3##*/}" "$2"',
        )
        self.tools.add(
            "gpg", f'grep -q docker "${{@: -1}}" && k={DOCKER_KEY} || k={NVIDIA_KEY}; echo "fpr:::::::::$k:"'
        )
        self.tools.add(
            "python3",
            f"{log}\n"
            'if [[ $1 == -m && $2 == venv ]]; then mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; cp "$0" "$3/bin/uv"; fi',
        )

    def boot(self) -> subprocess.CompletedProcess[str]:
        """Run the script as the startup script of the machine."""
        lines = "".join(f"{key}={value}\n" for key, value in self.settings.items())
        self.google.attributes |= {"gpu-image-settings": lines, "gpu-image-lock": self.lock}
        environ = {
            "PATH": self.tools.path,
            "GPU_CI_ROOT": str(self.root),
            "GCE_METADATA_HOST": self.google.address,
            "CALLS": str(self.calls),
            "DOWNLOADS": str(self.downloads),
            "NO_PROXY": "*",
            "HOME": os.environ.get("HOME", "/"),
        }
        return subprocess.run(
            ["bash", "-c", resources.script()], env=environ, capture_output=True, text=True, timeout=60, check=False
        )

    def verdict(self) -> Verdict:
        """Boot, and return the verdict of the serial port, which is also a guest attribute."""
        done = self.boot()
        found = from_serial_log(done.stdout, "")
        assert found, done.stdout + done.stderr
        published: Any = self.google.last(VERDICT_KEY)
        assert json.loads(base64.b64decode(done.stdout.split("SMOKE-RESULT ")[-1].split()[0])) == published
        return found

    def called(self) -> list[str]:
        """The calls of the stubs, in order."""
        return self.calls.read_text().splitlines() if self.calls.exists() else []

    def steps(self, output: str) -> list[str]:
        """The steps that the script reported."""
        return [json.loads(line.split(" ", 1)[1])["step"] for line in output.splitlines() if "GPU-AGENT-STEP" in line]
