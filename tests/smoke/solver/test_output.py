"""`gpu-smoke check`: the places where it writes its answer, and the errors if it cannot write."""

from __future__ import annotations

import json
import os
from pathlib import Path

from .test_command import answer, run


def test_the_answer_is_written_to_a_file_or_to_standard_output(tmp_path: Path) -> None:
    asked = ("--gpu", "l4", "--driver", "580", "--torch", "2.15.0")
    out = tmp_path / "out.json"
    done = run(*asked, "--json", str(out))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == run(*asked).stdout
    record = json.loads(out.read_text(encoding="utf-8"))
    assert record == answer(*asked) == json.loads(run(*asked, "--json", "-").stdout)
    assert record["asked"] == {
        "capability": "8.9",
        "gpu": "l4",
        "driver": "580",
        "torch": "2.15.0",
        "module": "",
        "machine": "x86_64",
        "python": "",
    }


def test_an_answer_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    asked = ("--gpu", "l4", "--driver", "580", "--torch", "2.15.0")
    done = run(*asked, "--json", str(tmp_path / "none" / "out.json"))
    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr.startswith("gpu-smoke check: --json: cannot be written (No such file or directory)\n")
    for json_too in ([], ["--json"]):
        with Path("/dev/full").open("w") as full:
            done = run(*asked, *json_too, stdout=full)
        assert done.returncode == 64
        assert done.stderr.splitlines() == [
            "gpu-smoke check: standard output: cannot be written (No space left on device)",
            "  got: '/dev/stdout'",
            "  expected: a file in an existing folder that you can write to",
            "  hint: gpu-smoke check --help",
        ]


def test_a_closed_pipe_does_not_change_the_exit_code() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as gone:
        done = run("--gpu", "v100", "--driver", "580", "--torch", "2.15.0", stdout=gone)
    assert (done.returncode, done.stderr) == (2, "")
