"""systemd-run(1) for fakes/systemd.py: `systemd_run.py FOLDER OPTIONS COMMAND`.

As the real program, it does not give the command its own environment, folder or streams.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

# The options of a transient service that systemd 252 accepts (`test_systemd.py`).
KNOWN = {
    "After", "FailureAction", "KillMode", "LogRateLimitIntervalSec", "OOMPolicy", "RefuseManualStop", "StandardOutput",
    "TimeoutStopSec",
}  # fmt: skip
FLAGS = ("--collect", "--quiet")


def run(folder: Path, arguments: list[str]) -> int:
    """Start the unit. Its main process runs when this returns."""
    name, properties = "", {}
    while arguments and arguments[0].startswith("-"):
        option = arguments.pop(0)
        if option in FLAGS:
            continue
        key, _, value = option.partition("=")
        if key == "--unit":
            name = value.removesuffix(".service")
        elif key == "--property":
            known, _, value = value.partition("=")
            if known not in KNOWN:
                print(f"Unknown assignment: {known}={value}", file=sys.stderr)
                return 1
            properties[known] = value
        else:
            print(f"systemd-run: unrecognized option '{option}'", file=sys.stderr)
            return 1
    unit = folder / f"{name}.unit"
    if unit.exists() and _runs(json.loads(unit.read_text())[0]):
        text = f"Unit {name}.service was already loaded or has a fragment file."
        print(f"Failed to start transient service unit: {text}", file=sys.stderr)
        return 1
    # Standard output goes to the journal. The serial port shows it only if the unit copies it to the console.
    shown = folder / "console" if properties.get("StandardOutput", "").endswith("+console") else Path("/dev/null")
    with shown.open("wb") as output:
        main = subprocess.Popen(
            arguments,
            env={**json.loads((folder / "environ").read_text()), "INVOCATION_ID": "0" * 32},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd="/",
            start_new_session=True,
        )
    # The file is written in one step, because other processes may read it meanwhile.
    part = unit.with_suffix(".part")
    part.write_text(json.dumps([main.pid, properties]))
    part.rename(unit)
    main.returncode = 0  # it goes on without this program
    return 0


def _runs(pid: int) -> bool:
    """Return True if the process runs. A process that has ended and was not waited for has no command line."""
    command = Path(f"/proc/{pid}/cmdline")
    return command.exists() and bool(command.read_bytes())


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1]), sys.argv[2:]))
