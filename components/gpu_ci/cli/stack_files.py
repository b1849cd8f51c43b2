"""Reads stack files without the Pulumi engine, and runs a command for each. A command needs no program of a file."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click
import yaml

from gpu_ci.cli.output import Failure, InputError, ProblemsFound, print_error, print_json
from gpu_ci.errors import Problem, report
from gpu_ci.stack import clusters
from gpu_ci.stack.clusters import CLUSTERS
from gpu_ci.stack.lines import lines_of
from gpu_ci.stack.parse import KEYS, PROJECT, Stack, decoded
from gpu_ci.stack.site import GITHUB, SITE

# Keys that Pulumi writes (pulumi/pulumi sdk/go/common/workspace/project.go, ProjectStack).
_SECRETS_PROVIDER = ("encryptionsalt", "encryptedkey", "secretsprovider")


@dataclass(frozen=True)
class StackFile(Stack):
    """A stack file that was read without the engine."""

    path: Path = Path()
    others: Mapping[str, Any] = field(default_factory=dict)
    """The top-level keys of the file other than `config`, which are Pulumi's own."""

    @property
    def complete(self) -> bool:
        """False for a file with neither of these keys: its program sets project and networks in code."""
        return not {SITE, GITHUB}.isdisjoint(self.config)

    @property
    def environments(self) -> list[str]:
        """The environments of Pulumi ESC. They may have any value that the file lacks, and no command reads them."""
        given = self.others.get("environment")
        names = given.get("imports", []) if isinstance(given, dict) else given
        return [f"environment {each}" for each in names] if isinstance(names, list) else []

    @property
    def unchecked(self) -> list[str]:
        """The keys and environments that this command does not check, except Pulumi's own for the secrets provider."""
        hidden = {*_SECRETS_PROVIDER, *(["environment"] if self.environments else [])}
        own = (key for key in self.config if key != PROJECT and not key.startswith("gpu-ci:"))
        return [*self.environments, *(key for key in self.others if key not in hidden), *own]

    def pools_on(self, cluster: str) -> dict[str, Any]:
        """Return the arguments of the pools on a cluster, by the name of the pool."""
        names = {spec.name for spec in self.specs if spec.cluster == cluster}
        return {name: args for name, args in self.pools if name in names}

    def clusters_shared_with(self, other: Stack) -> list[str]:
        """Return the names of the clusters that another stack file describes too."""
        own, others = (clusters.marks(each.values[CLUSTERS], each.project) for each in (self, other))
        return sorted({name for name, *_ in own & others})

    def refuse_mistakes(self) -> None:
        """Raise ProblemsFound if a pool has a problem, because a total without this pool would be too low."""
        problems = self.problems_of_pools
        if not problems and any(spec.args is None for spec in self.specs):
            problems = self.problems  # the cause is another key, such as a cluster
        if problems:
            raise problems_found(self, problems, "; see gpu-ci check")


def _has_secret(value: Any) -> bool:
    if isinstance(value, dict):
        return set(value) == {"secure"} or any(map(_has_secret, value.values()))
    return isinstance(value, list) and any(map(_has_secret, value))


def problems_found(file: StackFile, problems: list[Problem], suffix: str = "") -> ProblemsFound:
    """Return the problems of a file as an exception that ends the command for this file."""
    return ProblemsFound(report_of(file, problems) + suffix, [asdict(problem) for problem in problems])


def report_of(file: StackFile, problems: list[Problem]) -> str:
    """Return the report of a file: every problem, then their number."""
    count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"
    return f"{report(file.name, problems, file.line_of)}\n{count} in {file.name}"


def files_of(given: tuple[str, ...]) -> list[Path]:
    """Return the given files, or every stack file of this folder. InputError if there is no file."""
    paths = [Path(each) for each in given] or sorted(Path().glob("Pulumi.*.yaml"))
    if not paths:
        raise InputError(
            f"no stack file in {Path.cwd()}",
            expected="Pulumi.<stack>.yaml in this folder, or a path",
            hint=f"{click.get_current_context().command_path} path/to/Pulumi.staging.yaml",
        )
    return paths


def one_file(given: tuple[str, ...]) -> StackFile:
    """Return the given stack file, or the only one of this folder. Raise InputError if there are several."""
    paths = files_of(given)
    if len(paths) > 1:
        command = click.get_current_context().command_path
        raise InputError(
            f"{command}: several stack files",
            got=", ".join(map(str, paths)),
            expected="one stack file",
            hint=f"{command} {paths[0]}",
        )
    return read(paths[0])


Answer = tuple[Any, ...]
"""A file and the results of a command for it."""


def for_each_file(
    names: tuple[str, ...],
    compute: Callable[[StackFile], Answer],
    show: Callable[..., None],
    document: Callable[..., Any],
    as_json: bool,
    code_of: Callable[[Answer], int] = lambda _: 0,
) -> None:
    """Call `compute` for each given file, and print the results in order. Without names, use all files of this folder.

    An error in one file does not stop the command for the other files. The exit code is 2 if a file is not a stack
    file. It is 1 if a file has problems. `code_of` can return a higher one.

    Args:
        names: The paths of stack files.
        compute: A function that returns the result for a file.
        show: A function that prints a result as text.
        document: A function that returns a result for the JSON output.
        as_json: True to print JSON.
        code_of: A function that returns the exit code for a result.
    """

    def answer(path: Path) -> Answer | Failure:
        try:
            return compute(read(path))
        except Failure as failure:
            return failure

    answers = [(path, answer(path)) for path in files_of(names)]
    if as_json:
        print_json(
            [
                {"file": str(path), **each.document} if isinstance(each, Failure) else document(*each)
                for path, each in answers
            ]
        )
    codes = [0]
    for index, (_, each) in enumerate(answers):
        if isinstance(each, Failure):
            codes.append(each.exit_code)
            print_error(each)
            continue
        codes.append(int(code_of(each)))
        if not as_json:
            if index:
                click.echo("")
            show(*each)
    if code := max(codes):
        click.get_current_context().exit(code)


def siblings(path: Path) -> list[StackFile]:
    """Return the other stack files in the folder of a stack file, without those that cannot be read."""
    return readable(other for other in sorted(path.parent.glob("Pulumi.*.yaml")) if other.name != path.name)


def readable(paths: Iterable[Path]) -> list[StackFile]:
    """Return the stack files that can be read. Commands that run for each file report the others."""
    found = []
    for path in paths:
        with contextlib.suppress(Failure):
            found.append(read(path))
    return found


def read(path: Path) -> StackFile:
    """Read a stack file, with the values that Pulumi.yaml gives for missing keys.

    Raises:
        InputError: The file is not a stack file or cannot be read.
        ProblemsFound: The YAML is invalid. The text has the line.
    """
    return parse(path, _text(path), _project_config(path.with_name("Pulumi.yaml")))


def parse(path: Path, text: str, defaults: Mapping[str, Any] | None = None) -> StackFile:
    """Return the stack file with this text, and with these values of missing keys. See `read`."""
    document = yaml_document(path, text)
    if document is None and path.name.startswith("Pulumi."):  # an empty file, which Pulumi reads as an empty map
        document = {"config": {}}
    if not isinstance(document, dict) or not isinstance(document.get("config"), dict):
        project = isinstance(document, dict) and "runtime" in document
        raise InputError(
            f"{path}: is not a stack file",
            got="the project's file, Pulumi.yaml" if project else "a file without a map under config",
            expected="a file with config: at its top, such as Pulumi.staging.yaml",
            hint=_indent_hint(document) or _stack_files_hint(path, but=path),
        )
    others = {key: value for key, value in document.items() if key != "config"}
    config = {**(defaults or {}), **document["config"]}
    read = [key for key in KEYS if key in config]  # the keys of providers show which of their values are secret
    try:
        secrets = [key for key in read if _has_secret(config[key]) or _has_secret(decoded(key, config[key]))]
    except RecursionError:
        got = "an alias, such as *a, inside of its own anchor &a"
        raise InputError(f"{path}: a map or list contains itself", got=got, expected="no such alias") from None
    stack = path.stem.removeprefix("Pulumi.")
    return StackFile(str(path), stack, config, secrets, lines_of(text), path=path, others=others)


def _project_config(path: Path) -> dict[str, Any]:
    """Return the values of Pulumi.yaml for keys that a stack file lacks, merged as by the engine.

    A key without a namespace is one of the project. A map has the value under `value` or `default`
    (pulumi/pulumi@v3.206.0: sdk/go/common/workspace/config.go, mergeConfig; project.go, RewriteShorthandConfigValues).
    """
    document = yaml_document(path, _text(path)) if path.is_file() else None
    if not isinstance(document, dict) or not isinstance(document.get("config"), dict):
        return {}
    found = {}
    for key, given in document["config"].items():
        value = given.get("default", given.get("value")) if isinstance(given, dict) else given
        if value is not None:
            found[key if ":" in key else f"{document.get('name')}:{key}"] = value
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file", hint=_stack_files_hint(path)) from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not text", got=f"the byte {error.start + 1} is not UTF-8") from None
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read", got=error.strerror or str(error), hint=_stack_files_hint(path)
        ) from None


def _indent_hint(document: Any) -> str:
    """Return a hint if keys of a stack file are at the top of the file."""
    keys = [key for key in document if key.startswith("gpu-ci:")] if isinstance(document, dict) else []
    return f"put {keys[0]} and the other keys below config:, and indent them" if keys else ""


def _stack_files_hint(path: Path, but: Path | None = None) -> str:
    """Return a hint with the stack files in the same folder."""
    folder = path if path.is_dir() else path.parent
    names = sorted(str(each) for each in folder.glob("Pulumi.*.yaml") if each != but)
    return f"the folder has {', '.join(names)}" if names else ""


_SPACE_MISSING, _NULL_KEY = "a space is missing after a colon", "a key is null, not text"


class _StrictLoader(yaml.SafeLoader):
    """A YAML loader that refuses duplicate keys and reads yes, on, dates and 18:00 as text, unlike YAML 1.1."""

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
        tag: str = super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
        return _TEXT if tag.endswith((":int", ":float")) and ":" in value else tag

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError, TypeError):  # Python's message may quote a secret value.
            text = f"the value cannot be read as {node.tag.rpartition(':')[2]}"
            raise yaml.constructor.ConstructorError(None, None, text, node.start_mark) from None

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        if not isinstance(node, yaml.MappingNode):
            raise yaml.constructor.ConstructorError(None, None, "the value cannot be read as map", node.start_mark)
        seen: dict[Any, int] = {}
        for key, value in node.value:
            scalar = isinstance(key, yaml.ScalarNode)
            if node.flow_style and scalar and ":" in key.value and (value.tag, value.value) == (_NULL, ""):
                # The key contains the value, which may be a secret.
                raise yaml.constructor.ConstructorError(None, None, _SPACE_MISSING, key.start_mark)
            if scalar and key.tag == _NULL:  # the engine would make the text <nil> of it
                raise yaml.constructor.ConstructorError(None, None, _NULL_KEY, key.start_mark)
            if scalar and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    text = f"the key {key.value} is a duplicate of line {seen[key.value]}"
                    raise yaml.constructor.ConstructorError(None, None, text, key.start_mark)
                seen[key.value] = key.start_mark.line + 1
        # The engine passes the configuration to a program as JSON. There, all keys are text: the key True is "true".
        return {
            key if isinstance(key, str) else str(key).lower(): value
            for key, value in super().construct_mapping(node, deep).items()
        }


_NULL, _TEXT = "tag:yaml.org,2002:null", "tag:yaml.org,2002:str"
_BOOL, _DATE = "tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp"
_StrictLoader.yaml_implicit_resolvers = {
    first: [(tag, form) for tag, form in resolvers if tag not in (_BOOL, _DATE)]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_StrictLoader.add_implicit_resolver(_BOOL, re.compile("true|True|TRUE|false|False|FALSE"), list("tTfF"))


def yaml_document(path: Path, text: str) -> Any:
    """Return the value of a YAML file. Raise ProblemsFound with the line if the YAML is invalid."""
    try:
        return yaml.load(text, _StrictLoader)  # noqa: S506 - it is a SafeLoader
    except yaml.MarkedYAMLError as error:
        line, column, reason, hint = _explained(error, text)
        raise _invalid_yaml(path, reason, hint, line=line + 1, column=column + 1) from None
    except yaml.reader.ReaderError as error:
        raise _invalid_yaml(path, error.reason, line=text[: error.position].count("\n") + 1) from None
    except RecursionError:
        raise _invalid_yaml(path, "the nesting is too deep") from None


_SPACE = "write key: value, with a space after the colon"
_INDENTATION = "indent all keys of one map alike, and the keys below them deeper"
_QUOTES = "write the value in quotes"
_REASONS = (
    ("mapping values are not allowed here", "a value with a colon and a space needs quotes", _QUOTES),
    ("while scanning a quoted scalar", "a quote is not closed", "close the quote that begins here"),
    (
        "expected a single document in the stream",
        "the file has a second document",
        "remove the line ---: a stack file is one document",
    ),
    ("expected <block end>, but found '-'", "a list entry is next to the keys of a map", _INDENTATION),
    ("expected <block end>", "the indentation is wrong", _INDENTATION),
)
"""A part of PyYAML's message, the reason that users understand, and a hint."""
_HINTS = {
    "'\\t'": "indent with spaces: YAML does not allow a tab there",
    _SPACE_MISSING: _SPACE,
    _NULL_KEY: "write the name, or put null in quotes",
    "cannot start any token": _QUOTES,
    "undefined alias": f"{_QUOTES}: * begins a reference in YAML",
    "unhashable key": f"{_QUOTES}: two braces begin a map in YAML",
    "is a duplicate of": "remove one of the two, or give one of them another name",
}
"""Hints for messages of PyYAML that are clear themselves, by a part of the message."""
_QUOTED = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"")
# A key of a stack file, such as gpu-ci:pools, has a colon of its own.
_KEY_OF_STACK = re.compile(r"[\w-]+:[A-Za-z]+(\.[\w.]+)?")
_NO_SPACE = re.compile(r"""(- )?[^\s'"\[{]*[^\s'"\[{:]:[^\s:/]""")


def _explained(error: yaml.MarkedYAMLError, text: str) -> tuple[int, int, str, str]:
    """Return line, column, reason and hint for an error of PyYAML. Lines and columns begin with 0.

    PyYAML often notices a mistake one line late, such as a missing space after a colon. The reason shows no text of the
    file, because any part of it may be a secret.
    """
    if conflict := re.search(r"^<{7} ", text, re.MULTILINE):
        hint = "resolve what Git marked between <<<<<<< and >>>>>>>"
        return text.count("\n", 0, conflict.start()), 0, "the file has a merge conflict", hint
    problem, context, start = error.problem or "a syntax error", error.context or "", error.context_mark
    at = (start if context == "while scanning a quoted scalar" else error.problem_mark) or start
    line, column, lines = at.line if at else 0, at.column if at else 0, text.splitlines()
    if start and context == "while scanning a simple key":
        own = lines[start.line]
        return start.line, len(own) - len(own.lstrip()), *_not_a_key(own.strip())
    if problem.startswith("mapping values") and ": " not in lines[line][:column]:
        reason = "the indentation is wrong, or a line above lacks a colon, or a space after a colon or dash"
        return line, len(lines[line]) - len(lines[line].lstrip()), reason, _INDENTATION
    message = f"{context}: {problem}"
    for part, reason, hint in _REASONS:
        if part in message:
            return line, column, reason, hint
    # Without quotations of the file, except single characters and names of YAML tokens.
    reason = _QUOTED.sub(lambda match: match[0] if len(match[0]) <= 3 or match[0][1] in "<\\" else "…", problem)
    hint = next((hint for part, hint in _HINTS.items() if part in message), "")
    if start and (
        kind := {"flow sequence": "list", "flow mapping": "map"}.get(context.removeprefix("while parsing a "))
    ):
        hint = f"close the {kind} that begins in line {start.line + 1}"
    return line, column, reason, hint


def _not_a_key(line: str) -> tuple[str, str]:
    """Return the reason and the hint for a line that PyYAML cannot read as a key: a space or a colon is missing."""
    if re.match(r"-[^\s-]", line):
        return "a space is missing after a dash", "write - value, with a space after the dash"
    if not _KEY_OF_STACK.fullmatch(line) and _NO_SPACE.match(line):
        return _SPACE_MISSING, _SPACE
    return "a colon is missing after a key", "write key: value, or key: with the entries below it"


def _invalid_yaml(path: Path, reason: str, hint: str = "", **place: int) -> ProblemsFound:
    """Return the error for invalid YAML. It shows no text of the file, because any part of it may be a secret."""
    text = f"{':'.join(map(str, (path, *place.values())))}: is not valid YAML: {reason}"
    problem = {"text": text, "hint": hint, **place}
    return ProblemsFound(f"{text}\n  hint: {hint}" if hint else text, [problem])
