"""The new files of `gpu-ci init` and `new-project`: renders them, compares them with a folder, and writes them.

An existing file is never changed, because the user may have edited it. The lines that it lacks are printed as a diff.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import click
import jinja2
import yaml

from gpu_ci.cli.output import InputError, print_json, print_table
from gpu_ci.errors import Problem, in_yaml, report

ADDRESS = "git+https://github.com/OWNER/gpu-ci@COMMIT"
"""The form of an address of gpu-ci from which every computer can install it."""
# Pulumi's rule for the names of projects and stacks (pulumi/pulumi sdk/go/common/tokens/names.go, NameRegexp).
PULUMI_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_REQUIREMENT = re.compile(r"(?P<name>\s*gpu[-_]ci)(?![-\w.])\s*(?:\[(?P<extras>[^\]]*)\])?(?P<rest>.*)", re.IGNORECASE)
# The extras that the extra `all` installs (pyproject.toml).
_ALL = frozenset({"aws", "cli", "gcp", "github", "kubernetes"})


def environment(**options: Any) -> jinja2.Environment:
    """Return an environment for files that are no HTML. The filters `yaml` and `to_json` quote values."""
    found = jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - the files are YAML, TOML, Markdown and Python
        **options,
    )
    found.filters |= {
        "yaml": in_yaml,
        "to_json": json.dumps,
        "regex_search": lambda text, pattern: re.search(pattern, text),
    }
    return found


def render(folder: Traversable, values: Mapping[str, Any], suffix: str, **options: Any) -> dict[str, str]:
    """Return the text of each file of a folder, by path. A file without the suffix is copied as it is.

    Names of files are templates too.
    """
    engine, files = environment(**options), dict[str, str]()
    names = environment()

    def add(place: Traversable, path: str) -> None:
        for each in sorted(place.iterdir(), key=lambda found: found.name):
            name = f"{path}{names.from_string(each.name).render(values)}"
            if each.is_dir():
                add(each, f"{name}/")
            else:
                text = each.read_text(encoding="utf-8")
                is_template = name.endswith(suffix)
                files[name.removesuffix(suffix)] = engine.from_string(text).render(values) if is_template else text

    add(folder, "")
    return files


def mistakes(problems: Mapping[str, Sequence[Problem]]) -> InputError:
    """Return one error for problems by subject: a file, or the command for its options."""
    error = InputError("\n".join(report(subject, each) for subject, each in problems.items()) + "\nnothing was written")
    error.problems = [
        {
            **{name: value for name, value in asdict(each).items() if value and name != "path"},
            "text": ": ".join(filter(None, (subject, each.path, each.text))),
        }
        for subject, found in problems.items()
        for each in found
    ]
    return error


@dataclass(frozen=True)
class State:
    """A file and its path in the folder. `diff` is the change that an existing file needs."""

    is_new: bool = False
    is_same: bool = False
    diff: str = ""

    @property
    def needs_change(self) -> bool:
        """True for a file that is written now, or that the user has to change."""
        return self.is_new or bool(self.diff)

    def result(self, write: bool) -> str:
        """Return the result for the user. `write` is True if new files are written."""
        if self.is_new:
            return "written" if write else "would be written"
        if self.diff:
            return "kept: needs the change below"
        return "exists, unchanged" if self.is_same else "kept: exists with other content"


def states(folder: Path, files: Mapping[str, str], stack_file: str = "") -> dict[str, State]:
    """Return the state of each file. Raise InputError with every reason why the files cannot be written.

    Args:
        folder: The folder.
        files: The text of each file, by path in the folder.
        stack_file: The path of a file that must not exist.
    """
    found: dict[str, State] = {}
    wrong: dict[str, list[Problem]] = {}  # each reason once, such as a folder for several files
    for path, text in files.items():
        place = folder / path
        try:
            if place.exists() or place.is_symlink():
                own = _text_of(place, path == stack_file)
                found[path] = State(is_same=True) if own == text else State(diff=changes(path, own, text))
            elif file := next((each for each in place.parents if each.is_file()), None):
                wrong[str(file)] = [Problem("", "is a file", expected="a folder", hint="choose another folder")]
            else:
                found[path] = State(is_new=True)
        except RefusedError as refused:
            wrong[str(place)] = [refused.problem]
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            reason = f"line {mark.line + 1}: {getattr(error, 'problem', '')}" if mark else "a character is not allowed"
            hint = "correct the file, or move it away"
            wrong[str(place)] = [Problem("", "is not valid YAML", got=reason, hint=hint)]
    if wrong:
        raise mistakes(wrong)
    return found


class RefusedError(Exception):
    """An existing file prevents that files are written."""

    def __init__(self, text: str, **details: str) -> None:
        self.problem = Problem("", text, **details)


def _text_of(place: Path, is_stack_file: bool) -> str:
    """Return the text of an existing file. Raise RefusedError if it is no file, or may not exist."""
    if not place.exists():
        raise RefusedError("is a symbolic link to a missing file", hint="remove the link")
    if place.is_dir():
        raise RefusedError("is a folder", expected="a file, or nothing", hint="choose another folder")
    if is_stack_file:
        raise RefusedError(
            "exists, and init never changes a file",
            expected="a stack without a file",
            hint="give another --stack, or edit the file and run gpu-ci check, or add workflows with --package",
        )
    try:
        return place.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise RefusedError("is not text", got=f"the byte {error.start + 1} is not UTF-8") from None
    except OSError as error:
        raise RefusedError("cannot be read", got=error.strerror or str(error)) from None


def offer(
    folder: Path,
    files: Mapping[str, str],
    states: Mapping[str, State],
    steps: Callable[[], Sequence[str]],
    *,
    write: bool,
    as_json: bool,
) -> None:
    """Write the new files if `write` is True. Print them, the changes that existing files need, and the next steps.

    Args:
        folder: The folder of the files.
        files: The text of each file, by path in the folder.
        states: The state of each file before anything is written.
        steps: Returns what the user has to do in the folder. It is called after the files were written.
        write: True to write the files.
        as_json: True to print everything as JSON.
    """
    if write:
        for path, text in files.items():
            if states[path].is_new:
                _create(folder / path, text)
    changes = {path: state.diff for path, state in states.items() if state.diff}
    enter = [] if folder.resolve() == Path.cwd() else [f"cd {folder}"]
    change = [f"change {' and '.join(changes)} as printed above"] if changes else []
    everything = [*enter, *change, *steps()]
    if as_json:
        print_json({"written": write, "files": files, "changes": changes, "next": everything})
        return
    for path, text in () if write else files.items():
        indented = "".join(f"  {line}".rstrip() + "\n" for line in text.splitlines())
        click.echo(f"{click.style(path, bold=True)}\n{indented}")
    print_table(["file", "result"], [(path, states[path].result(write)) for path in files])
    if changes:
        click.echo("\nExisting files, which are never changed, need these changes:\n")
        click.echo("".join(changes.values()), nl=False)
    click.echo("\nNext:" if write else "\nNothing was written. Run the command again with --write. Then:")
    for number, step in enumerate(everything, 1):
        click.echo(f"  {number}. {step}")


def _create(path: Path, text: str) -> None:
    """Write a file that does not exist, and its folder. Raise InputError if this fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise InputError(f"{path}: cannot be written", got=error.strerror or str(error)) from None


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
            edits.append((own.end_mark.index - 1, f"{before}{name}{in_yaml(_value(last))}"))
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


def _identity(node: yaml.Node) -> Any:
    """Return the value of a list item. A lookup of sandbox.yaml is known by its `match`."""
    value = _value(node)
    return value.get("match", value) if isinstance(value, dict) else value


def _value(node: yaml.Node) -> Any:
    return yaml.constructor.SafeConstructor().construct_document(node)


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
