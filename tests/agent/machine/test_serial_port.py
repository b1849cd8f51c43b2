"""The serial port as a real pipe that is stuck, closed, or read again."""

from __future__ import annotations

import os
import threading

import pytest
from gpu_agent.machine import serial_port
from gpu_agent.machine.serial_port import Serial


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
