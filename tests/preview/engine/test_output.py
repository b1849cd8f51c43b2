"""Tests of the error message for a failed command."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_preview.engine.output import failure
from gpu_preview.isolation.limits import Finished


def finished(folder: Path, out: str = "", err: str = "", exceeded_limit: str = "") -> Finished:
    (folder / "out").write_text(out)
    (folder / "err").write_text(err)
    return Finished(1, folder / "out", folder / "err", 1.0, exceeded_limit)


@pytest.mark.parametrize(
    ("out", "err", "exceeded_limit", "expected"),
    [
        ("", "error: no", "", "error: no"),
        ("Diagnostics: why", "made the stack", "", "Diagnostics: why\nmade the stack"),
        (' {"steps": [', "error: no", "it took longer than 5 s", "it took longer than 5 s\nerror: no"),
        ("", "", "it printed more than 1 MiB", "it printed more than 1 MiB"),
    ],
)
def test_it_is_the_limit_and_what_was_printed(
    tmp_path: Path, out: str, err: str, exceeded_limit: str, expected: str
) -> None:
    assert failure(finished(tmp_path, out, err, exceeded_limit), tmp_path) == expected


UP = """\
Updating (dev):
 +  pulumi:pulumi:Stack p-dev creating
 +  a:b:C c creating error: no d
Diagnostics:
  a:b:C (c):
    error: no d
      got: e

  pulumi:pulumi:Stack (p-dev):
    error: update failed
{}"""


@pytest.mark.parametrize("after", ["", "\nResources:\n    + 1 created\n\nDuration: 1s\n"])
def test_the_steps_before_the_errors_of_an_up_are_left_out(tmp_path: Path, after: str) -> None:
    assert failure(finished(tmp_path, UP.format(after), "error: update failed"), tmp_path) == (
        "a:b:C (c):\n  error: no d\n    got: e\n\npulumi:pulumi:Stack (p-dev):\n  error: update failed\n"
        "error: update failed"
    )


@pytest.mark.parametrize(
    "network_error", ["Temporary failure in name resolution", "Name or service not known", "Network is unreachable"]
)
def test_a_program_that_missed_the_network_is_reported_how_to_have_it(tmp_path: Path, network_error: str) -> None:
    text = f"OSError: [Errno -3] {network_error}"
    message = failure(finished(tmp_path, err=text), tmp_path)
    assert message == f"{text}\n  hint: the program has no network here; --with-network gives it one"
    assert failure(finished(tmp_path, err=text), tmp_path, isolated=False) == text


INTERRUPTED = """\
Diagnostics:
  pulumi:pulumi:Stack (p-dev):
    error: update failed

    Traceback (most recent call last):
      File "/opt/pulumi/pulumi-language-python-exec", line 232, in <module>
        loop.run_until_complete(coro)
        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    KeyboardInterrupt
    During handling of the above exception, another exception occurred:
    Traceback (most recent call last):
      File "/opt/pulumi/pulumi-language-python-exec", line 244, in <module>
        executor.shutdown(wait=True)
    KeyboardInterrupt

  a:b:C (c):
    error: no d
    Traceback (most recent call last):
      File "program.py", line 1, in <module>
        d()
    ValueError: a word of the program's own
"""


def test_that_pulumi_ended_the_program_is_no_error_of_the_program(tmp_path: Path) -> None:
    """Pulumi's language host interrupts the program after a resource has failed, and Python prints a traceback."""
    message = failure(finished(tmp_path, INTERRUPTED), tmp_path)
    assert [line for line in message.splitlines() if line] == [
        "pulumi:pulumi:Stack (p-dev):",
        "  error: update failed",
        "a:b:C (c):",
        "  error: no d",
        "  Traceback (most recent call last):",
        '    File "program.py", line 1, in <module>',
        "      d()",
        "  ValueError: a word of the program's own",
    ]


@pytest.mark.parametrize("isolated", [True, False])
def test_a_missing_package_gets_a_hint_about_the_environment(tmp_path: Path, isolated: bool) -> None:
    message = failure(finished(tmp_path, "", "ModuleNotFoundError: No module named 'x'"), tmp_path, isolated=isolated)
    assert ("hint: the program runs with the packages of the environment that Pulumi.yaml names" in message) is isolated
