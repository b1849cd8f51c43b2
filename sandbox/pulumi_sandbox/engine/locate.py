"""Find the Pulumi CLI, or install one.

The sources, in order: PATH, ~/.pulumi/bin, the official installer, a build from pinned Go modules.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from pulumi_sandbox.engine import build
from pulumi_sandbox.engine.model import (
    HOST,
    VERSION,
    Engine,
    EngineError,
    MissingError,
    WayError,
    ask_version,
    new_enough,
    parse_version,
    read_json,
    write_whole,
)

STAMP = "engine.json"
WAYS = ("path", "home", "official", "build")


def home() -> Path:
    """Return the folder of the engines that pulumi-sandbox installed.

    Symbolic links are resolved, because bubblewrap does not show them to an isolated process.
    """
    checkout = Path(__file__).resolve().parents[3]
    if chosen := os.environ.get("PULUMI_SANDBOX_ENGINE_DIR"):
        place = Path(chosen)
    elif (checkout / "tools" / "engine" / "go.mod").is_file():
        place = checkout / ".engine"
    else:
        place = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pulumi-sandbox" / "engine"
    return place.resolve()


def ways() -> tuple[str, ...]:
    """Return the sources of a CLI to try, in order."""
    forced = os.environ.get("PULUMI_SANDBOX_ENGINE")
    if not forced:
        return WAYS
    if forced not in WAYS:
        raise EngineError(
            f"PULUMI_SANDBOX_ENGINE: unknown source of the Pulumi CLI\n  got: {forced}\n"
            f"  expected: one of {', '.join(WAYS)}\n"
            "  hint: unset PULUMI_SANDBOX_ENGINE to try all of them"
        )
    return (forced,)


def on_path() -> Engine:
    """Return the `pulumi` on PATH with its Python language host, or raise WayError."""
    found = next(executables_on_path(), None)
    if found is None:
        raise MissingError("there is no `pulumi` on PATH", "install Pulumi, or put it on PATH")
    return distribution(found, "path")


def in_home() -> Engine:
    """Return the `pulumi` in the default folder of Pulumi's installer, which may be missing from PATH."""
    found = Path("/", os.environ.get("HOME", ""), ".pulumi", "bin", "pulumi")  # install.sh reads $HOME, too
    if not os.access(found, os.X_OK):
        raise MissingError(f"{found} is missing", "install Pulumi (https://www.pulumi.com/docs/install)")
    return distribution(found, "home")


def distribution(executable: Path, way: str) -> Engine:
    """Check that an official Pulumi has its Python language host in the CLI's folder and a supported version."""
    real = executable.resolve()
    folders = [real.parent] if real.name == "pulumi" else []
    folder = next((each for each in (*folders, executable.parent) if os.access(each / HOST, os.X_OK)), None)
    if folder is None:
        raise WayError(f"{HOST} is missing from the folder of {executable}", "reinstall Pulumi")
    version = known_version(executable)
    if not new_enough(version):
        raise WayError(f"{executable} is version {version or 'unknown'}", how_to_replace(version))
    return Engine(folder, version, way)


def how_to_replace(version: str) -> str:
    found, tested = parse_version(version), parse_version(VERSION)
    if found is None:
        return "reinstall Pulumi; `pulumi version` prints no version"
    if tested is not None and found[0] > tested[0]:
        return f"install Pulumi {tested[0]}; PULUMI_SANDBOX_ENGINE=official installs {VERSION} for the sandbox alone"
    return f"upgrade it to {VERSION} or newer"


def executables_on_path() -> Iterator[Path]:
    """Yield every `pulumi` on PATH, except ours. `eval "$(pulumi-sandbox env)"` puts ours on PATH, too."""
    ours = home()
    for part in os.environ.get("PATH", os.defpath).split(os.pathsep):
        # An empty entry of PATH is the current folder. The author of any checkout could put a `pulumi` there.
        candidate = Path(part) / "pulumi"
        if (
            candidate.is_absolute()
            and candidate.is_file()
            and os.access(candidate, os.X_OK)
            and ours not in candidate.parents
        ):
            yield candidate


def known_version(executable: Path) -> str:
    """Return the CLI's version from a cache by file, because starting the CLI is the slowest step of a command."""
    if is_shim(executable):
        return ask_version(executable)
    status = executable.resolve().stat()
    key = f"{executable.resolve()} {status.st_size} {status.st_mtime_ns}"
    notes = home() / "versions.json"
    known = read_json(notes)
    if key not in known:
        known = {**known, key: ask_version(executable)}
        with contextlib.suppress(OSError):  # a read-only folder only makes the next call slower
            write_whole(notes, json.dumps(known))
    return str(known[key])


def notes() -> list[Path]:
    """Return the files that record the installed CLI. An isolated process needs them to find it."""
    return [file for file in (home() / STAMP, home() / "versions.json", home() / "warned.json") if file.is_file()]


def is_shim(file: Path) -> bool:
    """Return True if the file is a version manager's shim: a script, or a symbolic link to the manager.

    A shim may start another CLI version while the file stays the same.
    """
    try:
        with file.open("rb") as opened:
            return opened.read(2) == b"#!" or file.resolve().name != file.name
    except OSError:  # the file may be executable and not readable
        return True


def kept(allowed: tuple[str, ...]) -> Engine | None:
    """Return the engine that an earlier call installed, if it is complete and of the pinned version."""
    stamp = read_json(home() / STAMP)
    folder = home() / str(stamp.get("folder", "."))
    whole = all(os.access(folder / name, os.X_OK) for name in ("pulumi", HOST))
    if stamp.get("version") != VERSION or stamp.get("way") not in allowed or not whole:
        return None
    return Engine(folder, VERSION, str(stamp["way"]))


def keep(engine: Engine) -> Engine:
    """Record that this engine is complete. This is the last step of an installation."""
    note = {"version": engine.version, "way": engine.way, "folder": os.path.relpath(engine.folder, home())}
    write_whole(home() / STAMP, json.dumps(note) + "\n")
    return engine


FINDERS = {"path": on_path, "home": in_home}


def installed() -> Engine | None:
    """Return the installed engine: on PATH, else in the installer's folder, else in ours."""
    return found_there([]) or kept(ways())


def found_there(failures: list[tuple[str, WayError]]) -> Engine | None:
    """Return the Pulumi that the user installed, or None. The reasons for None are added to `failures`."""
    for way in ways():
        if find := FINDERS.get(way):
            try:
                return find()
            except WayError as error:
                failures.append((way, error))
    return None


def search_path(path: str) -> str:
    """Return a PATH on which the engine finds itself and its own language host. The function is idempotent.

    The engine prefers a language host on PATH to the one in its own folder. Example: a shell has the PATH of
    `eval "$(pulumi-sandbox env)"` with a built engine, and the user then installs an official CLI. Without this
    function, the shell would run the official CLI with our language host.
    """
    engine, ours = installed(), home()
    if engine is None:
        return path
    front = [] if engine.way == "path" else [str(engine.folder)]
    others = [part for part in path.split(os.pathsep) if part not in front]
    return os.pathsep.join([*front, *(part for part in others if ours not in (Path(part), *Path(part).parents))])


def ensure(say: Callable[[str], None]) -> Engine:
    """Return the engine of the first source that works. Slow steps and an untested version are reported to `say`."""
    failures: list[tuple[str, WayError]] = []
    found = found_there(failures)
    engine = found or kept(ways())
    if engine is not None or len(ways()) > 1:  # with one source, the error reports it
        for way, error in failures:
            text = f"{TITLES[way]} is not used: {error.reason}\n  hint: {error.hint}"
            if not isinstance(error, MissingError) and first_time(text):
                say(text)
    engine = engine or obtain(say, failures)
    if engine.way == "build":
        build.write_launcher(engine.folder)
    if engine.warning and first_time(engine.warning):
        say(engine.warning)
    return engine


def first_time(warning: str) -> bool:
    """Return True if this warning was not given before. One make target may run several of our commands."""
    notes = home() / "warned.json"
    if (warned := read_json(notes)).get(warning):
        return False
    with contextlib.suppress(OSError):
        write_whole(notes, json.dumps({**warned, warning: True}))
    return True


def obtain(say: Callable[[str], None], failures: list[tuple[str, WayError]]) -> Engine:
    """Install an engine. `failures` holds the reasons why no engine of the user can be used."""
    # Imported here because the import of urllib takes longer than the rest of the command.
    from pulumi_sandbox.engine import download

    makers = {"official": download.install, "build": build.build}
    making = [way for way in ways() if way in makers]
    if not making:
        raise EngineError(report(failures))
    with build.only_one(home(), say):
        engine = kept(ways())  # another process may have installed it while this one waited for the lock
        if engine is not None:
            return engine
        for way in making:
            try:
                return keep(makers[way](home(), say))
            except WayError as error:
                failures.append((way, error))
                say(f"{TITLES[way]}: {error.reason}")
    raise EngineError(report(failures))


TITLES = {
    "path": "`pulumi` on PATH",
    "home": "`pulumi` in ~/.pulumi/bin",
    "official": "the official installer",
    "build": "a build from Go modules",
}


def report(failures: list[tuple[str, WayError]]) -> str:
    lines = [f"pulumi-sandbox: found no Pulumi CLI (version {VERSION} or newer) and could not install one. Tried:"]
    for number, (way, error) in enumerate(failures, 1):
        lines += [f"  {number}. {TITLES[way]}: {error.reason}", f"     hint: {error.hint}"]
    lines.append("  Follow one of these hints, then run the same command again.")
    return "\n".join(lines)
