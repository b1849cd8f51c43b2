"""Finds the Pulumi CLI, or gets one: from PATH, from ~/.pulumi/bin, from the official installer, or built from pinned
Go modules."""

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
    """Where engines of our own are kept, behind any link: bubblewrap shows an isolated process no link."""
    checkout = Path(__file__).resolve().parents[3]
    if chosen := os.environ.get("PULUMI_SANDBOX_ENGINE_DIR"):
        place = Path(chosen)
    elif (checkout / "tools" / "engine" / "go.mod").is_file():
        place = checkout / ".engine"
    else:
        place = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pulumi-sandbox" / "engine"
    return place.resolve()


def ways() -> tuple[str, ...]:
    """The ways to try, in order."""
    forced = os.environ.get("PULUMI_SANDBOX_ENGINE")
    if not forced:
        return WAYS
    if forced not in WAYS:
        raise EngineError(
            f"PULUMI_SANDBOX_ENGINE: unknown way to an engine\n  got: {forced}\n  expected: one of {', '.join(WAYS)}\n"
            "  hint: unset it and all of them are tried"
        )
    return (forced,)


def on_path() -> Engine:
    """The first way: `pulumi` on PATH, with the Python language host that belongs to it."""
    found = next(executables_on_path(), None)
    if found is None:
        raise MissingError("there is no `pulumi` on PATH", "install Pulumi, or put it on PATH")
    return distribution(found, "path")


def in_home() -> Engine:
    """The second way: the default folder of Pulumi's installer, for a shell that does not have it on PATH."""
    found = Path("/", os.environ.get("HOME", ""), ".pulumi", "bin", "pulumi")  # install.sh asks $HOME, too
    if not os.access(found, os.X_OK):
        raise MissingError(f"there is no {found}", "install Pulumi (https://www.pulumi.com/docs/install)")
    return distribution(found, "home")


def distribution(executable: Path, way: str) -> Engine:
    """An official Pulumi that is whole: the CLI, and its Python language host in the same folder."""
    real = executable.resolve()
    folders = [real.parent] if real.name == "pulumi" else []
    folder = next((each for each in (*folders, executable.parent) if os.access(each / HOST, os.X_OK)), None)
    if folder is None:
        raise WayError(f"{executable} has no {HOST} beside it", "reinstall Pulumi; its Python language host is missing")
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
    """Every `pulumi` on PATH that is not ours; `eval "$(pulumi-sandbox env)"` puts ours there too."""
    ours = home()
    for part in os.environ.get("PATH", os.defpath).split(os.pathsep):
        # An empty part of PATH is the folder that a command is called in, and whoever wrote its files has the CLI then.
        candidate = Path(part) / "pulumi"
        if (
            candidate.is_absolute()
            and candidate.is_file()
            and os.access(candidate, os.X_OK)
            and ours not in candidate.parents
        ):
            yield candidate


def known_version(executable: Path) -> str:
    """The CLI's version, asked once for each file: starting it takes longer than all else `pulumi-sandbox` does."""
    if is_shim(executable):
        return ask_version(executable)
    status = executable.resolve().stat()
    key = f"{executable.resolve()} {status.st_size} {status.st_mtime_ns}"
    notes = home() / "versions.json"
    known = read_json(notes)
    if key not in known:
        known = {**known, key: ask_version(executable)}
        with contextlib.suppress(OSError):  # a folder that is read-only costs time, not the answer
            write_whole(notes, json.dumps(known))
    return str(known[key])


def notes() -> list[Path]:
    """The files in which it is noted which CLI is there: an isolated process finds it by them."""
    return [file for file in (home() / STAMP, home() / "versions.json", home() / "warned.json") if file.is_file()]


def is_shim(file: Path) -> bool:
    """Whether a version manager starts the CLI by this file: a script, or a link to the manager.

    Which CLI it starts may change while the file stays the same.
    """
    try:
        with file.open("rb") as opened:
            return opened.read(2) == b"#!" or file.resolve().name != file.name
    except OSError:  # it may be run and not be read
        return True


def kept(allowed: tuple[str, ...]) -> Engine | None:
    """The engine an earlier call put into our folder, if it is whole and of the pinned version."""
    stamp = read_json(home() / STAMP)
    folder = home() / str(stamp.get("folder", "."))
    whole = all(os.access(folder / name, os.X_OK) for name in ("pulumi", HOST))
    if stamp.get("version") != VERSION or stamp.get("way") not in allowed or not whole:
        return None
    return Engine(folder, VERSION, str(stamp["way"]))


def keep(engine: Engine) -> Engine:
    """Note, last of all, that this engine is whole."""
    note = {"version": engine.version, "way": engine.way, "folder": os.path.relpath(engine.folder, home())}
    write_whole(home() / STAMP, json.dumps(note) + "\n")
    return engine


FINDERS = {"path": on_path, "home": in_home}


def installed() -> Engine | None:
    """The engine that is there already: on PATH, else in the installer's folder, else in ours."""
    return found_there([]) or kept(ways())


def found_there(failures: list[tuple[str, WayError]]) -> Engine | None:
    """A Pulumi that the user installed; `failures` gets the reasons where there is none."""
    for way in ways():
        if find := FINDERS.get(way):
            try:
                return find()
            except WayError as error:
                failures.append((way, error))
    return None


def search_path(path: str) -> str:
    """PATH on which the engine finds itself and its own language host; doing it twice changes nothing.

    The engine prefers a host on PATH to the one beside it. A shell that has `eval "$(pulumi-sandbox env)"` of a built
    engine, and got an official one since, would run the official CLI with our host.
    """
    engine, ours = installed(), home()
    if engine is None:
        return path
    front = [] if engine.way == "path" else [str(engine.folder)]
    others = [part for part in path.split(os.pathsep) if part not in front]
    return os.pathsep.join([*front, *(part for part in others if ours not in (Path(part), *Path(part).parents))])


def ensure(say: Callable[[str], None]) -> Engine:
    """The engine, got by the first way that works. `say` is told what takes long, and of a version not tested."""
    failures: list[tuple[str, WayError]] = []
    found = found_there(failures)
    engine = found or kept(ways())
    if engine is not None or len(ways()) > 1:  # else the error says it
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
    """Whether this warning has not been given before: one command of make runs several of ours."""
    notes = home() / "warned.json"
    if (warned := read_json(notes)).get(warning):
        return False
    with contextlib.suppress(OSError):
        write_whole(notes, json.dumps({**warned, warning: True}))
    return True


def obtain(say: Callable[[str], None], failures: list[tuple[str, WayError]]) -> Engine:
    """Get an engine where there is none; `failures` says why none that the user installed can be used."""
    # Imported here: urllib takes longer than all that `pulumi-sandbox` does besides.
    from pulumi_sandbox.engine import download

    makers = {"official": download.install, "build": build.build}
    making = [way for way in ways() if way in makers]
    if not making:
        raise EngineError(report(failures))
    with build.only_one(home(), say):
        engine = kept(ways())  # another call may have got it while this one waited
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
    "build": "building it from Go modules",
}


def report(failures: list[tuple[str, WayError]]) -> str:
    lines = [f"pulumi-sandbox: no Pulumi CLI (version {VERSION} or newer) could be had. Tried, in this order:"]
    for number, (way, error) in enumerate(failures, 1):
        lines += [f"  {number}. {TITLES[way]}: {error.reason}", f"     hint: {error.hint}"]
    lines.append("  One of these is enough. Then run the same command again; it goes on from what is already there.")
    return "\n".join(lines)
