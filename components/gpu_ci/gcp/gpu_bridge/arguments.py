"""The command line of a build step. Every mistake is reported at once, before a machine starts."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

from . import protocol
from . import settings as bridge_settings
from .build import Options
from .failures import ACCOUNT_HINT, BY_NAME
from .settings import Settings

PROGRAM = "python -m gpu_ci.gcp.gpu_bridge"
_DESCRIPTION = """Run one command on a machine with a GPU, as a step of Cloud Build. The step sends the workspace to the
machine, prints the output of the command, and exits with the exit code of the command."""
# Project and zone have the forms that the component accepts (gcp/resource_names.py).
_PROJECT = re.compile(r"([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]")
_NAME = re.compile(r"[a-z][a-z0-9-]{0,61}[a-z0-9]|[a-z]")
_ZONE = re.compile(r"([a-z]+-[a-z]+[0-9]+)-(?:ai[0-9]+)?[a-z]")
_TEMPLATE = re.compile(
    r"(?:https://[^/]+/compute/v1/)?projects/[^/]+/regions/([^/]+)/instanceTemplates/[^/?]+(?:\?.*)?"
)
# cloud.google.com/storage/docs/buckets#naming
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
# A label's value (cloud.google.com/compute/docs/labeling-resources#requirements). The id of a build is a UUID.
_LABEL = re.compile(r"[a-z0-9_-]{1,63}")
_IMAGE = re.compile(r"[a-z0-9.-]+(?::[0-9]+)?(?:/[a-z0-9._-]+)+(?::[\w.-]{1,128})?@sha256:[0-9a-f]{64}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Python converts at most 4300 digits.
_WHOLE = re.compile(r"0*[1-9][0-9]{0,9}")
_SETTINGS = re.compile(r"gs://([^/]+)/(.+)")
# Linux refuses longer arguments of a program (execve(2): 128 KiB for one, and by default 2 MiB for all).
_COMMAND_CHARACTERS = 200_000
# The fields of the request that are not arguments: names of objects, digests and limits.
_REQUEST_SPARE_BYTES = 4096
_PROJECT_ID = "the id of a project, not its name or number"
_BRIDGE_NAME = "lower-case letters, digits and -, at most 63"
_SETTINGS_HINT = f"remove the option that sets it; {bridge_settings.DEFAULTS_HINT}"
_OPTIONS = (
    "--artifact",
    "--build",
    "--dir",
    "--env",
    "--image",
    "--region",
    "--retry-preempted",
    "--settings",
    "--timeout",
)
_FLAGS = {"project": "--project", "name": "--name", "template": "--template", "bucket": "--bucket", "max": "--max"}


@dataclass(frozen=True)
class Mistake:
    """One mistake in the input."""

    where: str
    problem: str
    got: str
    expected: str
    hint: str

    def __str__(self) -> str:
        rows = (("got", self.got or "an empty text"), ("expected", self.expected), ("hint", self.hint))
        return "\n".join((f"{self.where}: {self.problem}", *(f"  {name}: {text}" for name, text in rows)))


class BadInput(Exception):  # noqa: N818 - the name of the failure
    """The input has mistakes."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        self.mistakes = list(mistakes)
        super().__init__("\n".join(map(str, mistakes)))


class _Parser(argparse.ArgumentParser):
    def __init__(self, **options: Any) -> None:
        # Abbreviations would change their meaning with each new option.
        super().__init__(**options, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        unknown = message.removeprefix("unrecognized arguments: ")
        choice = re.search(r"invalid choice: '(.*?)' \(", message)
        if unknown != message:
            problem, got = "are unknown", unknown
        elif choice:
            problem, got = "name an unknown command of the program", choice[1]
        else:
            problem, got = message, "nothing"
        close = get_close_matches(got.split(" ")[0].partition("=")[0], _OPTIONS, 1) if unknown != message else []
        hint = f"{PROGRAM} run --help and {PROGRAM} reap --help list the arguments"
        if close:
            hint = f"did you mean {close[0]}?"
        elif unknown != message:
            hint = f"write -- before the command; {hint}"
        raise BadInput([Mistake("arguments", problem, got, "run [OPTIONS] -- COMMAND ..., or reap --project ID", hint)])


def parser() -> argparse.ArgumentParser:
    """Return the parser. Values are checked later, so that all mistakes are reported together."""
    codes = "\n".join(f"  {each.code}  {each.cause}: {each.hint}" for each in BY_NAME.values())
    made = _Parser(
        prog=PROGRAM,
        description=_DESCRIPTION,
        epilog=f"exit codes, if the command did not run or has no result:\n{codes}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = made.add_subparsers(dest="action", required=True, parser_class=_Parser)
    run = commands.add_parser(
        "run", description=_DESCRIPTION, epilog=made.epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    run.add_argument("--settings", metavar="gs://BUCKET/OBJECT", help="the settings of the bridge")
    run.add_argument("--timeout", default="1800", metavar="SECONDS", help="time limit of the command (1800)")
    run.add_argument("--image", default="", metavar="IMAGE@sha256:...", help="container image for the command")
    run.add_argument(
        "--artifact", action="append", default=[], metavar="PATTERN", help="files that return to the workspace"
    )
    run.add_argument("--env", action="append", default=[], metavar="NAME[=VALUE]", help="variable of the command")
    run.add_argument("--dir", default=".", metavar="FOLDER", help="the workspace (the working directory)")
    run.add_argument(
        "--retry-preempted", action="store_true", help="after a preemption, run the command again without Spot"
    )
    run.add_argument("--build", metavar="ID", help="id of the build ($BUILD_ID)")
    run.add_argument("--region", metavar="REGION", help="region of the build ($LOCATION, or global)")
    run.add_argument("command", nargs="*", metavar="-- COMMAND ...", help="the command with its arguments")
    reap = commands.add_parser("reap", description="Delete the machines of builds that have ended.")
    reap.add_argument("--bridge", default="*", metavar="NAME", help="the bridge (all of the project)")
    for each in (run, reap):
        each.add_argument("--project", metavar="ID", help="the Google Cloud project")
    own = run.add_argument_group("settings of the bridge", "These replace fields of --settings.")
    own.add_argument("--name", help="value of the label gpu-ci-bridge")
    own.add_argument("--template", metavar="LINK", help="regional instance template")
    own.add_argument("--zone", action="append", metavar="ZONE", help="zone to try; repeat it for more")
    own.add_argument("--bucket", help="bucket of the bridge")
    own.add_argument("--max", metavar="NUMBER", help="maximum number of machines at once")
    return made


def parse(
    arguments: Sequence[str], environ: Mapping[str, str], read_settings: Callable[[str, str], str]
) -> tuple[Settings, Options]:
    """Return the settings and the options of `run`. Raise BadInput with all mistakes.

    `read_settings` returns the text of an object, given its bucket and name. It raises ValueError with the problem.
    """
    before, separator, command = _split(arguments)
    given = parser().parse_args(before)
    command = [*given.command, *command]
    mistakes: list[Mistake] = []
    options = _options(given, command, environ, mistakes)
    if given.command and separator:
        got, expected = " ".join(given.command), "run [OPTIONS] -- COMMAND ..."
        mistakes.append(Mistake("arguments", "are unknown", got, expected, "write the whole command after --"))
    settings = _settings(given, read_settings, mistakes)
    if settings and options and options.timeout_sec > settings.longest_timeout_sec:
        got, expected = str(options.timeout_sec), f"at most {settings.longest_timeout_sec}"
        hint = "raise maxRunDurationSec of the pool, or lower --timeout"
        mistakes.append(Mistake("--timeout", "is longer than the bridge allows", got, expected, hint))
    if mistakes or settings is None or options is None:
        raise BadInput(mistakes)
    return settings, options


def parse_reap(arguments: Sequence[str]) -> tuple[str, str]:
    """Return the project and the bridge of `reap`; the bridge `*` is all of them. Raise BadInput with all mistakes."""
    given = parser().parse_args(arguments)
    mistakes: list[Mistake] = []
    if not _PROJECT.fullmatch(given.project or ""):
        problem, got = ("is missing", "nothing") if given.project is None else ("is not valid", given.project)
        mistakes.append(Mistake("--project", problem, got, _PROJECT_ID, "write --project $PROJECT_ID in the step"))
    if given.bridge != "*" and not _NAME.fullmatch(given.bridge):
        hint = "write the name of the settings bridge.json, or leave --bridge out for all bridges of the project"
        mistakes.append(Mistake("--bridge", "is not valid", given.bridge, _BRIDGE_NAME, hint))
    if mistakes:
        raise BadInput(mistakes)
    return given.project, given.bridge


def _split(arguments: Sequence[str]) -> tuple[list[str], bool, list[str]]:
    """Split the arguments at the first `--`, so that argparse never reads the command."""
    if "--" not in arguments:
        return list(arguments), False, []
    at = list(arguments).index("--")
    return list(arguments[:at]), True, list(arguments[at + 1 :])


def _options(
    given: argparse.Namespace, command: list[str], environ: Mapping[str, str], mistakes: list[Mistake]
) -> Options | None:
    count = len(mistakes)
    if not command or not command[0]:
        got = "an empty text" if command else "nothing"
        mistakes.append(Mistake("command", "is missing", got, "-- COMMAND ...", "for example: -- pytest -m gpu"))
    length = sum(map(len, command))
    if length > _COMMAND_CHARACTERS:
        expected, hint = f"at most {_COMMAND_CHARACTERS} characters", "put a script into the workspace, and run that"
        mistakes.append(Mistake("command", "is too long", f"{length} characters", expected, hint))
    if any("\0" in each for each in command):
        hint = "put binary data into a file of the workspace"
        mistakes.append(Mistake("command", "has a zero byte", "a zero byte", "text", hint))
    timeout_sec = _whole(given.timeout, "--timeout", "write the time in seconds, such as 1800", mistakes)
    if given.image and not _IMAGE.fullmatch(given.image):
        hint = "a tag may name another image later: add the digest, as docker images --digests prints it"
        mistakes.append(Mistake("--image", "has no digest", given.image, "REGISTRY/NAME@sha256:...", hint))
    for pattern in given.artifact:
        _check_pattern(pattern, mistakes)
    environment = _environment(given.env, environ, mistakes)
    size = len(json.dumps([command, environment, given.artifact]).encode())
    limit = protocol.REQUEST_BYTES - _REQUEST_SPARE_BYTES
    if size > limit and length <= _COMMAND_CHARACTERS:
        hint = "put long values into files of the workspace"
        problem = "are too long: the command, --env and --artifact together"
        mistakes.append(Mistake("arguments", problem, f"{size} bytes as JSON", f"at most {limit} bytes", hint))
    if not Path(given.dir).is_dir():
        expected = "a folder below /workspace"
        hint = "correct --dir, or let an earlier step create the folder"
        mistakes.append(Mistake("--dir", "is not a folder", given.dir, expected, hint))
    build = given.build or environ.get("BUILD_ID", "")
    if not _LABEL.fullmatch(build):
        hint = "write --build $BUILD_ID in the step"
        mistakes.append(
            Mistake("--build", "is not the id of a build", build, "lower-case letters, digits, _ and -", hint)
        )
    region = given.region or environ.get("LOCATION", "") or "global"
    if not _LABEL.fullmatch(region):
        hint = "write --region $LOCATION in the step"
        mistakes.append(Mistake("--region", "is not a region", region, "such as us-central1, or global", hint))
    if len(mistakes) > count:
        return None
    return Options(
        command=command,
        build=build,
        region=region,
        timeout_sec=timeout_sec,
        image=given.image,
        artifacts=given.artifact,
        environment=environment,
        folder=Path(given.dir),
        retries_preempted=given.retry_preempted,
    )


def _whole(text: str, where: str, hint: str, mistakes: list[Mistake]) -> int:
    """Return the number, or 1 after a mistake."""
    if _WHOLE.fullmatch(text):
        return int(text)
    mistakes.append(Mistake(where, "is not a whole number above 0", text, "at most 10 digits, not all of them 0", hint))
    return 1


def _check_pattern(pattern: str, mistakes: list[Mistake]) -> None:
    path = PurePosixPath(pattern)
    if not pattern or path.is_absolute() or ".." in path.parts or "\0" in pattern:
        expected = "a path relative to the workspace, without .."
        hint = "write the path without /workspace/, for example: dist/*.whl"
        mistakes.append(Mistake("--artifact", "is not a path in the workspace", pattern, expected, hint))
    elif any("**" in part and part != "**" for part in path.parts):
        expected, hint = "** between two slashes", "write ** alone between two slashes, as in reports/**/*.xml"
        mistakes.append(Mistake("--artifact", "is not a valid pattern", pattern, expected, hint))


def _environment(given: Sequence[str], environ: Mapping[str, str], mistakes: list[Mistake]) -> dict[str, str]:
    """Return the variables of the command. A message contains no value, which may be a secret."""
    found: dict[str, str] = {}
    for text in given:
        name, has_value, value = text.partition("=")
        if not _VARIABLE.fullmatch(name):
            expected, hint = "letters, digits and _, not a digit first", "write --env NAME=VALUE"
            mistakes.append(Mistake("--env", "is not the name of a variable", name, expected, hint))
        elif name in found:
            expected, hint = "each variable once", "remove all but one"
            mistakes.append(Mistake("--env", "is given twice", name, expected, hint))
        elif has_value or name in environ:
            found[name] = value if has_value else environ[name]
        else:
            hint = f"set env or secretEnv of the step, or write {name}=VALUE"
            mistakes.append(Mistake("--env", "is not set in the step", name, "a variable of the step", hint))
    return found


def _settings(
    given: argparse.Namespace, read_settings: Callable[[str, str], str], mistakes: list[Mistake]
) -> Settings | None:
    count = len(mistakes)
    found: dict[str, Any] = {}
    if given.settings:
        found = _settings_object(given.settings, read_settings, mistakes)
    for name, flag in _FLAGS.items():
        if (value := getattr(given, name)) is not None:
            found[name] = _whole(value, flag, "write a number, such as 4", mistakes) if name == "max" else value
    if given.zone:
        found["zones"] = given.zone
    if given.zone or given.template:
        found.pop("rungs", None)
    if len(mistakes) == count and (missing := bridge_settings.missing(found)):
        hint = f"write --settings gs://BUCKET/OBJECT; {bridge_settings.DEFAULTS_HINT}"
        mistakes.append(Mistake("settings", "are incomplete", ", ".join(found) or "nothing", ", ".join(missing), hint))
    _check_settings(found, mistakes)
    return None if len(mistakes) > count else Settings(**found)


def _settings_object(url: str, read_settings: Callable[[str, str], str], mistakes: list[Mistake]) -> dict[str, Any]:
    match = _SETTINGS.fullmatch(url)
    if not match:
        hint = "copy the output settings of the pool"
        mistakes.append(Mistake("--settings", "is not the address of an object", url, "gs://BUCKET/OBJECT", hint))
        return {}
    try:
        return bridge_settings.parse(read_settings(match[1], match[2]))
    except bridge_settings.SettingsError as error:
        for wrong in error.wrong:
            where = f"{url}: {wrong.field}" if wrong.field else url
            mistakes.append(Mistake(where, wrong.problem, wrong.got, wrong.expected, bridge_settings.DEFAULTS_HINT))
    except ValueError as error:
        expected = "an object that the service account of the build may read"
        hint = f"copy the output settings of the pool; {ACCOUNT_HINT}; {bridge_settings.DEFAULTS_HINT}"
        mistakes.append(Mistake("--settings", str(error), url, expected, hint))
    return {}


def _check_settings(found: Mapping[str, Any], mistakes: list[Mistake]) -> None:
    rows: tuple[tuple[str, re.Pattern[str], str], ...] = (
        ("project", _PROJECT, _PROJECT_ID),
        ("name", _NAME, _BRIDGE_NAME),
        ("bucket", _BUCKET, "the name of a bucket, without gs://"),
        ("template", _TEMPLATE, "projects/PROJECT/regions/REGION/instanceTemplates/NAME"),
    )
    for name, pattern, expected in rows:
        if name in found and not pattern.fullmatch(found[name]):
            mistakes.append(Mistake(f"{name} of the bridge", "is not valid", found[name], expected, _SETTINGS_HINT))
    places = [(zone, found.get("template", "")) for zone in found.get("zones", [])]
    places += [(each["zone"], each.get("template") or found.get("template", "")) for each in found.get("rungs", [])]
    for zone, link in dict.fromkeys(places):
        template = _TEMPLATE.fullmatch(link)
        match = _ZONE.fullmatch(zone)
        if not match:
            mistakes.append(
                Mistake("zone of the bridge", "is not a zone", zone, "such as us-central1-a", _SETTINGS_HINT)
            )
        elif template and match[1] != template[1]:
            hint = "a regional template starts machines in its region only: remove the zone"
            expected = f"a zone of {template[1]}"
            mistakes.append(
                Mistake("zone of the bridge", "is in another region than the template", zone, expected, hint)
            )
