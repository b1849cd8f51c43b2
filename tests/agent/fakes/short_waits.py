"""Copies the agent's sources with shorter waits, so that a machine on which everything hangs ends in seconds."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

# The waits in seconds, by file and name. Everything else is the same as on a machine.
_SECONDS: dict[str, dict[str, float]] = {
    "agent.py": {
        "CONFIG_SEC": 6,
        "_KEY_SEC": 4,
        "_GRANT_SEC": 1,
        "_CHECK_GRANT_SEC": 1,
        "_AFTER_SEC": 6,
        "_REMOVE_SEC": 2,
    },
    "broker/registration.py": {"_LATE_JOB_SEC": 2, "_PUBLISH_SEC": 5},
    "machine/driver.py": {"_LOAD_SEC": 5},
    "github/api.py": {"_ATTEMPT_SEC": 2},
    "github/registration.py": {"_LATE_JOB_SEC": 2},
    "google/compute_engine.py": {"_EMAIL_SEC": 1, "_ATTEMPT_SEC": 1, "_NOTICE_SEC": 1},
    "machine/gpu_health.py": {"TIMEOUT_SEC": 4, "_SETTLE_SEC": 1},
    "machine/commands.py": {"_GRACE_SEC": 1},
    "google/metadata.py": {"_READ_SEC": 5, "_ATTEMPT_SEC": 1, "_LOST_PAUSE_SEC": 0.5},
    "report.py": {"_PUBLISH_SEC": 5, "_LOG_SEC": 1},
    "runner/process.py": {"_PAUSE_SEC": 0.2},
    "supervisor.py": {"MARGIN_SEC": 10, "GRACE_SEC": 8},
    "runner/session.py": {"_INTERRUPT_SEC": 2, "_CLEAR_SEC": 5},
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
