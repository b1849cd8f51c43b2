"""Tests of the limits of an untrusted command, and of the end of all its processes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from gpu_preview.isolation import files, limits
from gpu_preview.isolation.limits import Finished, Limits, copied, environment, run


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_POLL_SEC", 0.05)
    monkeypatch.setattr(limits, "_GRACE_SEC", 0.2)


def python(folder: Path, program: str, within: Limits | None = None) -> Finished:
    return run(
        [sys.executable, "-I", "-c", program],
        folder=folder, environment=environment(folder), scratch=folder, name="it", limits=within or Limits(),
    )  # fmt: skip


def test_one_that_hangs_is_ended(tmp_path: Path) -> None:
    done = python(tmp_path, "import time; time.sleep(600)", Limits(timeout_sec=0.5))
    assert done.exceeded_limit == "the program took longer than 0.5 s (--timeout-sec)"
    assert done.code != 0


def test_one_that_will_not_end_is_killed(tmp_path: Path) -> None:
    program = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    assert python(tmp_path, program, Limits(timeout_sec=1)).code == -9


def test_one_that_eats_memory_is_ended(tmp_path: Path) -> None:
    program = "import time; kept = [bytearray(20_000_000) for _ in range(20)]; time.sleep(600)"
    done = python(tmp_path, program, Limits(memory_gib=0.2))
    assert done.exceeded_limit == "the program took more than 0.2 GiB of memory (--memory-gib)"


def test_one_that_starts_too_many_processes_is_ended(tmp_path: Path) -> None:
    program = (
        "import os, time\nfor _ in range(30):\n    if not os.fork(): time.sleep(600); os._exit(0)\ntime.sleep(600)"
    )
    done = python(tmp_path, program, Limits(processes=10))
    assert done.exceeded_limit == "the program had more than 10 processes"
    assert ours(tmp_path) == []


def test_one_that_prints_without_end_is_ended(tmp_path: Path) -> None:
    done = python(tmp_path, "while True: print('x' * 10_000)", Limits(output_mib=1))
    assert done.exceeded_limit == "the program printed more than 1 MiB"


def test_nothing_it_started_is_left_even_if_it_hides(tmp_path: Path) -> None:
    """The program forks twice and starts its own session, as a daemon does to leave its parent."""
    program = (
        "import os, time\nif not os.fork():\n    os.setsid()\n    if not os.fork():\n"
        f"        open({str(tmp_path / 'hidden')!r}, 'w').write(str(os.getpid()))\n        time.sleep(600)\n"
        f"    os._exit(0)\nwhile not os.path.exists({str(tmp_path / 'hidden')!r}): time.sleep(0.01)"
    )
    assert python(tmp_path, program).code == 0
    pid = int((tmp_path / "hidden").read_text())
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def ours(folder: Path) -> list[str]:
    """Return the command lines of the test's processes. A zombie has no command line."""
    found = []
    for one in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            found.append(" ".join(one.cmdline()))
    return [command for command in found if folder.name in command]


def test_hundreds_of_orphans_are_ended_at_once_and_earlier_processes_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One pass over /proc lists all processes, without a query for each."""
    looks = []
    seen = limits._all
    monkeypatch.setattr(limits, "_all", lambda: looks.append(None) or seen())
    program = (
        "import os, time\nfor _ in range(200):\n    if not os.fork(): time.sleep(600); os._exit(0)\n"
        "if not os.fork(): time.sleep(600)"
    )
    there = {each.pid for each in psutil.Process().children(recursive=True)}  # of tests before this one
    with psutil.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as other:
        try:
            assert python(tmp_path, program, Limits(processes=10_000)).code == 0
            left = {each.pid for each in psutil.Process().children(recursive=True)}
            assert left - there == {other.pid}
        finally:
            other.kill()
    assert len(looks) < 100


def test_it_gets_variables_by_name_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "ACTIONS_RUNTIME_TOKEN", "MY_OWN", "PYTHONPATH"):
        monkeypatch.setenv(name, "planted-value")
    done = python(tmp_path, "import os, json; print(json.dumps(dict(os.environ)))")
    assert "planted-value" not in done.stdout.read_text()
    assert str(tmp_path / "home") in done.stdout.read_text()


def test_a_file_that_it_left_is_copied_only_if_it_is_regular(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("planted")
    (tmp_path / "file").write_text("said")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    before = len(list(Path("/proc/self/fd").iterdir()))
    done = Finished(0, tmp_path / "out", tmp_path / "err", 0.1)
    copies = {
        name: copied(done, tmp_path / name, tmp_path / "copy")[1].read_text()
        for name in ("file", "link", "folder", "pipe", "x")
    }
    assert copies == {"file": "said", "link": "", "folder": "", "pipe": "", "x": ""}
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_file_that_is_too_large_is_not_copied_and_exceeds_a_limit(tmp_path: Path) -> None:
    with (tmp_path / "events").open("wb") as file:
        file.truncate(2 * 1024**2 + 1)
    done = Finished(0, tmp_path / "out", tmp_path / "err", 0.1)
    found, copy = copied(done, tmp_path / "events", tmp_path / "copy", max_mib=2)
    assert (found.exceeded_limit, copy.stat().st_size) == ("the program left a file of more than 2 MiB: events", 0)
    (tmp_path / "events").write_bytes(b"x" * 2 * 1024**2)
    found, copy = copied(done, tmp_path / "events", tmp_path / "copy", max_mib=2)
    assert (found, copy.stat().st_size) == (done, 2 * 1024**2)


def test_one_that_fills_the_disk_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = iter([40 * 1024**3, 31 * 1024**3, 29 * 1024**3])
    asked = []

    def space(folder: Path) -> limits._FreeSpace:
        asked.append(folder)
        return limits._FreeSpace(next(room), 0, 0)

    monkeypatch.setattr(limits._FreeSpace, "now", space)
    done = run(
        [sys.executable, "-I", "-c", "import time; time.sleep(600)"],
        folder=tmp_path, environment=environment(tmp_path), scratch=tmp_path, name="it", limits=Limits(),
        writes_to=tmp_path / "work",
    )  # fmt: skip
    assert done.exceeded_limit == "the disk lost more than 10 GiB of free space while the program ran (--disk-gib)"
    assert asked == [tmp_path / "work"] * 3


def test_one_that_hides_its_memory_in_files_without_a_name_is_ended(tmp_path: Path) -> None:
    """Memory that is written and never mapped is not resident memory of a process."""
    program = (
        "import os, time\nfile = os.memfd_create('it')\n"
        "for _ in range(60): os.write(file, bytes(5_000_000))\ntime.sleep(600)"
    )
    done = python(tmp_path, program, Limits(memory_gib=0.2, timeout_sec=60))
    assert done.exceeded_limit == "files in memory grew by more than 0.2 GiB while the program ran (--memory-gib)"


def test_memory_of_other_processes_counts_only_above_twice_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data in the buffer of a socket is neither memory of a process nor a file."""
    left = iter([20 * 1024**3, 8 * 1024**3, 8 * 1024**3 - 1])
    monkeypatch.setattr(limits._FreeSpace, "now", lambda _: limits._FreeSpace(0, next(left), 0))
    done = python(tmp_path, "import time; time.sleep(600)", Limits(memory_gib=6, timeout_sec=60))
    assert (
        done.exceeded_limit == "the machine lost more than 12 GiB of memory while the program ran (twice --memory-gib)"
    )
    assert list(left) == []


def test_it_opens_no_more_files_than_an_engine_needs(tmp_path: Path) -> None:
    program = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[1])"
    assert int(python(tmp_path, program).stdout.read_text()) <= 4096


# keyctl(2), KEYCTL_GET_KEYRING_ID of the session's.
KEYRING = "import ctypes, sys; print(ctypes.CDLL(None).syscall(int(sys.argv[-1]), 0, -3, 0))"


@pytest.mark.skipif(limits._KEYCTL is None, reason="the number of the system call is not known here")
def test_the_callers_keys_are_not_its_own(tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-c", KEYRING, str(limits._KEYCTL)]
    mine = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    if mine == -1:
        pytest.skip("the system refuses keyctl(2)")

    def keyring(trusted: bool) -> int:
        done = run(
            command,
            folder=tmp_path, environment={}, scratch=tmp_path, name="it", limits=Limits(), trusted=trusted,
        )  # fmt: skip
        return int(done.stdout.read_text())

    assert keyring(trusted=True) == mine
    assert keyring(trusted=False) not in (mine, -1)


def test_without_memory_the_system_ends_it_first(tmp_path: Path) -> None:
    assert python(tmp_path, "print(open('/proc/self/oom_score_adj').read())").stdout.read_text().strip() == "800"


def nested(top: Path, depth: int) -> None:
    """Create nested folders whose path is longer than the system allows."""
    at = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("a-rather-long-name", dir_fd=at)
        inner = os.open("a-rather-long-name", os.O_RDONLY, dir_fd=at)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=at))
        os.close(at)
        at = inner
    os.close(at)


def test_folders_in_folders_without_an_end_are_removed(tmp_path: Path) -> None:
    with files.temporary_folder("it-") as folder:
        nested(folder, 1_500)
    assert not folder.exists()


def test_a_link_is_removed_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("kept")
    with files.temporary_folder("it-") as folder:
        (folder / "link").symlink_to(tmp_path / "mine")
        (folder / "inner").mkdir()
        (folder / "inner" / "link").symlink_to(tmp_path / "mine" / "file")
        os.mkfifo(folder / "pipe")
    assert not folder.exists()
    assert (tmp_path / "mine" / "file").read_text() == "kept"


def test_a_folder_without_write_permission_is_removed(tmp_path: Path) -> None:
    with files.temporary_folder("it-") as folder:
        (folder / "a" / "b").mkdir(parents=True)
        (folder / "a" / "b" / "file").write_text("")
        (folder / "a" / "b").chmod(0)
        (folder / "a").chmod(0)
        folder.chmod(0)
    assert not folder.exists()


def test_the_target_of_a_link_at_the_path_of_the_folder_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("kept")
    with files.temporary_folder("it-") as folder:
        folder.rmdir()
        folder.symlink_to(tmp_path / "mine")
    assert (tmp_path / "mine" / "file").read_text() == "kept"
    folder.unlink()


def test_the_time_limit_also_applies_within_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in range(100):
        (tmp_path / f"{name}").write_text("")
    seconds = iter(range(1_000))
    monkeypatch.setattr(time, "monotonic", lambda: next(seconds))
    files.remove(tmp_path, timeout_sec=10)
    assert len([*tmp_path.iterdir()]) == 92
