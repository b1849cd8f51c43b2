"""The serial port, stuck, closed and read again, as a real pipe."""

from __future__ import annotations

import os
import threading

import pytest
from gpu_agent.machine import serial_port
from gpu_agent.machine.serial_port import Serial


def test_each_line_is_written_when_write_returns_and_in_order() -> None:
    lines: list[str] = []
    port = Serial(lines.append)
    for number in range(100):
        port.write(str(number))
        assert lines[-1] == str(number)
    assert lines == [str(number) for number in range(100)]


def test_a_port_that_nobody_reads_holds_up_one_line_and_gets_the_latest_when_it_is_read_again(
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


def test_a_port_that_is_closed_takes_nothing_and_ends_nothing() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    port = Serial(lambda text: os.write(writer, text.encode()))
    port.write("one")
    port.write("two")
    assert port.flush(0)
    os.close(writer)


def test_a_child_writes_by_itself_what_comes_after_the_fork_also_when_its_parent_is_stuck(
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
