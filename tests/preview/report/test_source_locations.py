"""Tests of source locations in a program."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_preview.report.source_locations import is_same, of_source, of_traceback


def program(root: Path) -> Path:
    for name in ("infra/pools.py", "app/a.py", ".venv/lib/x.py", "lib/site-packages/y.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    return root


@pytest.mark.parametrize(
    ("positions", "project", "expected"),
    [
        (["project:///infra/pools.py#55"], "", ("infra/pools.py", 55)),
        (["project:///infra/pools.py#55,12"], "", ("infra/pools.py", 55)),
        (["project:///a.py#3"], "app", ("app/a.py", 3)),
        (["project:///a.py#3"], "", None),
        (["project:///.venv/lib/x.py#1", "project:///lib/site-packages/y.py#2", "project:///infra/pools.py#3"], "",
         ("infra/pools.py", 3)),
        (["project:///../infra/pools.py#3"], "", None),
        (["project:///../infra/pools.py#3"], "app", None),
        (["project:////etc/passwd#3"], "", None),
        (["project:///infra#3"], "", None),
        (["project:///infra/pools.py#0"], "", ("infra/pools.py", 1)),
        (["project:///infra/pools.py#99999999999"], "", None),
        (["project:///a\0b#1", "", "http://x#1", "project:///" + "a" * 5000 + "#1"], "", None),
        ([], "", None),
    ],
)  # fmt: skip
def test_a_position_of_the_engine_is_a_line_of_a_file_of_the_repository(
    tmp_path: Path, positions: list[str], project: str, expected: tuple[str, int] | None
) -> None:
    found = next(of_source(positions, program(tmp_path), project), None)
    assert (found and (found.file, found.line, found.end_line)) == (expected and (*expected, expected[1]))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('Traceback:\n  File "app/a.py", line 3, in x\n  File "infra/pools.py", line 53\nSyntaxError: no',
         ("infra/pools.py", 53)),
        ('  File "app/a.py", line 3, in x\n  File ".venv/lib/x.py", line 4, in y\n', ("app/a.py", 3)),
        ('  File "/usr/lib/a.py", line 3, in x\n', None),
        ('  File "../a.py", line 3, in x\n', None),
        ('  File "<string>", line 3, in x\n', None),
        ('no call: File "app/a.py", line 3', None),
        ("", None),
    ],
)  # fmt: skip
def test_a_traceback_leads_to_its_last_call_in_the_repository(
    tmp_path: Path, text: str, expected: tuple[str, int] | None
) -> None:
    found = of_traceback(text, program(tmp_path))
    assert (found and (found.file, found.line, found.end_line)) == (expected and (*expected, expected[1]))


def test_a_file_is_the_same_where_its_bytes_are_at_both_sides(tmp_path: Path) -> None:
    head, base = program(tmp_path / "head"), program(tmp_path / "base")
    assert is_same("app/a.py", head, base)
    (base / "app/a.py").write_text("a")
    assert not is_same("app/a.py", head, base)
    for other in ("b", "ab"):
        (head / "app/a.py").write_text(other)
        assert not is_same("app/a.py", head, base)
    assert not is_same("none.py", head, base)
    assert not is_same("app", head, base)
    (head / "link.py").symlink_to(base / "infra/pools.py")
    (base / "link.py").write_text("")
    assert not is_same("link.py", head, base)
