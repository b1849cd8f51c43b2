"""The command line of a build step. A mistake is reported before a machine starts."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import NoReturn

from . import protocol
from .build import Options
from .failures import ACCOUNT_HINT, BridgeError
from .protocol import Settings

PROGRAM = "python -m gpu_ci.gcp.gpu_bridge"
_DESCRIPTION = """Run one command on a machine with a GPU, as a step of Cloud Build. The step sends the workspace to the
machine, prints the output of the command, and exits with the exit code of the command."""
# A label's value (cloud.google.com/compute/docs/labeling-resources#requirements). The id of a build is a UUID.
_LABEL = re.compile(r"[a-z0-9_-]{1,63}")
_IMAGE = re.compile(r"[a-z0-9.-]+(?::[0-9]+)?(?:/[a-z0-9._-]+)+(?::[\w.-]{1,128})?@sha256:[0-9a-f]{64}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SETTINGS = re.compile(r"gs://([^/]+)/(.+)")


def bad(where: str, problem: str, got: str, hint: str) -> BridgeError:
    """Return the failure for a mistake in the input."""
    return BridgeError("bad-input", f"{where} {problem}; got: {got[:80] or 'nothing'}", hint)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        problem, _, got = message.partition(": ")
        raise bad("arguments:", problem, got, f"write -- before the command; {PROGRAM} run --help lists the arguments")


def _image(text: str) -> str:
    if text and not _IMAGE.fullmatch(text):
        hint = "a tag may name another image later: add @sha256:..., as docker images --digests prints it"
        raise bad("--image", "has no digest", text, hint)
    return text


def _artifact(pattern: str) -> str:
    path = PurePosixPath(pattern)
    is_outside = not pattern or path.is_absolute() or ".." in path.parts
    if is_outside or any("**" in part and part != "**" for part in path.parts):
        hint = "write a path relative to the workspace, such as dist/*.whl or reports/**/*.xml, without .."
        raise bad("--artifact", "is not a pattern of files in the workspace", pattern, hint)
    return pattern


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line, without the command itself."""
    # Abbreviations would change their meaning with each new option.
    made = _Parser(prog=PROGRAM, description=_DESCRIPTION, allow_abbrev=False)
    commands = made.add_subparsers(dest="action", required=True, parser_class=_Parser)
    run = commands.add_parser("run", description=_DESCRIPTION, allow_abbrev=False)
    run.add_argument("--settings", required=True, metavar="gs://BUCKET/OBJECT", help="the settings of the bridge")
    run.add_argument("--timeout", type=int, default=1800, metavar="SECONDS", help="time limit of the command (1800)")
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
    reap = commands.add_parser("reap", description="Delete the machines of builds that have ended.", allow_abbrev=False)
    reap.add_argument("--project", required=True, metavar="ID", help="the Google Cloud project")
    reap.add_argument("--bridge", required=True, metavar="NAME", help="the bridge")
    return made


def parse(
    arguments: Sequence[str], environ: Mapping[str, str], read_settings: Callable[[str, str], str]
) -> tuple[Settings, Options]:
    """Return the settings and the options of `run`. Raise BridgeError for a mistake.

    `read_settings` returns the text of an object, given its bucket and name. It raises ValueError with the problem.
    """
    # argparse never reads the command.
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    given, command = parser().parse_args(arguments[:end]), list(arguments[end + 1 :])
    if given.command or not command or not command[0]:
        got = " ".join(given.command)
        raise bad("the command", "is not after --", got, "write -- before the command, such as: -- pytest -m gpu")
    environment = _environment(given.env, environ)
    build, region = environ.get("BUILD_ID", ""), environ.get("LOCATION") or "global"
    for name, value in (("BUILD_ID", build), ("LOCATION", region)):
        if not _LABEL.fullmatch(value):
            hint = f"copy env of the step from the output cloudbuild of the pool: {name}=${name}"
            raise bad(name, "is not the value that Cloud Build gives to a step", value, hint)
    found = _settings(given.settings, read_settings)
    if not 0 < given.timeout <= found.longest_timeout_sec:
        problem = f"is not between 1 and {found.longest_timeout_sec} seconds"
        hint = "raise maxRunDurationSec of the pool, or lower --timeout"
        raise bad("--timeout", problem, str(given.timeout), hint)
    return found, Options(
        command, build, region, given.timeout, given.image, given.artifact, environment, given.retry_preempted
    )


def _environment(texts: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of --env. A message contains no value, which may be a secret."""
    found: dict[str, str] = {}
    for text in texts:
        name, has_value, value = text.partition("=")
        if not _VARIABLE.fullmatch(name):
            raise bad("--env", "is not the name of a variable", name, "write --env NAME=VALUE")
        if not has_value and name not in environ:
            hint = f"set env or secretEnv of the step, or write {name}=VALUE"
            raise bad("--env", "is not set in the step", name, hint)
        found[name] = value if has_value else environ[name]
    return found


def _settings(url: str, read_settings: Callable[[str, str], str]) -> Settings:
    try:
        if not (match := _SETTINGS.fullmatch(url)):
            raise ValueError("is not the address of an object")
        return protocol.parse_settings(read_settings(match[1], match[2]))
    except ValueError as error:
        hint = f"copy the output settings of the pool; {ACCOUNT_HINT}; pulumi up writes the settings"
        raise bad("--settings", str(error), url, hint) from None
