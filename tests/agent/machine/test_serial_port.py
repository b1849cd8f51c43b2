"""The serial port as a real pipe that is stuck, closed, or read again."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from gpu_agent.machine import serial_port
from gpu_agent.machine.serial_port import Device, Serial, console


def test_each_line_is_written_when_write_returns_and_in_order() -> None:
    lines: list[str] = []
    port = Serial(lines.append)
    for number in range(100):
        port.write(str(number))
        assert lines[-1] == str(number)
    assert lines == [str(number) for number in range(100)]


def test_a_port_that_is_not_read_delays_one_line_and_gets_the_latest_lines_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serial_port, "_WAIT_SEC", 0.01)
    lines: list[str] = []
    read = threading.Event()

    def write(text: str) -> None:
        read.wait()
        lines.append(text)

    port = Serial(write)
    for number in range(1000):
        port.write(str(number))
    assert (lines, port.flush(0)) == ([], False)
    read.set()
    assert port.flush(20)
    assert lines == [str(number) for number in (0, *range(744, 1000))]
    port.write("again")
    assert lines[-1] == "again"


def test_a_closed_port_causes_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    port = Serial(lambda text: os.write(writer, text.encode()))
    port.write("one")
    port.write("two")
    assert port.flush(0)
    os.close(writer)


def test_a_child_process_writes_its_own_lines_even_if_its_parent_is_stuck(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serial_port, "_WAIT_SEC", 0.01)
    reader, writer = os.pipe()
    mine, stuck = os.getpid(), threading.Event()

    def write(text: str) -> None:
        if os.getpid() == mine:
            stuck.wait()
        os.write(writer, text.encode())

    port = Serial(write)
    port.write("parent ")
    port.write("waits ")
    child = os.fork()
    if child == 0:
        port.write("child ")
        os._exit(0 if port.flush(20) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    stuck.set()
    assert port.flush(20)
    assert os.read(reader, 100) == b"child parent waits "
    os.close(reader)
    os.close(writer)


def test_a_device_accepts_lines_only_if_it_is_a_terminal(tmp_path: Path) -> None:
    port, terminal = os.openpty()
    (tmp_path / "file").touch()
    write = Device((str(tmp_path / "gone"), str(tmp_path / "file"), os.ttyname(terminal))).write
    write("GPU-AGENT-STEP {}\n")
    assert os.read(port, 100) == b"GPU-AGENT-STEP {}\r\n"
    assert (tmp_path / "file").read_text() == ""
    with pytest.raises(OSError, match="the machine has no serial port"):
        Device((str(tmp_path / "file"),)).write("x")
    os.close(terminal)
    os.close(port)


def test_only_a_machine_or_a_sandbox_that_names_one_has_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serial_port, "_DEVICES", ("/no/such/device",))
    assert console({"GCE_METADATA_HOST": "127.0.0.1:1"}) is None
    for environ in ({}, {"GPU_AGENT_CONSOLE": "/no/such/port", "GCE_METADATA_HOST": "127.0.0.1:1"}):
        write = console(environ)
        assert write is not None
        with pytest.raises(OSError, match="the machine has no serial port"):
            write("x")
