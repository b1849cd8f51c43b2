"""The sweep: reads the waiting and running jobs of all repositories that may use the pools' runner groups.

A sweep that could not read everything has no result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import quote

from ..model import Job, Run, RunKey, Runner
from ..ports import Refused
from . import payloads
from .payloads import Payload
from .rest_client import CONCURRENT, RestClient

# The states of runs to list in each sweep, in the order in which a run has them. A run that changes its state between
# two lists is therefore in the second list. The rare states are listed in every fifth sweep.
_EVERY_TIME = ("queued", "in_progress")
_SELDOM = ("requested", "pending", "waiting")
_SELDOM_EVERY = 5

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass
class Sweep:
    """The sweep of one organization. Its methods raise Unavailable or Refused, and one thread calls them."""

    client: RestClient
    organization: str
    groups: Collection[str]
    """Names of the pools' runner groups."""
    _found_groups: list[Payload] | None = None
    """The runner groups in this sweep."""
    _active: set[RunKey] = field(default_factory=set)
    """The runs that had not ended at the last sweep."""
    _sweeps: int = 0
    _threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(CONCURRENT, "github"), repr=False)

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)

    def begin(self) -> None:
        """Begin a new sweep."""
        self._found_groups = None
        self.client.begin_sweep()

    def runners(self) -> tuple[Runner, ...]:
        """Return the runners of the pools' groups."""

        def of_group(group: Payload) -> list[Payload]:
            return self.client.elements(f"{self._org}/runner-groups/{group['id']}/runners", "runners")

        found = self._each(of_group, self._groups())
        return payloads.read("runners", lambda: tuple(payloads.runner(each) for part in found for each in part))

    def repositories_of_groups(self) -> dict[str, list[str]]:
        """Return the repositories that each group allows."""
        groups = self._groups()
        return dict(zip((str(each["name"]) for each in groups), self._each(self._repositories_of, groups), strict=True))

    def jobs(self) -> tuple[Job, ...]:
        """Return queued, waiting and running jobs of runs that have not ended."""
        statuses = _EVERY_TIME if self._sweeps % _SELDOM_EVERY else (*_SELDOM, *_EVERY_TIME)
        groups_of = self._repositories()
        listed: dict[RunKey, bool] = {}
        for part in self._each(lambda repository: self._runs(repository, statuses), groups_of):
            listed |= part
        # An unlisted run has ended, has a rarely listed state, or changed its state while the lists were read.
        unlisted = sorted(key for key in self._active - listed.keys() if key.repository in groups_of)
        listed |= zip(unlisted, self._each(self._has_not_ended, unlisted), strict=True)
        active = sorted(key for key, is_active in listed.items() if is_active)
        found = self._each(self._jobs_of, active)
        self._active, self._sweeps = set(active), self._sweeps + 1

        def jobs() -> tuple[Job, ...]:
            return tuple(
                payloads.job(each, key.repository, groups_of[key.repository])
                for key, part in zip(active, found, strict=True)
                for each in part
                if each["status"] in payloads.WAITING_OR_RUNNING
            )

        return payloads.read("jobs", jobs)

    def run(self, key: RunKey) -> Run:
        """Return the state of a run. A deleted run counts as ended and too old for a rerun."""
        found = self.client.find(run_path(key))
        if found is None:
            return Run(key, 0, "completed", "deleted")
        jobs = self._jobs_of(key) if found.get("status") == "completed" else []
        return payloads.read(f"run {key.run_id} of {key.repository}", lambda: payloads.run(found, key, jobs))

    def group_id(self, name: str) -> int:
        """Return the id of a runner group. Raises Unavailable or Refused."""
        found = next(group for group in self._groups() if group["name"] == name)
        return payloads.read(f"the runner group {name}", lambda: int(found["id"]))

    @property
    def _org(self) -> str:
        return f"/orgs/{quote(self.organization, safe='')}/actions"

    def _groups(self) -> list[Payload]:
        if self._found_groups is None:
            self._found_groups = self._read_groups()
        return self._found_groups

    def _read_groups(self) -> list[Payload]:
        found = self.client.elements(f"{self._org}/runner-groups", "runner_groups")
        by_name = {str(group.get("name")): group for group in found}
        if missing := sorted(set(self.groups) - by_name.keys()):
            has = ", ".join(sorted(by_name)) or "none"
            raise Refused(f"{self.organization} has no runner group named {', '.join(missing)}, only {has}")
        return [by_name[name] for name in sorted(self.groups)]

    def _repositories(self) -> dict[str, frozenset[str]]:
        """Return each repository to sweep with the groups that it may use."""
        found: dict[str, frozenset[str]] = {}
        for group, names in self.repositories_of_groups().items():
            for name in names:
                found[name] = found.get(name, frozenset()) | {group}
        return found

    def _repositories_of(self, group: Payload) -> list[str]:
        """Return the names of repositories whose jobs may run in the group."""
        selected = group.get("visibility") == "selected"
        path = f"{self._org}/runner-groups/{group['id']}/repositories" if selected else "/installation/repositories"
        found = self.client.elements(path, "repositories")

        def names() -> list[str]:
            return [
                str(each["full_name"])
                for each in found
                if not each.get("archived")
                and (each["private"] or (group["visibility"] != "private" and group["allows_public_repositories"]))
            ]

        return payloads.read(f"repositories of the runner group {group.get('name')}", names)

    def _runs(self, repository: str, statuses: Sequence[str]) -> dict[RunKey, bool]:
        """Return the listed runs, each with True if it has not ended. A list may lag behind its runs."""
        found: dict[RunKey, bool] = {}
        for status in statuses:
            for each in self.client.elements(
                f"{repository_path(repository)}/actions/runs", "workflow_runs", status=status
            ):
                found[RunKey(repository, int(each["id"]))] = each.get("status") != "completed"
        return found

    def _has_not_ended(self, key: RunKey) -> bool:
        found = self.client.find(run_path(key))
        return found is not None and found.get("status") != "completed"

    def _jobs_of(self, key: RunKey) -> list[Payload]:
        return self.client.elements(f"{run_path(key)}/jobs", "jobs", filter="latest")

    def _each(self, ask: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
        """Return the result for each item, in order. After the first failure no further requests are sent."""
        futures = [self._threads.submit(ask, item) for item in items]
        wait(futures, return_when=FIRST_EXCEPTION)
        for future in futures:
            future.cancel()
        # Wait for running requests, so that none of them continues in the next sweep.
        wait(futures)
        for future in futures:
            if not future.cancelled() and (error := future.exception()):
                raise error
        return [future.result() for future in futures]


def repository_path(repository: str) -> str:
    return f"/repos/{quote(repository)}"


def run_path(key: RunKey) -> str:
    return f"{repository_path(key.repository)}/actions/runs/{key.run_id}"
