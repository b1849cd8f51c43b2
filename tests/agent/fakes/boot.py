"""A machine that boots: the real boot script and the real agent, with stubs for the programs of its image."""

from __future__ import annotations

import base64
import io
import json
import os
import re
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
# The paths are looked up before a test removes the programs from PATH.
PATH = os.environ["PATH"]
BASH = str(shutil.which("bash"))
# The programs that the boot script itself needs.
NEEDED = ("bash", "mktemp", "base64", "tr", "rm", "tail", "tee", "timeout", "printf")


def says(message: str, code: int = 0) -> str:
    """Return a gpu_smoke that prints this message and exits with this code."""
    return (
        f"import sys; open(sys.argv[sys.argv.index('--termination-log') + 1], 'w').write({message!r}); sys.exit({code})"
    )


def packed(source: str) -> str:
    """Return a program in the form of the metadata."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("__main__.py", source)
    return base64.b64encode(buffer.getvalue()).decode()


def config(**changes: Any) -> dict[str, Any]:
    """Return the configuration of a machine that only runs the check."""
    return {
        "pool": "l4",
        "check_args": ["--pool", "l 4", "--expect-gpus", "1"],
        "check_sec": 600,
        "torch": "2.13.0",
        **changes,
    }


NO_SYSTEMD = "System has not been booted with systemd as init system (PID 1). Can't operate."
"""The error of systemd-run on an image without systemd."""


class Tools:
    """A folder at the front of PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.path = f"{folder}:{PATH}"

    def add(self, name: str, text: str) -> Path:
        """Add a stub, written in bash."""
        tool = self.folder / name
        tool.unlink(missing_ok=True)
        tool.write_text(f"#!{BASH}\n{text}\n")
        tool.chmod(0o755)
        return tool

    def only(self, *names: str) -> None:
        """Remove all real programs except these from PATH."""
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
        # The image was not booted by systemd, because a test must not change the systemd of this computer.
        self.tools.add("systemctl", f'echo "$*" >>"{folder}/run/systemctl"')
        self.tools.add("systemd-run", f'echo "$*" >>"{folder}/run/systemd-run"; echo "{NO_SYSTEMD}" >&2; exit 1')
        (folder / "run").mkdir()
        self.torch = folder / "torch"
        self.torch.mkdir()
        (self.torch / "torch.py").touch()
        self.is_google = True
        self.console = ""
        """The device of its serial port. By default it has only standard output."""
        google.attributes = {
            "gpu-ci-role": "check",
            "gpu-agent-pyz": base64.b64encode(pack(ROOT / "agent" / "gpu_agent")).decode(),
            "gpu-agent-config": json.dumps(config()),
        }

    def environ(self) -> dict[str, str]:
        """Return the environment of the boot script."""
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
        """Set the metadata for the next boot."""
        self.google.attributes["gpu-smoke-pyz"] = packed(check)
        self.google.attributes |= {key.replace("_", "-"): value for key, value in attributes.items()}

    def start(self, check: str = "", port: int = subprocess.PIPE, **attributes: str) -> subprocess.Popen[str]:
        """Start the boot. `port` is the file to which the serial port writes."""
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
        """Boot once. Return the published verdict, and the text of the serial port."""
        process = self.start(check, **attributes)
        serial, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        return self.verdict(serial), serial

    def verdict(self, serial: str) -> dict[str, Any]:
        """Return the only verdict, and check that both places have the same one."""
        (body,) = [value for key, value in self.google.published if key == "gpu-smoke/verdict"]
        assert len(body.encode()) <= 1024
        (line,) = [line for line in serial.splitlines() if line.startswith("SMOKE-RESULT ")]
        assert base64.b64decode(line.removeprefix("SMOKE-RESULT ")).decode() == body
        found: dict[str, Any] = json.loads(body)
        return found


# The waits in seconds, by file and name. Everything else is the same as on a machine.
_SECONDS: dict[str, dict[str, float]] = {
    "agent.py": {
        "CONFIG_SEC": 6,
        "_KEY_SEC": 4,
        "_GRANT_SEC": 1,
        "_CHECK_GRANT_SEC": 1,
        "_AROUND_JOB_SEC": 6,
        "_REMOVE_SEC": 2,
    },
    "broker/registration.py": {"_LATE_JOB_SEC": 2, "_PUBLISH_SEC": 5},
    "machine/driver.py": {"_LOAD_SEC": 5},
    "github/registration.py": {"_LATE_JOB_SEC": 2, "_ATTEMPT_SEC": 2},
    "google/compute_engine.py": {
        "_EMAIL_SEC": 1,
        "_ATTEMPT_SEC": 1,
        "_NOTICE_SEC": 1,
        "_READ_SEC": 5,
        "_QUERY_SEC": 1,
        "_LOST_PAUSE_SEC": 0.5,
    },
    "machine/gpu_health.py": {"TIMEOUT_SEC": 4, "_SETTLE_SEC": 1},
    "machine/commands.py": {"_GRACE_SEC": 1},
    "report.py": {"_PUBLISH_SEC": 5, "_LOG_SEC": 1},
    "supervisor.py": {"MARGIN_SEC": 10, "GRACE_SEC": 8},
    "runner/session.py": {"_INTERRUPT_SEC": 2, "_CLEAR_SEC": 5, "_PAUSE_SEC": 0.2},
}


def shortened(sources: Path, target: Path) -> Path:
    """Return a copy of the package with these constants. A missing name raises an error."""
    shutil.copytree(sources, target, ignore=shutil.ignore_patterns("__pycache__"))
    for file, constants in _SECONDS.items():
        text = (target / file).read_text()
        for name, seconds in constants.items():
            text, count = re.subn(rf"^{name} = [\d.]+$", f"{name} = {seconds}", text, flags=re.MULTILINE)
            assert count == 1, f"{file} has no constant {name} any more"
        (target / file).write_text(text)
    return target
