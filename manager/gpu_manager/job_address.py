"""The address of a job's page at GitHub, as an argument of a command."""

from __future__ import annotations

import re
from typing import NamedTuple

from gpu_ci.cli.output import InputError

# The address of a job's page is https://github.com/<owner>/<repository>/actions/runs/<run>/job/<job>; that of an
# attempt also has /attempts/<number>. `gh` sends its token to the host, so the host part accepts only a host name.
_URL = re.compile(
    r"https?://(?P<host>[0-9a-z][0-9a-z.-]*(?::\d+)?)/(?P<repository>[\w-]+/(?!\.\.?/)[\w.-]+)"
    r"/actions/runs/(?P<run>\d+)(?:/attempts/(?P<attempt>\d+))?(?:/jobs?/(?P<job>\d+))?/?(?:[?#].*)?",
    re.ASCII | re.IGNORECASE,
)
_EXPECTED = "https://github.com/<owner>/<repository>/actions/runs/<run>/job/<job>"


class JobAddress(NamedTuple):
    """The job or run that an address names."""

    host: str
    repository: str
    run_id: int
    attempt: int | None
    """The attempt; None for the latest one."""
    job_id: int | None
    """The job's id; None for all jobs of the run."""

    @classmethod
    def parse(cls, text: str) -> JobAddress:
        """Return the address. Raises InputError for another text."""
        found = _URL.fullmatch(text)
        if found is None:
            raise InputError("JOB_URL: is not the address of a job", got=text, expected=_EXPECTED)
        attempt, job = (None if found[name] is None else int(found[name]) for name in ("attempt", "job"))
        return cls(found["host"], found["repository"], int(found["run"]), attempt, job)

    def includes(self, repository: str, run: int, attempt: int, job: int | None = None) -> bool:
        """Return True for a job that the page shows, or without `job` for an attempt of its run."""
        is_run = repository.lower() == self.repository.lower() and run == self.run_id
        return is_run and self.attempt in (None, attempt) and (job is None or self.job_id in (None, job))
