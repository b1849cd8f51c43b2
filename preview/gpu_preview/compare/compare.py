"""Compares two commits: deploys the base, and previews the head against it, stack by stack."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from gpu_common.visible import visible

from .. import pulumi_files
from ..engine import digest, events
from ..engine.digest import DigestError, DigestTooLargeError
from ..engine.program import Engine, clean, failure, made_by
from ..environment import policy_packs
from ..environment.packages import Packages
from ..environment.policy_packs import PolicySelection
from ..environment.virtualenv import resolved
from ..errors import PreviewError
from ..git.repository import Repository
from ..isolation import bubblewrap, files
from ..isolation.limits import Limits
from ..json_text import TooMuchError
from ..model import Counts, Report, Side, Stack, Status
from ..report.analysis import analyze
from .checkout import Checkout, RunContext, Snapshot

_PREVIEW_FAILED = "error: preview failed"


@dataclass(frozen=True)
class Request:
    """The arguments of a comparison."""

    base: str
    head: str = "HEAD"
    stacks: Sequence[str] = ()
    """The names of the stacks; empty for all stacks with a file in either revision."""
    packs: Sequence[Path] = ()
    """Folders of policy packs. A pack in the repository is used in the version of the base, with its settings."""
    pack_settings: Sequence[Path] = ()
    """The settings files of the first packs."""
    install: str = ""
    """The command that installs packages for a revision whose lock file differs from that of the checkout."""
    limits: Limits = field(default_factory=Limits)
    network: bool = False
    require_walls: bool = False
    """True to run nothing if a kind of isolation is not available."""
    from_fork_point: bool = True
    """True to compare with the merge base, as GitHub does; False to compare with the newest commit of the base."""
    max_usd_month: float | None = None


def compare(request: Request, repository: Repository, say: Callable[[str], None]) -> Report:
    """Compare base and head, and return the report.

    Raises:
        PreviewError: the revisions cannot be compared.
    """
    with files.temporary_folder("gpu-ci-preview-") as folder:
        with _errors_as("base and head cannot be read"):
            comparison = _checked_out(request, repository, folder, say)
        # Deploy the whole base before any code of the head runs, which could change the base.
        with _errors_as("the base cannot be deployed"):
            comparison.deploy_base()
        comparison.install_head()
        return comparison.report(tuple(comparison.stack(name) for name in comparison.names))


@dataclass
class Comparison:
    """Both revisions as files that are ready to run, and the stacks to compare."""

    request: Request
    before: Checkout
    after: Checkout
    policies: PolicySelection
    packages: Packages
    commits: tuple[str, str] = ("", "")
    names: Sequence[str] = ()
    base_failed: dict[str, str] = field(default_factory=dict)
    """The error messages of stacks that the base could not deploy, by name."""
    head_failed: str = ""
    """The reason why no stack of the head can run, or ""."""
    saved: Snapshot | None = None
    """A copy of the deployed base; None if no other code of the head runs before the only stack."""

    def deploy_base(self) -> None:
        """Deploy every stack of the base in one sandbox, and save its state."""
        before, context = self.before, self.before.context
        deployed = [name for name in self.names if name in before.files]
        try:
            if deployed:
                before.install(self.packages, self.request.install)
        except PreviewError as error:
            raise PreviewError(f"base: {error}") from None
        for name in deployed:
            try:
                before.set_placeholders(name)
                context.say(f"{name}: deploying the base, offline")
                finished = before.up(name)
                if finished.code or finished.exceeded_limit:
                    self.base_failed[name] = failure(finished, before.root)
            except PreviewError as error:
                self.base_failed[name] = clean(str(error))
        # Code of the head can change the state that a later stack reads.
        if len(self.names) > 1 or self.packages.why_own_packages(self.after.root):
            self.saved = Snapshot.of(context.scratch, context.own / "deployed base")

    def install_head(self) -> None:
        """Install the packages of the head."""
        try:
            with _errors_as("its packages cannot be installed"):
                self.after.install(self.packages, self.request.install, self.before)
        except PreviewError as error:
            self.head_failed = clean(str(error))

    def report(self, stacks: tuple[Stack, ...]) -> Report:
        installed_with = (*self.before.installed_with, *self.after.installed_with)
        return Report(
            made_by=made_by(),
            how="base",
            base=Side(ref=self.request.base, commit=self.commits[0]),
            head=Side(ref=self.request.head, commit=self.commits[1]),
            stacks=stacks,
            walls=self.after.context.isolated_by.described(self.request.limits, installed_with),
        )

    def stack(self, name: str) -> Stack:
        """Return the report on a stack."""
        began = time.monotonic()
        try:
            found = self._stack(name)
        except Exception as error:
            file = (self.after if name in self.after.files else self.before).file(name)
            text = f"the report on this stack failed, which is a bug in gpu-ci: {type(error).__name__}: {error}"
            found = Stack(stack=name, file=file, status=Status.FAILED, error=clean(text))
        return found.model_copy(update={"seconds": round(time.monotonic() - began, 1)})

    def _stack(self, name: str) -> Stack:
        before, after = self.before, self.after
        old, new = before.files.get(name), after.files.get(name)
        file = (after if new else before).file(name)

        def stack_result(status: Status, **more: object) -> Stack:
            return Stack.model_validate({"stack": name, "file": file, "status": status, **more})

        if name in self.base_failed:
            return stack_result(Status.BASE_FAILED, error=self.base_failed[name])
        try:
            if self.saved:
                self.saved.restore()
        except PreviewError as error:
            return stack_result(Status.FAILED, error=clean(str(error)))
        if new is None:
            remaining = digest.of_state(before.exported(name))
            return stack_result(Status.REMOVED, resources=remaining, counts=Counts.of(remaining))
        if self.head_failed:
            return stack_result(Status.FAILED, error=self.head_failed)
        try:
            after.set_placeholders(name)
        except PreviewError as error:
            return stack_result(Status.FAILED, error=clean(str(error)))
        after.context.say(f"{name}: previewing the head")
        finished, event_log = after.preview(name, self.policies.options)
        try:
            found = digest.read(finished.stdout)
        except DigestTooLargeError as error:
            return stack_result(Status.FAILED, error=clean(f"the engine's digest {error}"))
        except DigestError:
            return stack_result(Status.FAILED, error=failure(finished, after.root))
        try:
            violations, packs_sentence = events.violations(event_log)
        except TooMuchError as error:
            return stack_result(Status.FAILED, error=clean(f"the engine's event log exceeds the size limit: {error}"))
        # If a mandatory policy is violated, the engine fails the preview with an error that has no details.
        by_policy = any(each.level == "mandatory" for each in violations) and found.errors in ([], [_PREVIEW_FAILED])
        if finished.exceeded_limit or (not by_policy and (found.errors or finished.code)):
            error_text = failure(finished, after.root, found)
            return stack_result(Status.FAILED, error=error_text, resources=found.resources, counts=found.counts)
        status = Status.NEW if old is None else Status.PREVIEWED
        stack = stack_result(status, violations=violations, policies=self.policies.sentence(packs_sentence))
        return analyze(stack, found, old, new, event_log, self.request.max_usd_month)


def _checked_out(request: Request, repository: Repository, folder: Path, say: Callable[[str], None]) -> Comparison:
    """Export both commits into an empty folder, and prepare their isolation. No code of them runs.

    Raises:
        PreviewError: files are rejected, no engine was found, or the required isolation is not available.
    """
    head = repository.commit(request.head)
    tip = base = repository.commit(request.base)
    if request.from_fork_point:
        base = repository.fork_point(base, head)
    packages = Packages(repository.root, repository.root / repository.project)
    # The newest policies of the base: at the merge base, a policy that the head violates may not exist yet.
    policies = folder / "policies"
    if request.packs:
        repository.export(tip, policies, request.limits.disk_gib)
    packs = policy_packs.selected_packs(request.packs, request.pack_settings, repository.root, policies)
    for revision, commit in (("base", tip), ("head", head)):
        policy_packs.check_policy_files(packs, partial(repository.kind, commit), revision)
    scratch, own = folder / "work", folder / "own"
    scratch.mkdir()
    own.mkdir()
    engine = Engine.find(say)
    needed = [*bubblewrap.own_paths(), *engine.readable, *packages.readable()]
    needed += [path for pack in packs for path in pack.needed]
    isolation = bubblewrap.build(scratch, packages.root, needed, network=request.network)
    if request.require_walls:
        isolation.require()
    context = RunContext(scratch, own, isolation, request.limits, engine, say)
    selection = policy_packs.selection(packs)
    before = _exported("base", base, repository, context)
    # The code of the head can read the files of the base, and cannot change them.
    read_only = [before.root, *([policies] if packs else [])]
    after = _exported("head", head, repository, replace(context, isolated_by=isolation.reading_only(*read_only)))
    if why := pulumi_files.why_not_comparable(before.project, after.project):
        raise PreviewError(why)
    names = selected_stacks(request, before, after)
    return Comparison(request, before, after, selection, packages, (base, head), names)


def _exported(name: str, commit: str, repository: Repository, context: RunContext) -> Checkout:
    """Export the files of a commit without running any of its code.

    Raises:
        PreviewError: the files are rejected.
    """
    root = context.scratch / name
    repository.export(commit, root, context.limits.disk_gib)
    checkout = Checkout(name, root, root / repository.project, context)
    try:
        for file in (checkout.project / each for each in pulumi_files.NAMES):
            if resolved(checkout.project) == checkout.project and file.is_file():
                pulumi_files.loaded(file)
        checkout.read_files()
    except pulumi_files.InvalidStackFileError as error:
        raise PreviewError(f"{name} ({commit[:10]}): {file.relative_to(root)} {error}") from None
    except PreviewError as error:
        raise PreviewError(f"{name} ({commit[:10]}): {error}") from None
    return checkout


def selected_stacks(request: Request, before: Checkout, after: Checkout) -> list[str]:
    """Return the names of the stacks to compare.

    Raises:
        PreviewError: neither revision has a requested stack, or any stack.
    """
    known = sorted({*before.files, *after.files})
    requested = list(dict.fromkeys(request.stacks))
    if unknown := [name for name in requested if name not in known]:
        listed = ", ".join(known) or "a Pulumi.<stack>.yaml"
        raise PreviewError(f"neither base nor head has the stack {', '.join(unknown)}\n  expected: {listed}")
    if not known:
        raise PreviewError(
            "neither base nor head has a stack file\n  expected: a Pulumi.<stack>.yaml in the folder of Pulumi.yaml"
        )
    return requested or known


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
