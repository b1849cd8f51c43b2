"""What both sides need before anything of them runs: their files, walls, and the engine."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from . import environments, git, project_file, stack_nodes, walls, worlds
from .git import Repository
from .limits import Limits
from .packages import Packages
from .packs import Pack
from .sides import Side, SideError, Surroundings
from .stack_secrets import SecretsError
from .visible import visible

_ENGINE_SEC = 900


def surroundings(
    folder: Path,
    packages: Packages,
    packs: Sequence[Pack],
    limits: Limits,
    say: Callable[[str], None],
    *,
    network: bool,
    require_walls: bool,
) -> Surroundings:
    """What both sides share, below an empty folder. SideError without an engine, WallsError without required walls."""
    scratch, own = folder / "work", folder / "own"
    scratch.mkdir()
    own.mkdir()
    engine = _engine(say)
    needed = [*walls.own_paths(), engine, *packages.readable()]
    needed += [path for pack in packs for path in pack.needed]
    build = walls.build(scratch, packages.root, needed, network=network)
    if require_walls:
        build.require()
    return Surroundings(scratch, own, build, limits, engine, say)


def side(name: str, commit: str, repository: Repository, around: Surroundings) -> Side:
    """A commit's files; nothing of it has run. SideError where they are not to be read."""
    root = around.scratch / name
    repository.export(commit, root, around.limits.disk_gib)
    made = Side(name, root, root / repository.project, around)
    try:
        _refuse(made.project, repository.project)
        made.read_files()
    except (SideError, SecretsError) as error:
        raise SideError(f"{name} ({commit[:10]}): {error}") from None
    for file in git.misnamed(made.project):
        shown = visible(file, 100)
        around.say(f"{name}: {shown} is passed over: a stack is named by letters, digits, `.`, `_` and `-`")
    return made


def _refuse(project: Path, named: Path) -> None:
    """SideError for a project's folder that is a link without an end, and for a project's file that nobody can read."""
    if environments.resolved(project) != project:
        raise SideError(f"{named} is a link, or below one")
    for name in project_file.NAMES:
        if (project / name).is_file():
            try:
                stack_nodes.loaded(project / name)
            except stack_nodes.UnfitError as error:
                raise SideError(f"{named / name} {error}") from None


def lend_cache(project: Path, world: Path) -> None:
    """What the checkout's own sandbox has read out of the SDKs: reading it again takes two seconds.

    Nothing behind a link, which the head may have put into the checkout to lead anywhere.
    """
    cache = project / ".sandbox" / "cache"
    if cache.is_dir() and cache.resolve() == cache:
        world.mkdir()
        with contextlib.suppress(OSError):  # another process may write there meanwhile; it only saves time
            worlds.copy(cache, world / "cache")


def _engine(say: Callable[[str], None]) -> Path:
    """Where the sandbox keeps the CLI; got first, with the network, where it is missing."""
    say("looking for the Pulumi CLI")
    asked = subprocess.run(
        [sys.executable, "-P", "-m", "pulumi_sandbox", "engine", "--json"],
        capture_output=True, text=True, timeout=_ENGINE_SEC, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if asked.returncode:
        raise SideError(asked.stderr.strip() or "there is no Pulumi CLI")
    return Path(json.loads(asked.stdout)["folder"])
