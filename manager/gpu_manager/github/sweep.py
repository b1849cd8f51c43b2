"""The sweep: reads the waiting and running jobs of all repositories that may use the pools' runner groups.

A repository that cannot be read does not stop the others: its last jobs stay for a while.

With runner scale sets, most sweeps list no repository. They read the runs that messages name, until these have ended.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar, cast
from urllib.parse import quote

from ..model import Job, Run, RunKey, Runner
from ..ports import Refused
from . import approvals, payloads
from .payloads import Group, ListedRun
from .rest_client import CONCURRENT, MOST_FILTERED, FailedAnswer, RestClient
from .scale_sets import Hints

# The states of runs to list in each sweep, in the order in which a run has them. A run that changes its state between
# two lists is therefore in the second list. The rare states are listed in every fifth sweep.
_EVERY_TIME = ("queued", "in_progress")
_SELDOM = ("requested", "pending", "waiting")
_SELDOM_EVERY = 5
# The most runs of one repository whose jobs a sweep reads, and the number of their jobs after which it reads no further
# run. Without them, one repository could use up the requests and the memory of all.
MOST_RUNS = 1000
MOST_JOBS = 10_000
# The number of sweeps in which the last jobs of a repository count that cannot be read.
_KEPT_SWEEPS = 10
# With runner scale sets: the seconds between two sweeps of all repositories, which find the jobs of lost messages, and
# those after which a job has no message.
_ALL_EVERY_SEC, _NO_MESSAGE_SEC = 600.0, 60.0
# The sweeps for which answers are kept: those between two of all repositories, even if most have a message.
_KEPT_ANSWERS = 300
# A list has at most MOST_FILTERED runs, the newest ones. Older runs are in lists with a limit on `created`.
_MOST_LISTS = 10

_Item = TypeVar("_Item")
_Key = TypeVar("_Key", str, RunKey)
_Result = TypeVar("_Result")


class Jobs(NamedTuple):
    """The jobs of a sweep."""

    jobs: tuple[Job, ...]
    unread: frozenset[str]
    """The repositories that could not be read."""
    problems: tuple[str, ...]


@dataclass
class Sweep:
    """The sweep of one organization. Its methods raise Unavailable or Refused, and one thread calls them."""

    client: RestClient
    organization: str
    groups: Collection[str]
    """Names of the pools' runner groups."""
    hints: Hints | None = None
    """The messages of runner scale sets; None to list all repositories each time."""
    _found_groups: list[Group] | None = None
    """The runner groups in this sweep."""
    _active: set[RunKey] = field(default_factory=set)
    """The runs whose jobs the next sweep reads: those that the last one has read, or those of scale sets."""
    _others: dict[RunKey, tuple[Job, ...]] = field(default_factory=dict)
    """The jobs of runs that no scale set serves, as the last list of their repository had them."""
    _due_at: float = 0.0
    """When all repositories are listed again."""
    _unlisted: frozenset[str] = frozenset()
    """The repositories that the last sweep could not read, which the next one lists."""
    _last: dict[str, tuple[int, tuple[Job, ...]]] = field(default_factory=dict)
    """The last jobs of each repository, with the number of their sweep."""
    _sweeps: int = 0
    _threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(CONCURRENT, "github"), repr=False)

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)

    def begin(self) -> None:
        """Begin a new sweep."""
        self._found_groups = None
        self.client.begin_sweep(_KEPT_ANSWERS if self.hints else 10)

    def runners(self) -> tuple[Runner, ...]:
        """Return the runners of the pools' groups."""

        def of_group(group: Group) -> list[Runner]:
            return self.client.elements(f"{self._org}/runner-groups/{group.id}/runners", "runners", payloads.runner)

        return tuple(each for part in self._each(of_group, self._groups()) for each in part)

    def repositories_of_groups(self) -> dict[str, list[str]]:
        """Return the repositories that each group allows."""
        groups = self._groups()
        return dict(zip((each.name for each in groups), self._each(self._repositories_of, groups), strict=True))

    def jobs(self) -> Jobs:
        """Return queued, waiting and running jobs of runs that have not ended."""
        every_time = self.hints is None and self._sweeps % _SELDOM_EVERY
        statuses = _EVERY_TIME if every_time else (*_SELDOM, *_EVERY_TIME)
        if self.hints:
            runs, lost = self.hints.take()
            self._active |= runs
            self._due_at = 0.0 if lost else self._due_at
        groups_of = self._repositories()
        began = self.client.unix()
        due = self.hints is None or began >= self._due_at
        names = groups_of if due else sorted(self._unlisted & groups_of.keys())
        failed: dict[str, str] = {}
        listed: dict[RunKey, ListedRun] = {}
        for part in self._settled(lambda name: self._runs(name, statuses), names, failed).values():
            listed |= part
        # An unlisted run has ended, has a rarely listed state, or changed its state while the lists were read.
        unlisted = sorted(key for key in self._active - listed.keys() if key.repository in groups_of)
        listed |= self._settled(self._run, unlisted, failed)
        notes: list[str] = []
        counts: Counter[str] = Counter()
        found = self._settled(lambda key: self._open_jobs(key, counts), _oldest(listed, notes), failed)
        notes += [
            f"{name}: has more than {MOST_JOBS} jobs; this sweep reads no further run of it"
            for name, count in counts.items()
            if count >= MOST_JOBS
        ]
        self._sweeps += 1
        allowed = {key: [each for each in groups_of[key.repository] if each.allows(listed[key])] for key in found}
        asked = [
            key
            for key, of_run in found.items()
            if any(group.allows_public_repositories for group in allowed[key])
            and any(job.status == "queued" for job in of_run)
        ]
        by_commit = {listed[key].approved_as: key for key in asked}
        answers = self._each(lambda key: approvals.refusal(self.client, key, listed[key]), by_commit.values())
        of_commit = dict(zip(by_commit, answers, strict=True))
        refusals = {key: of_commit[listed[key].approved_as] for key in asked}
        complete: dict[RunKey, tuple[Job, ...]] = {}
        for key, of_run in found.items():
            run, groups = listed[key], frozenset(each.name for each in allowed[key])
            complete[key] = tuple(
                replace(job, runner_groups=groups, event=run.event, branch=run.head_branch, refusal=refusals.get(key))
                for job in of_run
            )
        followed = self._followed(complete, notes, began)
        self._active = followed | {key for key in self._active if key.repository in failed}
        kept = {key: of_run for key, of_run in self._others.items() if key.repository in groups_of.keys() - set(names)}
        self._others = {key: of_run for key, of_run in (kept | complete).items() if key not in followed}
        self._unlisted = frozenset(failed)
        if due:
            self._due_at = began + _ALL_EVERY_SEC
        jobs: dict[str, list[Job]] = {name: [] for name in groups_of}
        for key in followed:
            jobs[key.repository] += complete[key]
        read = {name: (self._sweeps, tuple(part)) for name, part in jobs.items() if name not in failed}
        self._last = {
            name: last
            for name in groups_of
            if (last := read.get(name) or self._last.get(name)) and self._sweeps - last[0] < _KEPT_SWEEPS
        }
        problems = (*(f"{name}: not read: {problem}" for name, problem in sorted(failed.items())), *notes)
        parts = [*(part for _, part in self._last.values()), *self._others.values()]
        return Jobs(tuple(job for part in parts for job in part), frozenset(failed), problems)

    def _followed(self, found: Mapping[RunKey, tuple[Job, ...]], notes: list[str], began: float) -> set[RunKey]:
        """Return the runs that each sweep reads until they end. A run with a job of a scale set needs a message."""
        if not (hints := self.hints):
            return set(found)
        served = {key: [job for job in jobs if hints.serves(job)] for key, jobs in found.items()}
        is_regular = 0 < self._due_at <= began
        notes += [
            f"{key.repository}: no message of a runner scale set has named run {key.run_id}, whose job waits"
            for key, jobs in served.items()
            if is_regular and key not in self._active
            if any(job.status == "queued" and job.created_unix < began - _NO_MESSAGE_SEC for job in jobs)
        ]
        return {key for key, jobs in served.items() if jobs or key in self._active}

    def run(self, key: RunKey) -> Run:
        """Return the state of a run. A deleted run counts as ended and too old for a rerun."""
        found = self.client.find(run_path(key))
        if found is None:
            return Run(key, 0, "completed", "deleted")
        jobs = self._jobs_of(key) if found.get("status") == "completed" else []
        failed = tuple(each.key.job_id if isinstance(each, Job) else each for each in jobs if each is not None)
        return payloads.read(f"run {key.run_id} of {key.repository}", lambda: payloads.run(found, key, failed))

    def group(self, name: str) -> Group:
        """Return a runner group. Raises Unavailable or Refused."""
        return next(group for group in self._groups() if group.name == name)

    @property
    def _org(self) -> str:
        return f"/orgs/{quote(self.organization, safe='')}/actions"

    def _groups(self) -> list[Group]:
        if self._found_groups is None:
            self._found_groups = self._read_groups()
        return self._found_groups

    def _read_groups(self) -> list[Group]:
        found = self.client.elements(f"{self._org}/runner-groups", "runner_groups", payloads.group)
        by_name = {group.name: group for group in found}
        if missing := sorted(set(self.groups) - by_name.keys()):
            has = ", ".join(sorted(by_name)) or "none"
            raise Refused(f"{self.organization} has no runner group named {', '.join(missing)}, only {has}")
        return [by_name[name] for name in sorted(self.groups)]

    def _repositories(self) -> dict[str, list[Group]]:
        """Return each repository to sweep with the groups that it may use."""
        allowed = self.repositories_of_groups()
        found: dict[str, list[Group]] = {}
        for group in self._groups():
            for name in allowed[group.name]:
                found.setdefault(name, []).append(group)
        return found

    def _repositories_of(self, group: Group) -> list[str]:
        """Return the names of repositories whose jobs may run in the group."""
        selected = group.visibility == "selected"
        path = f"{self._org}/runner-groups/{group.id}/repositories" if selected else "/installation/repositories"
        return [
            each.full_name
            for each in self.client.elements(path, "repositories", payloads.repository)
            if not each.archived
            and (each.private or (group.visibility != "private" and group.allows_public_repositories))
        ]

    def _runs(self, repository: str, statuses: Sequence[str]) -> dict[RunKey, ListedRun]:
        """Return the listed runs. A list may lag behind its runs."""
        found: dict[RunKey, ListedRun] = {}
        for status in statuses:
            limit: dict[str, str | int] = {}
            for _ in range(_MOST_LISTS):
                part = self.client.elements(
                    f"{repository_path(repository)}/actions/runs",
                    "workflow_runs",
                    lambda each: (RunKey(repository, int(each["id"])), payloads.listed_run(each, repository)),
                    status=status,
                    **limit,
                )
                found |= part
                if len(part) < MOST_FILTERED:
                    break
                limit = {"created": f"<={min(run.created for _, run in part)}"}
        return found

    def _run(self, key: RunKey) -> ListedRun | None:
        found = self.client.find(run_path(key))
        if found is None:
            return None
        return payloads.read(
            f"run {key.run_id} of {key.repository}", lambda: payloads.listed_run(found, key.repository)
        )

    def _open_jobs(self, key: RunKey, counts: Counter[str]) -> tuple[Job, ...]:
        """Return the waiting and running jobs of a run, and count all its jobs for its repository."""
        if counts[key.repository] >= MOST_JOBS:
            return ()
        jobs = self._jobs_of(key)
        counts[key.repository] += len(jobs)
        return tuple(each for each in jobs if isinstance(each, Job))

    def _jobs_of(self, key: RunKey) -> list[Job | int | None]:
        return self.client.elements(
            f"{run_path(key)}/jobs", "jobs", lambda each: payloads.job(each, key.repository), filter="latest"
        )

    def _settled(
        self, ask: Callable[[_Key], _Result | None], keys: Iterable[_Key], failed: dict[str, str]
    ) -> dict[_Key, _Result]:
        """Return the answers by key, without those that are None.

        Each key is a repository or a run. A repository that fails is added to `failed`, and is not asked any more.
        """

        def settled(key: _Key) -> _Result | None:
            repository = key if isinstance(key, str) else key.repository
            if repository in failed:
                return None
            try:
                return ask(key)
            except (FailedAnswer, Refused) as error:
                failed.setdefault(repository, str(error))
                return None

        keys = list(keys)
        answers = zip(keys, self._each(settled, keys), strict=True)
        return {key: answer for key, answer in answers if answer is not None}

    def _each(self, ask: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
        """Return the result for each item, in order. After the first failure no further requests are sent."""
        has_failed = threading.Event()

        def unless_failed(item: _Item) -> _Result | None:
            if has_failed.is_set():
                return None
            try:
                return ask(item)
            except BaseException:
                has_failed.set()
                raise

        futures = [self._threads.submit(unless_failed, item) for item in items]
        # Wait for all, so that no request continues in the next sweep.
        wait(futures)
        for future in futures:
            if error := future.exception():
                raise error
        return [cast("_Result", future.result()) for future in futures]


def _oldest(listed: Mapping[RunKey, ListedRun], notes: list[str]) -> list[RunKey]:
    """Return the runs whose jobs to read: of each repository its own, those in progress, and then the oldest.

    Runs of forks come last, because a fork may have any number of workflows and jobs.
    """
    by_repository: dict[str, list[RunKey]] = {}

    def order(key: RunKey) -> tuple[bool, bool, str, RunKey]:
        run = listed[key]
        return not run.is_own, not run.in_progress, run.created, key

    for key in sorted(listed, key=order):
        if not listed[key].ended:
            by_repository.setdefault(key.repository, []).append(key)
    notes += [
        f"{name}: has {len(keys)} active runs; this sweep reads the oldest {MOST_RUNS}"
        for name, keys in by_repository.items()
        if len(keys) > MOST_RUNS
    ]
    return [key for keys in by_repository.values() for key in keys[:MOST_RUNS]]


def repository_path(repository: str) -> str:
    return f"/repos/{quote(repository)}"


def run_path(key: RunKey) -> str:
    return f"{repository_path(key.repository)}/actions/runs/{key.run_id}"
