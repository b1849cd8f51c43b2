from __future__ import annotations

import sys
import time
from pathlib import Path

from gpu_agent.clock import Clock
from gpu_agent.machine.commands import Machine


def test_a_line_without_an_end_comes_in_pieces_that_googles_script_runner_copies(tmp_path: Path) -> None:
    said: list[str] = []
    machine = Machine(Clock(), said.append, tmp_path, tmp_path)
    program = "import sys; sys.stdout.write('x' * 200_000 + '\\nend\\n')"
    done = machine.run(sys.executable, "-c", program, deadline=time.monotonic() + 60)
    assert (done.code, done.last) == (0, "end")
    assert "".join(line.removeprefix("| ") for line in said) == "x" * 200_000 + "end"
    # Go's bufio.Scanner ends at a line of 65,536 bytes.
    assert max(len(line) for line in said) <= 4_098
