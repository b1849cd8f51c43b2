"""A fake of GitHub's API for comments on pull requests, with planned errors."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

COMMIT = "1f" * 20
OTHER_COMMIT = "2e" * 20
OURS = "example-org/gpu-ci"
FORK = "somebody/gpu-ci"
WORKFLOW = ".github/workflows/preview.yaml"
# Where the pull request left its base, which has other commits since.
COMMON = "3d" * 20


def pull(number: int = 7, sha: str = COMMIT, repository: str | None = FORK, base: str = "main") -> dict[str, Any]:
    """Return a pull request from a fork."""
    theirs = {"full_name": repository, "name": "gpu-ci"} if repository else None
    return {
        "url": f"/repos/{OURS}/pulls/{number}",
        "number": number,
        "issue_url": f"/repos/{OURS}/issues/{number}",
        "head": {"ref": "more-gpus", "sha": sha, "repo": theirs},
        "base": {"ref": base, "sha": OTHER_COMMIT, "repo": {"full_name": OURS, "name": "gpu-ci"}},
    }


def comment(number: int, author: str | None, body: str) -> dict[str, Any]:
    """Return an existing comment."""
    return {"id": number, "body": body, "user": author and {"login": author, "type": "Bot"}}


@dataclass
class FakeGithub:
    """The data of the fake, the received requests, and the answers to refuse requests with."""

    pulls: list[dict[str, Any]] = field(default_factory=lambda: [pull()])
    comments: list[dict[str, Any]] = field(default_factory=list)
    refusals: list[tuple[str, int, dict[str, str], dict[str, Any]]] = field(default_factory=list)
    """Method, status, headers and body of planned answers. Each answers one request of that method."""
    asked: list[tuple[str, str]] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    page: int = 100
    url: str = ""
    files: dict[str, dict[str, str]] = field(
        default_factory=lambda: {COMMON: {WORKFLOW: "aa"}, COMMIT: {WORKFLOW: "aa"}, OTHER_COMMIT: {WORKFLOW: "bb"}}
    )
    """Git's hash of each file, by commit. The base has changed the workflow since COMMON."""
    unreadable: int = 404
    """The status for contents that the token cannot read. An App without the permission gets 403."""
    is_readable: bool = True
    """True if the token has `contents: read`. Otherwise, requests for contents of a private repository get 404
    (docs.github.com/en/rest/using-the-rest-api/troubleshooting-the-rest-api, "404 Not Found for an existing
    resource")."""

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
        for at, (refused, status, headers, document) in enumerate(self.refusals):
            if refused == method:
                del self.refusals[at]
                return status, headers, document
        split = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(split.query).items()}
        match method, split.path.split("/")[1:]:
            case "GET", ["repos", "example-org", "gpu-ci", "pulls"]:
                owner, _, branch = query["head"].partition(":")
                assert (query["state"], branch) == ("open", "more-gpus")
                of_owner = [one for one in self.pulls if (one["head"]["repo"] or {}).get("full_name", "").split("/")[0]
                            in ("", owner)]  # fmt: skip
                return 200, {}, of_owner
            case "GET", ["repos", "example-org", "gpu-ci", "issues", number, "comments"]:
                page = int(query.get("page", 1))
                shown = self.comments[(page - 1) * self.page : page * self.page]
                more = f'<{self.url}{split.path}?page={page + 1}>; rel="next"'
                headers = {"Link": more} if page * self.page < len(self.comments) else {}
                return 200, headers, [self._with_urls(one) for one in shown]
            case "POST", ["repos", "example-org", "gpu-ci", "issues", number, "comments"]:
                made = comment(1000 + len(self.comments), "github-actions[bot]", body["body"])
                self.comments.append(made)
                return 201, {}, self._with_urls(made) | {"html_url": f"https://github.com/{OURS}/pull/{number}#made"}
            case "PATCH", ["repos", "example-org", "gpu-ci", "issues", "comments", number]:
                [one] = [one for one in self.comments if one["id"] == int(number)]
                one["body"] = body["body"]
                return 200, {}, self._with_urls(one)
            # Both as in octokit/openapi: merge_base_commit of commit-comparison, sha and type of content-file.
            case "GET", ["repos", "example-org", "gpu-ci", "compare", basehead] if self.is_readable:
                assert basehead == f"{OTHER_COMMIT}...{COMMIT}"
                return 200, {}, {"merge_base_commit": {"sha": COMMON}, "files": []}
            case "GET", ["repos", "example-org", "gpu-ci", "contents", *path] if self.is_readable:
                blob = self.files.get(query["ref"], {}).get("/".join(path))
                if blob:
                    return 200, {}, {"type": "file", "path": "/".join(path), "name": path[-1], "sha": blob, "size": 1}
            case "GET", ["repos", "example-org", "gpu-ci", "compare" | "contents", *_] if not self.is_readable:
                return self.unreadable, {}, {"message": "Resource not accessible by integration"}
        return 404, {}, {"message": "Not Found"}

    def _with_urls(self, one: dict[str, Any]) -> dict[str, Any]:
        url = f"{self.url}/repos/{OURS}/issues/comments/{one['id']}"
        return {**one, "url": url, "html_url": f"https://github.com/{OURS}/pull/7#issuecomment-{one['id']}"}


@contextmanager
def serving(github: FakeGithub) -> Iterator[FakeGithub]:
    """Yield the fake with its URL, and serve until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            content = self.rfile.read(int(self.headers.get("content-length", "0")))
            github.asked.append((self.command, self.path))
            github.tokens.add(self.headers.get("authorization", ""))
            status, headers, document = github.answer(self.command, self.path, json.loads(content or b"{}"))
            answer = json.dumps(document).encode()
            self.send_response(status)
            for name, value in {**headers, "content-type": "application/json"}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST = do_PATCH = _serve  # noqa: N815 - the names are http.server's

        def log_message(self, *_: object) -> None:
            """Log nothing, because tests read the requests from the fake."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        github.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield github
        finally:
            server.shutdown()
            thread.join()
