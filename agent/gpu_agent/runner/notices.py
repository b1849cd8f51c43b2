"""The notice file of a job: tells the job of the cloud's notices, and lets the job ask for time to save its work.

GPU_CI_NOTICE_FILE names the file, which the job can only read. A job that watches the file *arms* it: it creates
`$GPU_CI_NOTICE_FILE.armed`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from ..host import Notice
from ..machine.system import PATH, System

VARIABLE = "GPU_CI_NOTICE_FILE"
_ARMED = "armed"


class NoticeFile:
    """The notice file of one runner."""

    def __init__(self, system: System, root: Path, agent: Path) -> None:
        """Prepare the file, without a notice. `root` is the runner's root, and `agent` this program's archive.

        Only root can write to the folder of the file. The name of the armed file there is a link into the runner's
        root, which is the job's own file system of a few MiB. So a job can neither write a notice nor fill /run.
        """
        self._path, self._target = system.run_folder / "notice", root / _ARMED
        link = self._path.with_name(f"{self._path.name}.{_ARMED}")
        for old in (self._path, link):
            old.unlink(missing_ok=True)
        link.symlink_to(self._target)
        programs = system.run_folder / "bin"
        programs.mkdir(exist_ok=True)
        program = programs / "gpu-ci-preempt"
        # -I: neither the job's environment nor its folder changes what this Python loads.
        program.write_text(f'#!/bin/sh\nexec {shlex.join([system.python, "-I", str(agent), "preempt"])} "$@"\n')
        program.chmod(0o755)
        self.environment: Mapping[str, str] = {VARIABLE: str(self._path), "PATH": f"{PATH}:{programs}"}
        """The environment variables for the runner."""

    @property
    def is_armed(self) -> bool:
        """True if the job watches the file."""
        return os.path.lexists(self._target)

    def write(self, notice: Notice, grace_sec: float | None) -> None:
        """Write a notice. `grace_sec` is the time until the job is interrupted; None if the job continues.

        Raises nothing, because a full disk must not prevent the end of the machine.
        """
        value = {"reason": notice.reason, "announcement": notice.announcement, "graceSec": grace_sec}
        new = self._path.with_name(f"{self._path.name}.new")
        with contextlib.suppress(OSError):
            new.write_text(json.dumps(value) + "\n")
            new.chmod(0o644)
            new.replace(self._path)
