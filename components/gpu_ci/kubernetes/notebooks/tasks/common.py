"""What the tasks of a run share: the storage, GitHub, and what a task does when it cannot go on.

The tasks run from a ConfigMap in the team's image. Every value comes from the environment. A secret leaves the
environment when this module is imported, so no process that a task starts has it.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import obstore
from obstore.store import LocalStore, from_url

PIPELINE, RUN, REPOSITORY, STORE = (os.environ[each] for each in ("PIPELINE", "RUN", "REPOSITORY", "STORE"))
SECRETS = {
    name: os.environ.pop(name, "")
    for name in ("GITHUB_APP_ID", "GITHUB_INSTALLATION_ID", "GITHUB_PRIVATE_KEY", "NOTIFY_URL")
}
CONTEXT = f"gpu-ci/notebooks/{PIPELINE}"
"""The context of the commit status."""
PROBLEM_CHARACTERS = 4000
MIB = 2**20
MOST_MIB = 64
"""The largest file that is read into memory. A notebook needs 8 times its size, and a task without GPUs has 2 GiB."""
_CONTENT_TYPES = {".html": "text/html; charset=utf-8", ".json": "application/json", ".xml": "text/xml"}
_PAUSES_SEC = (1, 4)
"""The pauses before a request to GitHub is repeated, after no answer or an error of the server."""


class Fault(Exception):  # noqa: N818 - not an error of this program
    """A task cannot go on. The text is for the reader of the report."""


def run(task: Callable[[], None]) -> None:
    """Run a task. A fault ends it with exit code 1, and is stored for the report."""
    try:
        task()
    except Exception as error:
        text = redact(explain(error))
        with contextlib.suppress(Exception):  # The storage can be the fault.
            put(problem_path(), text[:PROBLEM_CHARACTERS].encode())
        sys.exit(f"gpu-ci: {text}")


def explain(error: Exception) -> str:
    """Return the text of a fault, or the first line of another error."""
    return str(error) if isinstance(error, Fault) else f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def redact(text: str) -> str:
    """Return a text without the secrets of this task. IDs are none, and the rest of a secret with an ID would stay."""
    secrets = {secret for name, secret in SECRETS.items() if secret and not name.endswith("_ID")}
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "(secret)")
    return text


def log(text: str) -> None:
    """Print a line into the log of the task."""
    print(redact(text), flush=True)  # noqa: T201


def problem_path(task: str = "", notebook: str = "") -> str:
    """Return the path of a task's fault; by default of this task."""
    task, notebook = task or Path(sys.argv[0]).stem, notebook or os.environ.get("NOTEBOOK", "")
    return f"problems/{task}/{notebook}.txt" if notebook else f"problems/{task}.txt"


def folder(notebook: str) -> str:
    """Return the folder of a notebook's files in the folder of the run."""
    return f"notebooks/{notebook.removesuffix('.ipynb')}"


def now() -> str:
    """Return the time in UTC, in the form of ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def seconds_since(time_of: str) -> float:
    """Return the seconds since a time, which the clock of another node may have measured."""
    passed = datetime.now(UTC) - datetime.fromisoformat(time_of)
    return round(max(0.0, passed.total_seconds()), 1)


def result(name: str, value: str) -> None:
    """Write a result of the task."""
    Path(os.environ[f"RESULT_{name.upper()}"]).write_text(value, encoding="utf-8")


def problems(statuses: Sequence[str], passed: int, failed: int) -> list[str]:
    """Return why a run fails, or nothing.

    Args:
        statuses: The status of each notebook.
        passed: The number of passed tests.
        failed: The number of failed tests.
    """
    bad = [status for status in statuses if status != "passed"]
    found = [f"{len(bad)} of {len(statuses)} notebooks did not pass ({', '.join(sorted(set(bad)))})"] if bad else []
    if failed:
        found.append(f"{failed} of {passed + failed} tests failed")
    elif not passed:
        found.append("there was no test: expected one that pytest finds and does not skip")
    return found


# ------------------------------------------------------------------------------------------------ storage


@cache
def _open() -> Any:
    """Return the storage. Its client keeps connections and the login of the cloud for the next file."""
    if STORE.startswith("file://"):
        return LocalStore(unquote(urlsplit(STORE).path), mkdir=True)
    return from_url(STORE)


def put(path: str, content: bytes | Path, of_run: bool = True) -> None:
    """Store a file whole or not at all, over an older one of the same path."""
    kind = _CONTENT_TYPES.get(Path(path).suffix)
    # A folder has no content types. A bucket without one offers a page as a download.
    attributes = {"attributes": {"Content-Type": kind}} if kind and not STORE.startswith("file://") else {}
    obstore.put(_open(), _key(path, of_run), content, **attributes)


def put_json(path: str, value: object, of_run: bool = True) -> None:
    """Store a value as JSON."""
    put(path, json.dumps(value, indent=1, ensure_ascii=False).encode(), of_run)


def get(path: str, of_run: bool = True) -> bytes | None:
    """Return the content of a file; None if it is missing. Raises Fault for a file that does not fit into memory."""
    try:
        found = obstore.get(_open(), _key(path, of_run))
    except FileNotFoundError:
        return None
    if (size := found.meta["size"]) > MOST_MIB * MIB:
        raise Fault(
            f"the file is too large\n  path: {path}\n  got: {size // MIB} MiB\n  expected: {MOST_MIB} MiB or less"
        )
    return bytes(found.bytes())


def save(path: str, target: Path) -> bool:
    """Write a file of the run into a local one of any size. Return False if it is missing."""
    try:
        found = obstore.get(_open(), _key(path, True))
    except FileNotFoundError:
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as file:
        for chunk in found.stream():
            file.write(chunk)
    return True


def exists(path: str) -> bool:
    """Return True if the folder of the run has a file."""
    try:
        obstore.head(_open(), _key(path, True))
    except FileNotFoundError:
        return False
    return True


def get_json(path: str, of_run: bool = True) -> Any:
    """Return the value of a file with JSON; None if it is missing."""
    content = get(path, of_run)
    return None if content is None else json.loads(content)


def _key(path: str, of_run: bool) -> str:
    return f"{PIPELINE}/{REPOSITORY}/{RUN}/{path}" if of_run else f"{PIPELINE}/{REPOSITORY}/{path}"


def pack(source: Path, path: str) -> None:
    """Store a folder as an archive, without the data of git."""
    archive = source.with_suffix(".tar.gz")
    with tarfile.open(archive, "w:gz", compresslevel=3) as tar:
        tar.add(source, ".", filter=lambda each: None if each.name == "./.git" else each)
    put(path, archive)


def unpack(path: str) -> Path:
    """Return a new folder with the files of a stored archive."""
    target = Path(path.partition(".")[0]).resolve()
    archive = target.with_suffix(".tar.gz")
    if not save(path, archive):
        raise Fault(f"a file of the run is missing\n  path: {path}")
    with tarfile.open(archive) as tar:  # A task of this run packed it. A repository may have links that leave it.
        tar.extractall(target, filter="tar")
    return target


# ------------------------------------------------------------------------------------------------- GitHub


def token(repository: str, **permissions: str) -> str:
    """Return a token of the GitHub App for one repository; empty if the pipeline has no App.

    Args:
        repository: OWNER/NAME.
        permissions: The permissions of the token, such as contents="read".
    """
    if not SECRETS["GITHUB_APP_ID"]:
        return ""
    import jwt

    began = int(time.time())
    claims = {"iss": SECRETS["GITHUB_APP_ID"], "iat": began - 60, "exp": began + 540}
    signed = jwt.encode(claims, SECRETS["GITHUB_PRIVATE_KEY"], algorithm="RS256")
    path = f"app/installations/{SECRETS['GITHUB_INSTALLATION_ID']}/access_tokens"
    answer = _post(path, signed, {"repositories": [repository.partition("/")[2]], "permissions": permissions})
    SECRETS[f"token of {repository}"] = answer["token"]
    return str(answer["token"])


def set_status(commit: str, state: str, description: str, url: str) -> None:
    """Set the status of a commit, if the pipeline has an App."""
    if access := token(REPOSITORY, statuses="write"):
        body = {"state": state, "context": CONTEXT, "description": description[:140]}
        _post(f"repos/{REPOSITORY}/statuses/{commit}", access, body | ({"target_url": url} if url else {}))


def _post(path: str, access: str, body: object) -> Any:
    headers = {"Authorization": f"Bearer {access}", "Accept": "application/vnd.github+json"}
    url = f"{os.environ['GITHUB_API']}/{path}"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)  # noqa: S310 - the component's address
    pauses = iter(_PAUSES_SEC)
    while True:
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
                return json.load(answer)
        except OSError as error:
            code = error.code if isinstance(error, urllib.error.HTTPError) else 0
            pause = None if 0 < code < 500 else next(pauses, None)
            if pause is None:
                raise Fault(
                    f"GitHub does not take a request\n  path: {path}\n  got: {error}\n"
                    "  hint: check the App's installation on the repository, and its permissions"
                ) from None
        time.sleep(pause)


def clone(repository: str, revision: str, target: Path) -> str:
    """Get the files of one revision, without history and submodules, and return its commit."""
    server = os.environ["GITHUB_URL"]
    access = token(repository, contents="read")
    # By the environment, because other processes can read arguments, and git would store a setting in the clone.
    basic = base64.b64encode(f"x-access-token:{access}".encode()).decode()
    SECRETS[f"login of {repository}"] = basic if access else ""
    settings = {
        "GIT_CONFIG_COUNT": "1" if access else "0",
        "GIT_CONFIG_KEY_0": f"http.{server}/.extraHeader",
        "GIT_CONFIG_VALUE_0": f"Authorization: Basic {basic}",
        "GIT_TERMINAL_PROMPT": "0",
    }

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(target), *arguments]
        done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Fault(
                f"git {arguments[0]} fails\n  path: {repository}\n  got: {done.stderr.strip()}\n"
                f"  expected: the revision {revision} on {server}"
            )
        return done.stdout.strip()

    target.mkdir()
    git("init", "--quiet", "--template=")
    git("fetch", "--quiet", "--depth=1", "--no-tags", "--", f"{server}/{repository}.git", revision)
    git("checkout", "--quiet", "--detach", "FETCH_HEAD")
    return git("rev-parse", "HEAD")


def report_url() -> str:
    """Return the address of the run's page for a browser; empty if it has none."""
    base = os.environ["REPORT_URL"]
    return base and f"{base}{_key('index.html', True)}"
