"""Compares two commits: deploys the base, and previews the head against it, stack by stack."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from gpu_common.visible import visible

from .. import project_file, stack_yaml
from ..engine import exported_state
from ..engine.exported_state import ExportedState
from ..engine.output import clean, failure, made_by
from ..engine.program import Engine
from ..environment import policy_packs, venv_clone
from ..environment.packages import Packages
from ..environment.policy_packs import Pack
from ..errors import PreviewError
from ..git import repository as git
from ..git.repository import Repository
from ..isolation import bubblewrap, temporary
from ..isolation.limits import Limits
from ..model import Report, Side, Stack
from . import base_cache
from .checkout import Checkout, RunContext
from .one_stack import Comparison


@dataclass(frozen=True)
class Request:
    """The arguments of a comparison."""

    base: str
    head: str = "HEAD"
    stacks: Sequence[str] = ()
    """The names of the stacks; empty for all stacks with a file in either revision."""
    states: Mapping[str, Path] = field(default_factory=dict)
    """Exported states, by stack. Such a stack is compared with its state instead of the deployed base."""
    packs: Sequence[Path] = ()
    """Folders of policy packs. A pack in the repository is used in the version of the base, with its configuration."""
    pack_configs: Sequence[Path] = ()
    install: str = ""
    """The command that installs packages for a revision whose lock file differs from that of the checkout."""
    limits: Limits = field(default_factory=Limits)
    network: bool = False
    require_walls: bool = False
    """True to run nothing if a kind of isolation is not available."""
    from_fork_point: bool = True
    """True to compare with the merge base, as GitHub does; False to compare with the newest commit of the base."""
    max_usd_month: float | None = None
    cache: Path | None = None
    """The folder that keeps deployed bases between calls."""


def compare(request: Request, repository: Repository, say: Callable[[str], None]) -> Report:
    """Compare base and head, and return the report.

    Raises:
        PreviewError: the revisions cannot be compared.
    """
    with temporary.folder("gpu-ci-preview-") as folder:
        with _errors_as("base and head cannot be read"):
            revisions = _Revisions.checked_out(request, repository, folder, say)
        # Deploy the whole base before any code of the head runs, which could change the base.
        with _errors_as("the base cannot be deployed"):
            base_failed = revisions.deploy_base()
            saved = revisions.saved_base()
        head_failed = revisions.install_head()
        comparison = Comparison(
            revisions.before, revisions.after, revisions.policies, say, base_failed, head_failed, revisions.states,
            request.states, request.max_usd_month, saved,
        )  # fmt: skip
        return revisions.report(tuple(comparison.stack(name) for name in revisions.names))


@dataclass(frozen=True)
class _Revisions:
    """Both revisions as files that are ready to run, and the stacks to compare."""

    request: Request
    repository: Repository
    commits: tuple[str, str]
    packages: Packages
    policies: policy_packs.PolicySelection
    before: Checkout
    after: Checkout
    names: Sequence[str]
    states: Mapping[str, ExportedState]

    @classmethod
    def checked_out(
        cls, request: Request, repository: Repository, folder: Path, say: Callable[[str], None]
    ) -> _Revisions:
        """Export both commits into an empty folder, and prepare their isolation. No code of them runs."""
        states = exported_state.read_all(request.states)
        head = repository.commit(request.head)
        tip = base = repository.commit(request.base)
        if request.from_fork_point:
            base = repository.fork_point(base, head)
        packages = Packages(repository.root, repository.root / repository.project)
        # The newest policies of the base: at the merge base, a policy that the head violates may not exist yet.
        policies = folder / "policies"
        if request.packs:
            repository.export(tip, policies, request.limits.disk_gib)
        packs = policy_packs.selected_packs(request.packs, request.pack_configs, repository.root, policies)
        for revision, commit in (("base", tip), ("head", head)):
            policy_packs.check_policy_files(packs, partial(repository.kind, commit), revision)
        context = run_context(folder, packages, packs, request, say)
        selection = policy_packs.selection(packs)
        before = checked_out("base", base, repository, context)
        # The code of the head can read the files of the base, and cannot change them.
        read_only = [before.root, *([policies] if packs else [])]
        head_context = replace(context, isolated_by=context.isolated_by.reading_only(*read_only))
        after = checked_out("head", head, repository, head_context)
        if why := project_file.why_not_comparable(before.project, after.project, (before.root, after.root)):
            raise PreviewError(why)
        names = selected_stacks(request, before, after)
        exported_state.check_projects(states, {project_file.name(each.project) for each in (before, after)})
        return cls(request, repository, (base, head), packages, selection, before, after, names, states)

    def deploy_base(self) -> dict[str, str]:
        """Deploy every stack of the base in one sandbox. Return the error messages of failed stacks, by name."""
        before, say, failed = self.before, self.before.context.say, dict[str, str]()
        offline = [name for name in self.names if name not in self.states]
        cached = base_cache.CacheEntry.of(
            self.request.cache if offline else None, self.repository.tree(self.commits[0]), offline,
            self.repository.root, before.context.engine.version,
        )  # fmt: skip
        deployed = [name for name in offline if name in before.files]
        world = before.context.scratch / "world"
        if not deployed:
            return failed
        if cached.restore_into(world, say):
            say("the base is taken from the cache")
            return failed
        # The schemas that the sandbox of the checkout has cached are used only if no commit can have put them there.
        sandbox = self.repository.project / ".sandbox"
        if not any(self.repository.kind(commit, sandbox) for commit in self.commits):
            restore_schemas(self.packages.project, world)
        try:
            before.install(self.packages, self.request.install)
        except PreviewError as error:
            raise PreviewError(f"base: {error}") from None
        for name in deployed:
            try:
                before.set_placeholders(name)
                say(f"{name}: deploying the base, offline")
                finished = before.up(name)
                if finished.code or finished.exceeded_limit:
                    failed[name] = failure(finished, before.root)
            except PreviewError as error:
                failed[name] = clean(str(error))
        if not failed:
            cached.save(world, say)
        return failed

    def saved_base(self) -> base_cache.Snapshot | None:
        """Return a copy of the deployed base: code of the head can change the state that a later stack reads."""
        is_only_run = len(self.names) == 1 and not self.packages.why_own_packages(self.after.root)
        context = self.before.context
        return None if is_only_run else base_cache.Snapshot.of(context.scratch, context.own / "deployed base")

    def install_head(self) -> str:
        """Install the packages of the head. Return why they cannot be installed, or ""."""
        try:
            with _errors_as("its packages cannot be installed"):
                self.after.install(self.packages, self.request.install, self.before)
        except PreviewError as error:
            return clean(str(error))
        return ""

    def report(self, stacks: tuple[Stack, ...]) -> Report:
        installed_with = (*self.before.installed_with, *self.after.installed_with)
        return Report(
            made_by=made_by(),
            how="state" if all(name in self.states for name in self.names) else "base",
            base=Side(ref=self.request.base, commit=self.commits[0]),
            head=Side(ref=self.request.head, commit=self.commits[1]),
            stacks=stacks,
            walls=self.after.context.isolated_by.described(self.request.limits, installed_with),
        )


@contextmanager
def _errors_as(text: str) -> Iterator[None]:
    """Turn an unforeseen error into a PreviewError: the files of the head are untrusted and can cause any error."""
    try:
        yield
    except PreviewError:
        raise
    except Exception as error:
        bug = f"which is a bug in gpu-ci: {type(error).__name__}: {visible(str(error), 300)}"
        raise PreviewError(clean(f"{text}, {bug}")) from None


def selected_stacks(request: Request, before: Checkout, after: Checkout) -> list[str]:
    """Return the names of the stacks to compare.

    Raises:
        PreviewError: neither revision has a requested stack, or any stack.
    """
    known = sorted({*before.files, *after.files})
    requested = list(dict.fromkeys([*request.stacks, *request.states]))
    if unknown := [name for name in requested if name not in known]:
        listed = ", ".join(known) or "a Pulumi.<stack>.yaml"
        raise PreviewError(f"neither base nor head has the stack {', '.join(unknown)}\n  expected: {listed}")
    if not known:
        raise PreviewError(
            "neither base nor head has a stack file\n  expected: a Pulumi.<stack>.yaml in the folder of Pulumi.yaml"
        )
    return requested or known


def run_context(
    folder: Path,
    packages: Packages,
    packs: Sequence[Pack],
    request: Request,
    say: Callable[[str], None],
) -> RunContext:
    """Create the folders of the context in an empty `folder`, and return the context that both checkouts share.

    Raises:
        PreviewError: no engine was found, or the required isolation is not available.
    """
    scratch, own = folder / "work", folder / "own"
    scratch.mkdir()
    own.mkdir()
    engine = Engine.find(say)
    needed = [*bubblewrap.own_paths(), *engine.readable, *packages.readable()]
    needed += [path for pack in packs for path in pack.needed]
    isolation = bubblewrap.build(scratch, packages.root, needed, network=request.network)
    if request.require_walls:
        isolation.require()
    return RunContext(scratch, own, isolation, request.limits, engine, say)


def checked_out(name: str, commit: str, repository: Repository, context: RunContext) -> Checkout:
    """Export the files of a commit without running any of its code.

    Raises:
        PreviewError: the files are rejected.
    """
    root = context.scratch / name
    repository.export(commit, root, context.limits.disk_gib)
    checkout = Checkout(name, root, root / repository.project, context)
    try:
        _refuse(checkout.project, repository.project)
        checkout.read_files()
    except PreviewError as error:
        raise PreviewError(f"{name} ({commit[:10]}): {error}") from None
    for file in git.invalid_stack_files(checkout.project):
        shown = visible(file, 100)
        context.say(f"{name}: {shown} is ignored: a stack name consists of letters, digits, `.`, `_` and `-`")
    return checkout


def _refuse(project: Path, path_in_repository: Path) -> None:
    """Raise PreviewError if the project folder is a symbolic link, or if its project file is invalid."""
    if venv_clone.resolved(project) != project:
        raise PreviewError(f"{path_in_repository} is a symbolic link, or below one")
    for name in project_file.NAMES:
        if (project / name).is_file():
            try:
                stack_yaml.loaded(project / name)
            except stack_yaml.InvalidStackFileError as error:
                raise PreviewError(f"{path_in_repository / name} {error}") from None


def restore_schemas(project: Path, world: Path) -> None:
    """Copy the SDK schemas that the sandbox of the checkout has cached, which saves two seconds.

    Symbolic links are not followed, because the head may have added them to the checkout.
    """
    cache = project / ".sandbox" / "cache"
    if cache.is_dir() and cache.resolve() == cache:
        world.mkdir()
        with contextlib.suppress(OSError):  # another process may write there; the copy only saves time
            base_cache.copy(cache, world / "cache")
