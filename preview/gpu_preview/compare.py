"""Compares two commits: the base brought up, the head previewed against it, stack by stack."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from . import digest, exported_state, git, places, policies, project_file, walls, worlds
from .digest import DigestError
from .exported_state import ExportedState
from .git import Repository
from .judge import Files, judged
from .limits import Limits
from .packages import Packages
from .packs import Pack, PackError
from .packs import config as settings
from .packs import words as packs_words
from .report import Counts, Report, Stack, Status
from .report import Side as Named
from .sides import Side, SideError, Surroundings
from .words import clean, failure, made_by

_ENGINE_SEC = 900
_PREVIEW_FAILED = "error: preview failed"


class CompareError(Exception):
    """There is nothing to compare; the text says why."""


@dataclass(frozen=True)
class Request:
    """What is asked."""

    base: str
    head: str = "HEAD"
    stacks: Sequence[str] = ()
    """Their names; none for all that either side has a file of, or that a state is given of."""
    states: Mapping[str, Path] = field(default_factory=dict)
    """Exported states, by their stack: it is compared with that, instead of with what its base comes to."""
    packs: Sequence[Path] = ()
    """Folders of policy packs; one in the repository is taken as the base has it, and so are its settings."""
    pack_configs: Sequence[Path] = ()
    install: str = ""
    """The command that gives a side its packages, where its lock differs from the checkout's."""
    limits: Limits = field(default_factory=Limits)
    network: bool = False
    from_fork_point: bool = True
    """Whether the base is the commit that the head left it at, as GitHub compares; else its newest."""
    max_usd_month: float | None = None
    cache: Path | None = None
    """Where worlds of bases are kept between calls."""


def compare(request: Request, repository: Repository, say: Callable[[str], None]) -> Report:
    """The report. CompareError, GitError or StateError where there is nothing to compare."""
    states = exported_state.read_all(request.states)
    head = repository.commit(request.head)
    base = repository.commit(request.base)
    if request.from_fork_point:
        base = repository.fork_point(base, head)
    with (
        tempfile.TemporaryDirectory(prefix="gpu-ci-preview-", ignore_cleanup_errors=True) as folder,
        _sides(request, repository, Path(folder).resolve(), base, head, say) as (before, after, options),
    ):
        if why := project_file.moved(before.project, after.project, (before.root, after.root)):
            raise CompareError(why)
        names = chosen(request, before, after)
        exported_state.of_projects(states, {git.project_name(each.project) for each in (before, after)})
        offline = [name for name in names if name not in states]
        kept = worlds.Kept.of(request.cache if offline else None, repository.tree(base), offline)
        bases = _bring_up(offline, before, kept, say)
        return Report(
            made_by=made_by(),
            how="base" if offline else "state",
            base=Named(ref=request.base, commit=base),
            head=Named(ref=request.head, commit=head),
            stacks=tuple(
                _stack(name, states.get(name), bases.get(name, ""), before, after, options, request, say)
                for name in names
            ),
            walls=after.around.walls.told(request.limits),
        )


def _bring_up(names: Sequence[str], before: Side, kept: worlds.Kept, say: Callable[[str], None]) -> dict[str, str]:
    """Bring every stack of the base up, in one world; why one did not, by its name."""
    failed = {}
    world = before.around.scratch / "world"
    if kept.lend(world):
        say("the base is taken from the cache")
        return {}
    for name in names:
        if name not in before.files:
            continue
        try:
            before.open_secrets(name)
            say(f"{name}: bringing the base up, offline")
            finished = before.up(name)
            if finished.code or finished.broke:
                failed[name] = failure(finished, before.root)
        except SideError as error:
            failed[name] = clean(str(error))
    if not failed:
        kept.keep(world)
    return failed


@contextmanager
def _sides(
    request: Request, repository: Repository, folder: Path, base: str, head: str, say: Callable[[str], None]
) -> Iterator[tuple[Side, Side, list[str]]]:
    """Both sides, ready to run, and the options that hold the head to policies."""
    scratch, own = folder / "work", folder / "own"
    scratch.mkdir()
    own.mkdir()
    packages = Packages(repository.root, repository.root / repository.project)
    packs = [Pack(pack, repository.root) for pack in request.packs]
    engine = _engine(say)
    needed = [*walls.own_paths(), engine, packages.project / packages.folder]
    needed += [path for pack in packs for path in pack.needed]
    build = walls.build(scratch, repository.root, needed, network=request.network)
    _lend_cache(packages.project, scratch)
    around = Surroundings(scratch, own, build, request.limits, engine, say)
    sides = []
    for name, commit in (("base", base), ("head", head)):
        root = scratch / name
        repository.export(commit, root)
        side = Side(name, root, root / repository.project, around)
        try:
            side.read_files()
        except SideError as error:
            raise CompareError(f"{name} ({commit[:10]}): {error}") from None
        if git.is_project(side.project):
            try:
                side.install(packages, request.install, build.with_network())
            except SideError as error:
                raise CompareError(f"{name} ({commit[:10]}): {error}") from None
        sides.append(side)
    before, after = sides
    try:
        options = packs_words(
            [pack.at(before, after) for pack in packs],
            [settings(file, repository.root, before, after) for file in request.pack_configs],
        )
    except PackError as error:
        raise CompareError(str(error)) from None
    yield before, after, options


def _lend_cache(project: Path, scratch: Path) -> None:
    """What the checkout's own sandbox has read out of the SDKs: reading it again takes two seconds."""
    if (cache := project / ".sandbox" / "cache").is_dir():
        shutil.copytree(cache, scratch / "world" / "cache", dirs_exist_ok=True)


def _engine(say: Callable[[str], None]) -> Path:
    """Where the sandbox keeps the CLI; got first, with the network, where it is missing."""
    say("looking for the Pulumi CLI")
    asked = subprocess.run(
        [sys.executable, "-P", "-m", "pulumi_sandbox", "engine", "--json"],
        capture_output=True, text=True, timeout=_ENGINE_SEC, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if asked.returncode:
        raise CompareError(asked.stderr.strip() or "there is no Pulumi CLI")
    return Path(json.loads(asked.stdout)["folder"])


def chosen(request: Request, before: Side, after: Side) -> list[str]:
    """The stacks to compare. CompareError for one that neither side has, and where there is none."""
    known = sorted({*before.files, *after.files})
    asked = list(dict.fromkeys([*request.stacks, *request.states]))
    if unknown := [name for name in asked if name not in known]:
        listed = ", ".join(known) or "a Pulumi.<stack>.yaml"
        raise CompareError(f"neither side has the stack {', '.join(unknown)}\n  expected: {listed}")
    if not known:
        raise CompareError("neither side has a stack file\n  expected: a Pulumi.<stack>.yaml beside Pulumi.yaml")
    return asked or known


def _stack(
    name: str,
    state: ExportedState | None,
    base_failed: str,
    before: Side,
    after: Side,
    options: Sequence[str],
    request: Request,
    say: Callable[[str], None],
) -> Stack:
    """One stack, whatever goes wrong with it."""
    began = time.monotonic()
    old, new = before.files.get(name), after.files.get(name)
    file = (after if new else before).file(name)

    def told(status: Status, **more: object) -> Stack:
        common = {"stack": name, "file": file, "state": request.states[name].name if state else ""}
        if (read := new or old) and (error := more.get("error")):
            more["place"] = places.of_error(str(error), read, file)
        return Stack.model_validate({**common, "status": status, "seconds": round(time.monotonic() - began, 1), **more})

    if base_failed:
        return told(Status.BASE_FAILED, error=base_failed)
    if new is None:
        left = digest.of_state(state.text if state else before.exported(name))
        return told(Status.REMOVED, resources=left, counts=Counts.of(left))
    try:
        after.open_secrets(name)
        if state:
            say(f"{name}: taking the exported state, {state.told}")
            after.take_state(name, state)
    except SideError as error:
        return told(Status.FAILED, error=clean(str(error)))
    say(f"{name}: previewing the head")
    finished, events = after.preview(name, options)
    try:
        found = digest.parse(finished.stdout.read_text(errors="replace"))
    except DigestError:
        return told(Status.FAILED, error=failure(finished, after.root))
    broken, asked = policies.violations(events)
    # The engine fails a preview in which a mandatory policy is broken, and says no more than that it failed.
    by_policy = any(each.level == "mandatory" for each in broken) and found.errors in ([], [_PREVIEW_FAILED])
    if finished.broke or (not by_policy and (found.errors or finished.code)):
        return told(
            Status.FAILED, error=failure(finished, after.root, found), resources=found.resources, counts=found.counts
        )
    files = Files(file, after.root, str(after.project.relative_to(after.root)), old, new)
    stack = told(Status.NEW if old is None and state is None else Status.PREVIEWED, violations=broken, policies=asked)
    return judged(stack, found, files, events=events, max_usd_month=request.max_usd_month)
