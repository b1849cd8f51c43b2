"""The smoke check and the boot agent, each as one file that Python runs where nothing of this package is."""

from __future__ import annotations

import ast
import base64
import importlib.util
import io
import tokenize
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeGuard

from .errors import ArgsError, Problem


def smoke_archive() -> str:
    """The smoke check as a zip in base64: the same bytes for the same sources, on every machine and day."""
    return _archive("gpu_smoke")


def agent_archive() -> str:
    """What a machine runs at boot, in the same form."""
    return _archive("gpu_agent")


@cache
def _archive(package: str) -> str:
    spec = importlib.util.find_spec(package)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    if not folders:
        text = f"the {package} package is not installed beside gpu_ci"
        raise ArgsError("gpu-ci", [Problem("", text, hint="install the gpu-ci distribution, which brings it")])
    return base64.b64encode(pack(Path(folders[0]))).decode()


def pack(folder: Path) -> bytes:
    """The folder as a zip that Python runs, code and data. Times and modes are fixed, so content alone counts.

    Of the code, what is for readers is left out: a comment that is reworded replaces no template, and starts no check.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(
            archive,
            "__main__.py",
            f"import runpy\nrunpy.run_module({folder.name!r}, run_name='__main__', alter_sys=True)\n",
        )
        for file in sorted(file for file in folder.rglob("*") if file.suffix in (".py", ".json")):
            text = file.read_text(encoding="utf-8")
            text = without_comments(text) if file.suffix == ".py" else text
            _add(archive, f"{folder.name}/{file.relative_to(folder).as_posix()}", text)
    return buffer.getvalue()


def without_comments(source: str) -> str:
    """A module without comments, docstrings and blank lines: the same text on every version of Python.

    So nothing is written anew from a syntax tree, as `ast.unparse` does, whose text differs between versions; the tree
    tells only where things stand.
    """
    tree = ast.parse(source)
    lines = source.encode().splitlines()  # a tree counts columns in bytes of UTF-8
    whole: set[int] = set()  # lines of strings, of which nothing may be taken
    gone: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant | ast.JoinedStr) and node.end_lineno and node.end_lineno > node.lineno:
            whole.update(range(node.lineno - 1, node.end_lineno))
    for text, is_alone in _texts(tree):
        first, last = text.lineno - 1, text.end_lineno or text.lineno
        lines[first:last] = [lines[first][: text.col_offset] + b"pass" * is_alone, *([b""] * (last - first - 1))]
        gone.update(range(first, last))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        number, comment = token.start[0] - 1, token.string.encode()
        if token.type == tokenize.COMMENT and number not in gone:
            lines[number] = lines[number].removesuffix(comment).rstrip()
            if not lines[number]:
                gone.add(number)
    kept = [
        line if number in whole - gone else line.rstrip()
        for number, line in enumerate(lines)
        if line.strip() or number in whole - gone
    ]
    return b"".join(line + b"\n" for line in kept).decode()


def _texts(tree: ast.Module) -> Iterator[tuple[ast.Expr, bool]]:
    """The statements that are a text alone, as docstrings are, and whether nothing else stands in their block."""
    for node in ast.walk(tree):
        for block in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            if isinstance(block, list):
                texts = [each for each in block if _is_text(each)]
                for number, each in enumerate(texts):
                    yield each, number == 0 and len(texts) == len(block)


def _is_text(node: ast.stmt) -> TypeGuard[ast.Expr]:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _add(archive: zipfile.ZipFile, name: str, text: str) -> None:
    entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = 3  # the same on Windows
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, text)
