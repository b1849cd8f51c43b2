"""Adds to the text of an existing file the lines that a new stack needs. `init` prints the result as a diff.

`init` never changes an existing file, because the user may have edited it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from typing import Any

import yaml

from gpu_ci.cli.new_files import RefusedError

_REQUIREMENT = re.compile(r"(?P<name>\s*gpu[-_]ci)(?![-\w.])\s*(?:\[(?P<extras>[^\]]*)\])?(?P<rest>.*)", re.IGNORECASE)
# The extras that the extra `all` installs (pyproject.toml).
_ALL = frozenset({"aws", "cli", "gcp", "github", "kubernetes"})


def with_extras(text: str, requirement: str) -> str:
    """Return requirements.txt with the extras of a requirement of gpu-ci. The address or version stays.

    Only an address on this computer is replaced by another address, because no other computer can install from it.
    The requirement is added as it is if no line requires gpu-ci.
    """
    address = requirement.strip().partition(" @ ")[2]
    needed = _extras(requirement.strip())
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if found := _REQUIREMENT.fullmatch(line):
            own = _extras(line)
            missing = needed - own - (_ALL if "all" in own else frozenset())
            rest = found["rest"]
            if "@ file:" in rest and address and not address.startswith("file:"):
                rest = f" @ {address}"
            if missing or rest != found["rest"]:
                lines[number] = f"{found['name']}[{','.join(sorted(own | missing))}]{rest}"
            return _text(lines)
    return _text([*lines, requirement.strip()])


def address_of(text: str) -> str:
    """Return the address from which requirements.txt installs gpu-ci, or "" if it names none."""
    found = next(filter(None, map(_REQUIREMENT.fullmatch, text.splitlines())), None)
    # Without a comment, and without conditions such as `; python_version >= "3.11"`.
    return re.split(r"\s[#;]", found["rest"].partition("@")[2])[0].strip() if found else ""


def _extras(requirement: str) -> set[str]:
    found = _REQUIREMENT.fullmatch(requirement)
    return {name.strip().lower() for name in str((found and found["extras"]) or "").split(",")} - {""}


def with_lines(text: str, wanted: str) -> str:
    """Return a text with the lines of another one that it lacks, at its end."""
    lines = text.splitlines()
    return _text([*lines, *(line for line in wanted.splitlines() if line not in lines)])


def with_entries(text: str, wanted: str) -> str:
    """Return a YAML file with the keys and list items of another one that it lacks. Its own values stay.

    Raises:
        yaml.YAMLError: The file is not valid YAML.
    """
    text = text if text.endswith("\n") else f"{text}\n"
    own, other = yaml.compose(text, yaml.SafeLoader), yaml.compose(wanted, yaml.SafeLoader)
    if own is None or other is None:
        return wanted
    edits: list[tuple[int, str]] = []
    _add(own, other, text, wanted, edits)
    # From the end, so that the positions of the other edits stay right. Edits at one position keep their order.
    for position, _, block in sorted(((at, number, block) for number, (at, block) in enumerate(edits)), reverse=True):
        text = text[:position] + block + text[position:]
    return text


def _add(own: yaml.Node, other: yaml.Node, text: str, wanted: str, edits: list[tuple[int, str]]) -> None:
    """Append to `edits` the entries that `other` has and `own` lacks: a position in `text`, and the text to insert."""
    lacked: list[tuple[yaml.Node, yaml.Node]] = []
    if isinstance(own, yaml.MappingNode) and isinstance(other, yaml.MappingNode):
        known = {key.value: value for key, value in own.value}
        for key, value in other.value:
            if key.value in known:
                _add(known[key.value], value, text, wanted, edits)
            else:
                lacked.append((key, value))
    elif isinstance(own, yaml.SequenceNode) and isinstance(other, yaml.SequenceNode):
        items = [_identity(item) for item in own.value]
        lacked += [(item, item) for item in other.value if _identity(item) not in items]
    for first, last in lacked:
        if isinstance(own, yaml.CollectionNode) and own.flow_style:
            before = ", " if own.value or first is not lacked[0][0] else ""
            name = "" if first is last else f"{first.value}: "
            edits.append((own.end_mark.index - 1, f"{before}{name}{_on_one_line(last, wanted)}"))
        else:
            edits.append((_end(own, text), _block(first, last, wanted, own.start_mark.column)))


def _end(node: yaml.Node, text: str) -> int:
    """Return the position of the line after the last line of a node."""
    while isinstance(node, yaml.CollectionNode) and node.value and not node.flow_style:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    newline = text.find("\n", max(node.end_mark.index - 1, 0))
    return newline + 1 if newline >= 0 else len(text)


def _block(first: yaml.Node, last: yaml.Node, wanted: str, column: int) -> str:
    """Return the lines of an entry, indented for its new place. Comments directly above belong to the entry."""
    lines = wanted[: _end(last, wanted)].splitlines()
    start = first.start_mark.line
    indent = len(lines[start]) - len(lines[start].lstrip())
    while start and lines[start - 1].lstrip().startswith("#"):
        start -= 1
    return "".join(f"{' ' * column}{line[indent:]}".rstrip() + "\n" for line in lines[start:])


def _on_one_line(node: yaml.Node, text: str) -> str:
    """Return a value in YAML's flow style."""
    if isinstance(node, yaml.MappingNode):
        return "{" + ", ".join(f"{key.value}: {_on_one_line(value, text)}" for key, value in node.value) + "}"
    if isinstance(node, yaml.SequenceNode):
        return "[" + ", ".join(_on_one_line(item, text) for item in node.value) + "]"
    return text[node.start_mark.index : node.end_mark.index]


def _identity(node: yaml.Node) -> Any:
    """Return the value of a list item. A lookup of sandbox.yaml is known by its `match`."""
    if isinstance(node, yaml.MappingNode):
        values = {key.value: _identity(value) for key, value in node.value}
        return values.get("match", values)
    return [_identity(item) for item in node.value] if isinstance(node, yaml.SequenceNode) else node.value


_ADDITIONS: dict[str, Callable[[str, str], str]] = {
    "Pulumi.yaml": with_entries,
    "requirements.txt": with_extras,
    ".gitignore": with_lines,
    "sandbox.yaml": with_entries,
    ".github/workflows/deploy.yaml": with_entries,
}
"""The files that a new stack adds to, each with the function that returns the extended text."""


def changes(path: str, text: str, wanted: str) -> str:
    """Return the change that an existing file needs, as a unified diff, which `git apply` and `patch` read.

    Raises:
        RefusedError: The file is the project of a program in another language.
        yaml.YAMLError: The file is not valid YAML.
    """
    if path == "Pulumi.yaml":
        _refuse_other_language(text)
    extended = _ADDITIONS[path](text, wanted) if path in _ADDITIONS else text
    lines = difflib.unified_diff(text.splitlines(), extended.splitlines(), f"a/{path}", f"b/{path}", n=1, lineterm="")
    return "".join(f"{line}\n" for line in lines)


def _refuse_other_language(text: str) -> None:
    """Raise RefusedError for a Pulumi project whose program is not Python."""
    project = yaml.safe_load(text)
    runtime = project.get("runtime") if isinstance(project, dict) else None
    name = runtime.get("name") if isinstance(runtime, dict) else runtime
    if name != "python":
        raise RefusedError(
            "is not the project of a Python program",
            got=f"runtime: {name}" if isinstance(name, str) else "no runtime",
            expected="runtime: python",
            hint="choose another folder",
        )


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
