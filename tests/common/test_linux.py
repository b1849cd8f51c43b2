from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="prctl(2) is Linux's")


def test_a_process_gets_its_signal_when_its_parent_is_killed() -> None:
    grandchild = (
        "import signal, time; from gpu_common import linux; linux.signal_when_parent_ends(signal.SIGUSR1);"
        "signal.signal(signal.SIGUSR1, lambda *_: (print('told', flush=True), exit()));"
        "print('ready', flush=True); time.sleep(60)"
    )
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {grandchild!r}])"
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.kill()
        assert process.stdout.readline() == "told\n"


def test_an_orphan_below_becomes_a_child() -> None:
    program = (
        "import os, subprocess, time; from gpu_common import linux; linux.adopt_orphans();"
        "done = subprocess.run(['sh', '-c', 'sleep 60 >/dev/null & echo $!'], stdout=subprocess.PIPE, text=True);"
        "pid = int(done.stdout); os.kill(pid, 9); print(os.waitpid(pid, 0)[0] == pid)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=30)
    assert (done.stdout, done.stderr) == ("True\n", "")
