"""The command line of a build step. A mistake is reported before a machine starts."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, NoReturn

from . import protocol
from .build import Options
from .failures import ACCOUNT_HINT, BY_NAME
from .protocol import Settings

PROGRAM = "python -m gpu_ci.gcp.gpu_bridge"
_DESCRIPTION = """Run one command on a machine with a GPU, as a step of Cloud Build. The step sends the workspace to the
machine, prints the output of the command, and exits with the exit code of the command."""
# A label's value (cloud.google.com/compute/docs/labeling-resources#requirements). The id of a build is a UUID.
_LABEL = re.compile(r"[a-z0-9_-]{1,63}")
_IMAGE = re.compile(r"[a-z0-9.-]+(?::[0-9]+)?(?:/[a-z0-9._-]+)+(?::[\w.-]{1,128})?@sha256:[0-9a-f]{64}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WHOLE = re.compile(r"0*[1-9][0-9]{0,9}")
_SETTINGS = re.compile(r"gs://([^/]+)/(.+)")
# The fields of the request that are not arguments: names of objects, digests and limits.
_REQUEST_SPARE_BYTES = 4096


class BadInput(Exception):  # noqa: N818 - the name of the failure
    """The input has a mistake. The text has its place, what was given, what is expected, and a hint."""

    def __init__(self, where: str, problem: str, got: str, expected: str, hint: str) -> None:
        super().__init__(f"{where}: {problem}\n  got: {got or 'nothing'}\n  expected: {expected}\n  hint: {hint}")


class _Parser(argparse.ArgumentParser):
    def __init__(self, **options: Any) -> None:
        # Abbreviations would change their meaning with each new option.
        super().__init__(**options, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        problem, _, got = message.partition(": ")
        hint = f"write -- before the command; {PROGRAM} run --help lists the arguments"
        raise BadInput("arguments", problem, got, "run [OPTIONS] -- COMMAND ..., or reap --project ID", hint)


def _timeout(text: str) -> int:
    if not _WHOLE.fullmatch(text):
        hint = "write the time in seconds, such as 1800"
        raise BadInput("--timeout", "is not a whole number above 0", text[:80], "at most 10 digits", hint)
    return int(text)


def _image(text: str) -> str:
    if text and not _IMAGE.fullmatch(text):
        hint = "a tag may name another image later: add the digest, as docker images --digests prints it"
        raise BadInput("--image", "has no digest", text, "REGISTRY/NAME@sha256:...", hint)
    return text


def _artifact(pattern: str) -> str:
    path = PurePosixPath(pattern)
    if not pattern or path.is_absolute() or ".." in path.parts:
        expected, hint = "a path relative to the workspace, without ..", "for example: dist/*.whl"
        raise BadInput("--artifact", "is not a path in the workspace", pattern, expected, hint)
    if any("**" in part and part != "**" for part in path.parts):
        hint = "write ** alone between two slashes, as in reports/**/*.xml"
        raise BadInput("--artifact", "is not a valid pattern", pattern, "** between two slashes", hint)
    return pattern


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line, without the command itself."""
    codes = "\n".join(f"  {each.code}  {each.cause}: {each.hint}" for each in BY_NAME.values())
    epilog = f"exit codes, if the command did not run or has no result:\n{codes}"
    texts: dict[str, Any] = {"epilog": epilog, "formatter_class": argparse.RawDescriptionHelpFormatter}
    made = _Parser(prog=PROGRAM, description=_DESCRIPTION, **texts)
    commands = made.add_subparsers(dest="action", required=True, parser_class=_Parser)
    run = commands.add_parser("run", description=_DESCRIPTION, **texts)
    run.add_argument("--settings", required=True, metavar="gs://BUCKET/OBJECT", help="the settings of the bridge")
    run.add_argument(
        "--timeout", type=_timeout, default=1800, metavar="SECONDS", help="time limit of the command (1800)"
    )
    run.add_argument(
        "--image", type=_image, default="", metavar="IMAGE@sha256:...", help="container image for the command"
    )
    run.add_argument(
        "--artifact", type=_artifact, action="append", default=[], metavar="PATTERN",
        help="files that return to the workspace",
    )  # fmt: skip
    run.add_argument("--env", action="append", default=[], metavar="NAME[=VALUE]", help="variable of the command")
    run.add_argument(
        "--retry-preempted", action="store_true", help="after a preemption, run the command again without Spot"
    )
    run.add_argument("command", nargs="*", metavar="-- COMMAND ...", help="the command with its arguments")
    reap = commands.add_parser("reap", description="Delete the machines of builds that have ended.")
    reap.add_argument("--project", required=True, metavar="ID", help="the Google Cloud project")
    reap.add_argument("--bridge", default="*", metavar="NAME", help="the bridge (all of the project)")
    return made


def parse(
    arguments: Sequence[str], environ: Mapping[str, str], read_settings: Callable[[str, str], str]
) -> tuple[Settings, Options]:
    """Return the settings and the options of `run`. Raise BadInput for a mistake.

    `read_settings` returns the text of an object, given its bucket and name. It raises ValueError with the problem.
    """
    # argparse never reads the command.
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    given, command = parser().parse_args(arguments[:end]), list(arguments[end + 1 :])
    if given.command:
        got, expected = " ".join(given.command), "run [OPTIONS] -- COMMAND ..."
        raise BadInput("arguments", "are unknown", got, expected, "write -- before the command")
    if not command or not command[0]:
        raise BadInput("command", "is missing", "", "-- COMMAND ...", "for example: -- pytest -m gpu")
    environment = _environment(given.env, environ)
    size = len(json.dumps([command, environment, given.artifact]).encode())
    if size > (limit := protocol.REQUEST_BYTES - _REQUEST_SPARE_BYTES):
        problem, hint = "are too long: the command, --env and --artifact", "put long values into files of the workspace"
        raise BadInput("arguments", problem, f"{size} bytes as JSON", f"at most {limit} bytes", hint)
    build, region = environ.get("BUILD_ID", ""), environ.get("LOCATION") or "global"
    for name, value in (("BUILD_ID", build), ("LOCATION", region)):
        if not _LABEL.fullmatch(value):
            problem, hint = "is not the value that Cloud Build gives to a step", "copy env of the step from the output"
            raise BadInput(
                name, problem, value, "lower-case letters and digits", f"{hint} cloudbuild of the pool: {name}=${name}"
            )
    found = _settings(given.settings, read_settings)
    if given.timeout > found.longest_timeout_sec:
        got, expected = str(given.timeout), f"at most {found.longest_timeout_sec}"
        hint = "raise maxRunDurationSec of the pool, or lower --timeout"
        raise BadInput("--timeout", "is longer than the bridge allows", got, expected, hint)
    return found, Options(
        command, build, region, given.timeout, given.image, given.artifact, environment, given.retry_preempted
    )


def _environment(texts: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of --env. A message contains no value, which may be a secret."""
    found: dict[str, str] = {}
    for text in texts:
        name, has_value, value = text.partition("=")
        if not _VARIABLE.fullmatch(name):
            expected = "letters, digits and _, not a digit first"
            raise BadInput("--env", "is not the name of a variable", name, expected, "write --env NAME=VALUE")
        if not has_value and name not in environ:
            hint = f"set env or secretEnv of the step, or write {name}=VALUE"
            raise BadInput("--env", "is not set in the step", name, "a variable of the step", hint)
        found[name] = value if has_value else environ[name]
    return found


def _settings(url: str, read_settings: Callable[[str, str], str]) -> Settings:
    try:
        if not (match := _SETTINGS.fullmatch(url)):
            raise ValueError("is not the address of an object")
        return protocol.parse_settings(read_settings(match[1], match[2]))
    except ValueError as error:
        expected = "gs://BUCKET/OBJECT, which the service account of the build may read"
        hint = f"copy the output settings of the pool; {ACCOUNT_HINT}; pulumi up writes the settings"
        raise BadInput("--settings", str(error), url, expected, hint) from None
