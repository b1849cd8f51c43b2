"""Prepares both revisions before their code runs: files, isolation and the engine."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

from gpu_common.visible import visible

from .. import project_file, stack_yaml
from ..diff.stack_secrets import SecretsError
from ..engine.program import Engine, EngineError
from ..environment import venv_clone
from ..environment.packages import Packages
from ..environment.policy_packs import Pack
from ..git import repository as git
from ..git.repository import Repository
from ..isolation import bubblewrap
from ..isolation.limits import Limits
from . import base_cache
from .checkout import Checkout, CheckoutError, RunContext


def run_context(
    folder: Path,
    packages: Packages,
    packs: Sequence[Pack],
    limits: Limits,
    say: Callable[[str], None],
    *,
    network: bool,
    require_walls: bool,
) -> RunContext:
    """Create the folders of the context in an empty `folder`, and return the context that both checkouts share.

    Raises:
        CheckoutError: no engine was found.
        IsolationError: the required isolation is not available.
    """
    scratch, own = folder / "work", folder / "own"
    scratch.mkdir()
    own.mkdir()
    try:
        engine = Engine.find(say)
    except EngineError as error:
        raise CheckoutError(str(error)) from None
    needed = [*bubblewrap.own_paths(), *engine.readable, *packages.readable()]
    needed += [path for pack in packs for path in pack.needed]
    isolation = bubblewrap.build(scratch, packages.root, needed, network=network)
    if require_walls:
        isolation.require()
    return RunContext(scratch, own, isolation, limits, engine, say)


def checked_out(name: str, commit: str, repository: Repository, context: RunContext) -> Checkout:
    """Export the files of a commit without running any of its code.

    Raises:
        CheckoutError: the files are rejected.
    """
    root = context.scratch / name
    repository.export(commit, root, context.limits.disk_gib)
    checkout = Checkout(name, root, root / repository.project, context)
    try:
        _refuse(checkout.project, repository.project)
        checkout.read_files()
    except (CheckoutError, SecretsError) as error:
        raise CheckoutError(f"{name} ({commit[:10]}): {error}") from None
    for file in git.invalid_stack_files(checkout.project):
        shown = visible(file, 100)
        context.say(f"{name}: {shown} is ignored: a stack name consists of letters, digits, `.`, `_` and `-`")
    return checkout


def _refuse(project: Path, path_in_repository: Path) -> None:
    """Raise CheckoutError if the project folder is a symbolic link, or if its project file is invalid."""
    if venv_clone.resolved(project) != project:
        raise CheckoutError(f"{path_in_repository} is a symbolic link, or below one")
    for name in project_file.NAMES:
        if (project / name).is_file():
            try:
                stack_yaml.loaded(project / name)
            except stack_yaml.InvalidStackFileError as error:
                raise CheckoutError(f"{path_in_repository / name} {error}") from None


def restore_cache(project: Path, world: Path) -> None:
    """Copy the SDK schemas that the sandbox of the checkout has cached, which saves two seconds.

    Symbolic links are not followed, because the head may have added them to the checkout.
    """
    cache = project / ".sandbox" / "cache"
    if cache.is_dir() and cache.resolve() == cache:
        world.mkdir()
        with contextlib.suppress(OSError):  # another process may write there; the copy only saves time
            base_cache.copy(cache, world / "cache")
