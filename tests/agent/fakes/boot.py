"""A machine that boots: the real boot script and the real agent, with stand-ins for what its image would have."""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

from gpu_ci.payload import pack

from tests.agent.fakes.google import FakeGoogle

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "components" / "gpu_ci" / "gcp" / "machine" / "boot.sh"
# Found before a test takes them off PATH.
PATH = os.environ["PATH"]
BASH = str(shutil.which("bash"))
# What the boot script itself needs.
NEEDED = ("bash", "mktemp", "base64", "tr", "rm", "tail", "tee", "timeout", "printf")


def says(message: str, code: int = 0) -> str:
    """A gpu_smoke that says this and ends so."""
    return (
        f"import sys; open(sys.argv[sys.argv.index('--termination-log') + 1], 'w').write({message!r}); sys.exit({code})"
    )


def packed(source: str) -> str:
    """A program as the metadata has it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("__main__.py", source)
    return base64.b64encode(buffer.getvalue()).decode()


def config(**changes: Any) -> dict[str, Any]:
    """A configuration of a machine that only checks itself."""
    return {
        "pool": "l4",
        "check_args": ["--pool", "l 4", "--expect-gpus", "1"],
        "check_sec": 600,
        "torch": "2.13.0",
        "uv": "0.13.8",
        **changes,
    }


NO_SYSTEMD = "System has not been booted with systemd as init system (PID 1). Can't operate."
"""What systemd-run says there."""


class Tools:
    """A folder in front of PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.path = f"{folder}:{PATH}"

    def add(self, name: str, text: str) -> Path:
        """A stand-in, written in bash."""
        tool = self.folder / name
        tool.unlink(missing_ok=True)
        tool.write_text(f"#!{BASH}\n{text}\n")
        tool.chmod(0o755)
        return tool

    def only(self, *names: str) -> None:
        """Leave the machine nothing but these of the real ones, beside the stand-ins."""
        for name in names:
            (self.folder / name).symlink_to(str(shutil.which(name, path=PATH)))
        self.path = str(self.folder)


class Boot:
    """A machine that boots once."""

    def __init__(self, folder: Path, google: FakeGoogle) -> None:
        self.folder = folder
        self.google = google
        self.tools = Tools(folder / "tools")
        self.tools.add("shutdown", 'echo "SHUTDOWN $*"')
        self.tools.add("sleep", "true")
        self.tools.add("python3", f'exec "{sys.executable}" "$@"')
        # An image that systemd did not boot: the computer's own is not for a test to change.
        self.tools.add("systemctl", f'echo "$*" >>"{folder}/run/systemctl"')
        self.tools.add("systemd-run", f'echo "$*" >>"{folder}/run/systemd-run"; echo "{NO_SYSTEMD}" >&2; exit 1')
        (folder / "run").mkdir()
        self.torch = folder / "torch"
        self.torch.mkdir()
        (self.torch / "torch.py").touch()
        self.is_google = True
        self.console = ""
        """The device of its serial port; by default it has none but its standard output."""
        google.attributes = {
            "gpu-ci-role": "check",
            "gpu-agent-pyz": base64.b64encode(pack(ROOT / "agent" / "gpu_agent")).decode(),
            "gpu-agent-config": json.dumps(config()),
        }

    def environ(self) -> dict[str, str]:
        """What the boot script starts with."""
        return {
            "PATH": self.tools.path,
            "PYTHONPATH": str(self.torch),
            "TMPDIR": str(self.folder),
            "GPU_AGENT_PAUSE_SEC": "0",
            "GPU_AGENT_RUN": str(self.folder / "run"),
            **self.google.environ,
            **({"GPU_AGENT_STATE": str(self.folder / "state")} if self.is_google else {}),
            **({"GPU_AGENT_CONSOLE": self.console} if self.console else {}),
        }

    def prepare(self, check: str = "", **attributes: str) -> None:
        """Set the metadata of the boot to come."""
        self.google.attributes["gpu-smoke-pyz"] = packed(check)
        self.google.attributes |= {key.replace("_", "-"): value for key, value in attributes.items()}

    def start(self, check: str = "", port: int = subprocess.PIPE, **attributes: str) -> subprocess.Popen[str]:
        """Power on; `port` is where the serial port leads."""
        self.prepare(check, **attributes)
        return subprocess.Popen(
            [BASH, str(SCRIPT)],
            env=self.environ(),
            stdin=subprocess.DEVNULL,
            stdout=port,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, check: str = "", **attributes: str) -> tuple[dict[str, Any], str]:
        """One boot: the published verdict, and what went to the serial port."""
        process = self.start(check, **attributes)
        serial, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        return self.verdict(serial), serial

    def verdict(self, serial: str) -> dict[str, Any]:
        """The one verdict, which is the same in both places."""
        (body,) = [value for key, value in self.google.published if key == "gpu-smoke/verdict"]
        assert len(body.encode()) <= 1024
        (line,) = [line for line in serial.splitlines() if line.startswith("SMOKE-RESULT ")]
        assert base64.b64decode(line.removeprefix("SMOKE-RESULT ")).decode() == body
        found: dict[str, Any] = json.loads(body)
        return found
