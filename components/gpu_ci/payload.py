"""Packs gpu-smoke and the boot agent into zip files that Python can run on machines without this package."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import io
import tokenize
import zipfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from .errors import ArgsError, Problem

# The tokens before a statement: the end of another statement, or the start or end of a block. There is no token before
# the first statement of a file. `_string_statements` uses the last token of the file (ENDMARKER) instead.
_BEFORE_STATEMENT = (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def smoke_archive() -> str:
    """Return the smoke check as a zip in base64. The same sources give the same bytes, on every machine and day."""
    return _archive("gpu_smoke")


def agent_archive() -> str:
    """Return the agent, which a machine runs at boot, as a zip in base64."""
    return _archive("gpu_agent")


@cache
def downloads() -> dict[str, bytes]:
    """Return the zip files that a machine with a mailbox downloads, by their names."""
    return {"agent": base64.b64decode(agent_archive()), "smoke": base64.b64decode(smoke_archive())}


@cache
def digests() -> dict[str, str]:
    """Return the SHA-256 of each download by its name."""
    return {name: hashlib.sha256(content).hexdigest() for name, content in downloads().items()}


def lock(name: str) -> str:
    """Return a lock of the agent, such as torch.lock: packages with the hashes of their files."""
    return (_folder("gpu_agent") / name).read_text(encoding="utf-8")


@cache
def _archive(package: str) -> str:
    return base64.b64encode(pack(_folder(package))).decode()


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    if not folders:
        text = f"the {package} package is not installed"
        raise ArgsError(
            "gpu-ci", [Problem("", text, hint="install the gpu-ci distribution, which contains it", rule="payload")]
        )
    return Path(folders[0])


def pack(folder: Path) -> bytes:
    """Return a folder of code and data as a zip that Python can run.

    File times and modes are fixed, so that the bytes depend on the content alone. Comments and docstrings are removed.
    A change of comments therefore replaces no instance template and starts no smoke check.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(
            archive,
            "__main__.py",
            f"import runpy\nrunpy.run_module({folder.name!r}, run_name='__main__', alter_sys=True)\n",
        )
        for file in sorted(file for file in folder.rglob("*") if file.suffix in (".py", ".json", ".lock")):
            text = file.read_text(encoding="utf-8")
            text = without_comments(text) if file.suffix == ".py" else text
            _add(archive, f"{folder.name}/{file.relative_to(folder).as_posix()}", text)
    return buffer.getvalue()


def without_comments(source: str) -> str:
    """Return a module without comments, docstrings and blank lines. The text is the same on every version of Python.

    Comments and docstrings are found with `tokenize`. `ast.unparse` is not used, because its text differs between
    versions of Python. Parsing with `ast` would also take twice as long at the start of every program.
    """
    lines = [b"", *source.encode().splitlines()]  # Tokens number lines from 1.
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    removed: set[int] = set()
    for docstring, is_only_statement in _string_statements(tokens):
        (first, column), (last, _) = docstring.start, docstring.end
        lines[first : last + 1] = [b" " * column + b"pass" * is_only_statement, *([b""] * (last - first))]
        removed.update(range(first, last + 1))
    for token in tokens:
        number = token.start[0]
        if token.type == tokenize.COMMENT and number not in removed:
            lines[number] = lines[number].removesuffix(token.string.encode()).rstrip()
            if not lines[number]:
                removed.add(number)
    in_strings = {number for first, last in _multi_line_strings(tokens) for number in range(first, last + 1)} - removed
    kept = {number: line if number in in_strings else line.rstrip() for number, line in enumerate(lines)}
    return b"".join(line + b"\n" for number, line in kept.items() if line or number in in_strings).decode()


def _string_statements(tokens: Sequence[tokenize.TokenInfo]) -> Iterator[tuple[tokenize.TokenInfo, bool]]:
    """Yield each statement that is only a string, such as a docstring, and True if its block has no other statement."""
    code = [token for token in tokens if token.type not in (tokenize.NL, tokenize.COMMENT)]
    for before, token, after, last in zip([code[-1], *code], code, code[1:], code[2:], strict=False):
        if token.type == tokenize.STRING and before.type in _BEFORE_STATEMENT and after.type == tokenize.NEWLINE:
            yield token, before.type == tokenize.INDENT and last.type == tokenize.DEDENT


def _multi_line_strings(tokens: Sequence[tokenize.TokenInfo]) -> Iterator[tuple[int, int]]:
    """Yield the first and last line of every multi-line string. Since Python 3.12, an f-string is several tokens."""
    first_lines: list[int] = []
    for token in tokens:
        name = tokenize.tok_name[token.type]
        if name == "FSTRING_START":
            first_lines.append(token.start[0])
        elif name in ("STRING", "FSTRING_END"):
            first, last = first_lines.pop() if name == "FSTRING_END" else token.start[0], token.end[0]
            if last > first:
                yield first, last


def _add(archive: zipfile.ZipFile, name: str, text: str) -> None:
    entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = 3  # the same on Windows
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, text)
