"""Find the Pulumi CLI, which this package calls the engine, or install one.

An engine can come from four sources, which are tried in this order:

- path: `pulumi` on PATH
- home: `pulumi` in ~/.pulumi/bin
- official: Pulumi's archive, compared with a pinned checksum
- build: a build from pinned Go modules

The last two are installed into a folder of pulumi-sandbox (`home`). engine.json there records the installed engine.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path

from pulumi_sandbox.engine.model import (
    HOST,
    VERSION,
    Engine,
    EngineError,
    SourceError,
    ask_version,
    new_enough,
    parse_version,
    read_json,
    write_launcher,
    write_whole,
)

RECORD_FILE = "engine.json"
SOURCES = ("path", "home", "official", "build")


def home() -> Path:
    """Return the folder of the engines that pulumi-sandbox installed.

    Symbolic links are resolved, because bubblewrap does not show them to an isolated process.
    """
    checkout = Path(__file__).resolve().parents[3]
    if configured := os.environ.get("PULUMI_SANDBOX_ENGINE_DIR"):
        folder = Path(configured)
    elif (checkout / "tools" / "engine" / "go.mod").is_file():
        folder = checkout / ".engine"
    else:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pulumi-sandbox" / "engine"
    return folder.resolve()


def sources_to_try() -> tuple[str, ...]:
    """Return the sources of a CLI to try, in order."""
    forced = os.environ.get("PULUMI_SANDBOX_ENGINE")
    if not forced:
        return SOURCES
    if forced not in SOURCES:
        raise EngineError(
            f"PULUMI_SANDBOX_ENGINE: unknown source of the Pulumi CLI\n  got: {forced}\n"
            f"  expected: one of {', '.join(SOURCES)}\n"
            "  hint: unset PULUMI_SANDBOX_ENGINE to try all of them"
        )
    return (forced,)


def official_engine(executable: Path, source: str) -> Engine:
    """Check that an official Pulumi has its Python language host in the CLI's folder and a supported version."""
    resolved = executable.resolve()
    folders = [resolved.parent] if resolved.name == "pulumi" else []
    folder = next((one for one in (*folders, executable.parent) if os.access(one / HOST, os.X_OK)), None)
    if folder is None:
        raise SourceError(f"{HOST} is missing from the folder of {executable}", "reinstall Pulumi")
    version = cached_version(executable)
    if not new_enough(version):
        raise SourceError(f"{executable} is version {version or 'unknown'}", version_hint(version))
    return Engine(folder, version, source)


def version_hint(version: str) -> str:
    found, tested = parse_version(version), parse_version(VERSION)
    if found is None:
        return "reinstall Pulumi; `pulumi version` prints no version"
    if tested is not None and found[0] > tested[0]:
        return f"install Pulumi {tested[0]}; PULUMI_SANDBOX_ENGINE=official installs {VERSION} for the sandbox alone"
    return f"upgrade it to {VERSION} or newer"


def users_executable(source: str) -> Path | None:
    """Return the `pulumi` on PATH, or in the default folder of Pulumi's installer, which may be missing from PATH.

    `eval "$(pulumi-sandbox env)"` puts the one of pulumi-sandbox on PATH, too, which does not count.
    """
    on_path = map(Path, os.environ.get("PATH", os.defpath).split(os.pathsep))
    in_home = Path("/", os.environ.get("HOME", ""), ".pulumi", "bin")  # install.sh reads $HOME, too
    for folder in on_path if source == "path" else [in_home]:
        found = folder / "pulumi"
        # An empty entry of PATH is the current folder. The author of any checkout could put a `pulumi` there.
        if found.is_absolute() and found.is_file() and os.access(found, os.X_OK) and home() not in found.parents:
            return found
    return None


def cached_version(executable: Path) -> str:
    """Return the CLI's version from a cache by file, because starting the CLI is the slowest step of a command."""
    if is_shim(executable):
        return ask_version(executable)
    status = executable.resolve().stat()
    key = f"{executable.resolve()} {status.st_size} {status.st_mtime_ns}"
    cache_file = home() / "versions.json"
    versions = read_json(cache_file)
    if key not in versions:
        versions = {**versions, key: ask_version(executable)}
        with contextlib.suppress(OSError):  # a read-only folder only makes the next call slower
            write_whole(cache_file, json.dumps(versions))
    return str(versions[key])


def record_files() -> list[Path]:
    """Return the files that record the installed CLI. An isolated process needs them to find it."""
    return [file for file in (home() / RECORD_FILE, home() / "versions.json", home() / "warned.json") if file.is_file()]


def is_shim(file: Path) -> bool:
    """Return True if the file is a version manager's shim: a script, or a symbolic link to the manager.

    A shim may start another CLI version while the file stays the same.
    """
    try:
        with file.open("rb") as opened:
            return opened.read(2) == b"#!" or file.resolve().name != file.name
    except OSError:  # the file may be executable and not readable
        return True


def recorded_engine(allowed: tuple[str, ...]) -> Engine | None:
    """Return the engine that an earlier call installed, if it is complete and of the pinned version."""
    record = read_json(home() / RECORD_FILE)
    folder = home() / str(record.get("folder", "."))
    is_complete = all(os.access(folder / name, os.X_OK) for name in ("pulumi", HOST))
    if record.get("version") != VERSION or record.get("way") not in allowed or not is_complete:
        return None
    return Engine(folder, VERSION, str(record["way"]))


def record_engine(engine: Engine) -> Engine:
    """Record that this engine is complete. This is the last step of an installation."""
    record = {"version": engine.version, "way": engine.source, "folder": os.path.relpath(engine.folder, home())}
    write_whole(home() / RECORD_FILE, json.dumps(record) + "\n")
    return engine


def installed() -> Engine | None:
    """Return the installed engine: on PATH, else in the installer's folder, else in ours."""
    return users_engine([]) or recorded_engine(sources_to_try())


def users_engine(failures: list[tuple[str, SourceError]]) -> Engine | None:
    """Return the Pulumi that the user installed, or None. The reasons not to use one are added to `failures`."""
    for source in sources_to_try():
        if source in ("path", "home") and (found := users_executable(source)):
            try:
                return official_engine(found, source)
            except SourceError as error:
                failures.append((source, error))
    return None


def search_path(path: str) -> str:
    """Return a PATH on which the engine finds itself and its own language host. The function is idempotent.

    The engine prefers a language host on PATH to the one in its own folder. Example: a shell has the PATH of
    `eval "$(pulumi-sandbox env)"` with a built engine, and the user then installs an official CLI. Without this
    function, the shell would run the official CLI with our language host.
    """
    engine, own_folder = installed(), home()
    if engine is None:
        return path
    first_entries = [] if engine.source == "path" else [str(engine.folder)]
    entries = [part for part in path.split(os.pathsep) if part not in first_entries]
    return os.pathsep.join(
        [*first_entries, *(part for part in entries if own_folder not in (Path(part), *Path(part).parents))]
    )


def ensure(say: Callable[[str], None]) -> Engine:
    """Return the engine of the first source that works. Slow steps and an untested version are reported to `say`."""
    failures: list[tuple[str, SourceError]] = []
    found = users_engine(failures)
    engine = found or recorded_engine(sources_to_try())
    if engine is not None or len(sources_to_try()) > 1:  # with one source, the error reports it
        for source, error in failures:
            text = f"{SOURCE_TITLES[source]} is not used: {error.reason}\n  hint: {error.hint}"
            if first_time(text):
                say(text)
    engine = engine or install(say, failures)
    if engine.source == "build":
        write_launcher(engine.folder)
    if engine.warning and first_time(engine.warning):
        say(engine.warning)
    return engine


def first_time(warning: str) -> bool:
    """Return True if this warning was not given before. One make target may run several of our commands."""
    warned_file = home() / "warned.json"
    if (warned := read_json(warned_file)).get(warning):
        return False
    with contextlib.suppress(OSError):
        write_whole(warned_file, json.dumps({**warned, warning: True}))
    return True


def install(say: Callable[[str], None], failures: list[tuple[str, SourceError]]) -> Engine:
    """Install an engine. `failures` holds the reasons why no engine of the user can be used."""
    # Imported here because the import of urllib takes longer than the rest of the command.
    from pulumi_sandbox.engine import install as installation

    installers = {"official": installation.install_archive, "build": installation.build}
    installable = [source for source in sources_to_try() if source in installers]
    if not installable:
        raise EngineError(report(failures))
    with installation.installation_lock(home(), say):
        engine = recorded_engine(
            sources_to_try()
        )  # another process may have installed it while this one waited for the lock
        if engine is not None:
            return engine
        for source in installable:
            try:
                return record_engine(installers[source](home(), say))
            except SourceError as error:
                failures.append((source, error))
                say(f"{SOURCE_TITLES[source]}: {error.reason}")
    raise EngineError(report(failures))


SOURCE_TITLES = {
    "path": "`pulumi` on PATH",
    "home": "`pulumi` in ~/.pulumi/bin",
    "official": "Pulumi's archive",
    "build": "a build from Go modules",
}


def report(failures: list[tuple[str, SourceError]]) -> str:
    lines = [f"pulumi-sandbox: found no Pulumi CLI (version {VERSION} or newer) and could not install one"]
    for number, (source, error) in enumerate(failures, 1):
        lines += [f"  {number}. {SOURCE_TITLES[source]}: {error.reason}", f"     hint: {error.hint}"]
    lines.append("  hint: install Pulumi (https://www.pulumi.com/docs/install), then run the same command again")
    return "\n".join(lines)
