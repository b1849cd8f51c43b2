"""Compares two commits: deploys the base, and previews the head against it, stack by stack."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from gpu_common.visible import visible

from .. import project_file
from ..engine import exported_state
from ..engine.exported_state import StateError
from ..engine.output import clean, failure, made_by
from ..environment import policy_packs
from ..environment.packages import Packages, PackagesError
from ..environment.policy_packs import PackError
from ..git.repository import GitError, Repository
from ..isolation import temporary
from ..isolation.bubblewrap import IsolationError
from ..isolation.limits import Limits
from ..model import Report, Side
from . import base_cache
from .base_cache import CacheError
from .checkout import Checkout, CheckoutError
from .one_stack import Comparison
from .preparation import checked_out, restore_cache, run_context


class CompareError(Exception):
    """Raised if the revisions cannot be compared; the message has the reason."""


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
        CompareError, GitError, StateError, IsolationError: the revisions cannot be compared.
    """
    states = exported_state.read_all(request.states)
    head = repository.commit(request.head)
    tip = base = repository.commit(request.base)
    if request.from_fork_point:
        base = repository.fork_point(base, head)
    with temporary.folder("gpu-ci-preview-") as folder:
        packages = Packages(repository.root, repository.root / repository.project)
        try:
            # The newest policies of the base: at the merge base, a policy that the head violates may not exist yet.
            policies = folder / "policies"
            if request.packs:
                repository.export(tip, policies, request.limits.disk_gib)
            packs = policy_packs.selected_packs(request.packs, request.pack_configs, repository.root, policies)
            for revision, commit in (("base", tip), ("head", head)):
                policy_packs.check_policy_files(packs, partial(repository.kind, commit), revision)
            context = run_context(
                folder, packages, packs, request.limits, say,
                network=request.network, require_walls=request.require_walls,
            )  # fmt: skip
            selection = policy_packs.selection(packs)
            before = checked_out("base", base, repository, context)
            # The code of the head can read the files of the base, and cannot change them.
            read_only = [before.root, *([policies] if packs else [])]
            head_context = replace(context, isolated_by=context.isolated_by.reading_only(*read_only))
            after = checked_out("head", head, repository, head_context)
            if why := project_file.why_not_comparable(before.project, after.project, (before.root, after.root)):
                raise CompareError(why)
            names = selected_stacks(request, before, after)
            exported_state.check_projects(states, {project_file.name(each.project) for each in (before, after)})
            offline = [name for name in names if name not in states]
            cache = request.cache if offline else None
            cached = base_cache.CacheEntry.of(
                cache, repository.tree(base), offline, repository.root, context.engine.version
            )
        except (CheckoutError, PackError, CacheError) as error:
            raise CompareError(str(error)) from None
        except (CompareError, GitError, StateError, IsolationError):
            raise
        except Exception as error:  # the files of the head are untrusted and can cause an unforeseen error
            raise CompareError(f"base and head cannot be read, {_bug_text(error)}") from None
        # Deploy the whole base first: the code of the head could change the base. The schemas that the sandbox of the
        # checkout has cached are used only if no commit can have put them there.
        trusts_sandbox = not any(repository.kind(commit, repository.project / ".sandbox") for commit in (base, head))
        try:
            base_failed = _deploy_base(
                offline, before, cached, packages, request.install, say, trusts_sandbox=trusts_sandbox
            )
            # An earlier stack of the head, or its package installation, can change the state that a later stack reads.
            is_only_run = len(names) == 1 and not packages.why_own_packages(after.root)
            saved = None if is_only_run else base_cache.Snapshot.of(context.scratch, context.own / "deployed base")
        except (CacheError, PackagesError) as error:
            raise CompareError(str(error)) from None
        except CompareError:
            raise
        except Exception as error:
            raise CompareError(f"the base cannot be deployed, {_bug_text(error)}") from None
        head_failed = ""
        try:
            after.install(packages, request.install, before)
        except CheckoutError as error:
            head_failed = clean(str(error))
        except Exception as error:
            head_failed = f"its packages cannot be installed, {_bug_text(error)}"
        comparison = Comparison(
            before,
            after,
            selection,
            say,
            base_failed,
            head_failed,
            states,
            request.states,
            request.max_usd_month,
            saved,
        )
        return Report(
            made_by=made_by(),
            how="base" if offline else "state",
            base=Side(ref=request.base, commit=base),
            head=Side(ref=request.head, commit=head),
            stacks=tuple(comparison.stack(name) for name in names),
            walls=head_context.isolated_by.described(request.limits, (*before.installed_with, *after.installed_with)),
        )


def _deploy_base(
    names: Sequence[str],
    before: Checkout,
    cached: base_cache.CacheEntry,
    packages: Packages,
    install: str,
    say: Callable[[str], None],
    *,
    trusts_sandbox: bool,
) -> dict[str, str]:
    """Deploy every stack of the base in one sandbox. Return the error messages of failed stacks, by name."""
    failed: dict[str, str] = {}
    if not any(name in before.files for name in names):
        return failed
    world = before.context.scratch / "world"
    if cached.restore_into(world, say):
        say("the base is taken from the cache")
        return {}
    if trusts_sandbox:
        restore_cache(packages.project, world)
    try:
        before.install(packages, install)
    except CheckoutError as error:
        raise CompareError(f"base: {error}") from None
    for name in names:
        if name not in before.files:
            continue
        try:
            before.set_placeholders(name)
            say(f"{name}: deploying the base, offline")
            finished = before.up(name)
            if finished.code or finished.exceeded_limit:
                failed[name] = failure(finished, before.root)
        except CheckoutError as error:
            failed[name] = clean(str(error))
    if not failed:
        cached.save(world, say)
    return failed


def _bug_text(error: Exception) -> str:
    return clean(f"which is a bug in gpu-ci: {type(error).__name__}: {visible(str(error), 300)}")


def selected_stacks(request: Request, before: Checkout, after: Checkout) -> list[str]:
    """Return the names of the stacks to compare.

    Raises:
        CompareError: neither revision has a requested stack, or any stack.
    """
    known = sorted({*before.files, *after.files})
    requested = list(dict.fromkeys([*request.stacks, *request.states]))
    if unknown := [name for name in requested if name not in known]:
        listed = ", ".join(known) or "a Pulumi.<stack>.yaml"
        raise CompareError(f"neither base nor head has the stack {', '.join(unknown)}\n  expected: {listed}")
    if not known:
        raise CompareError(
            "neither base nor head has a stack file\n  expected: a Pulumi.<stack>.yaml in the folder of Pulumi.yaml"
        )
    return requested or known
