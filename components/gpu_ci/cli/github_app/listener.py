"""A web server on this computer that shows the page of the Apps and receives the browser back from GitHub."""

from __future__ import annotations

import html
import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import click
import jinja2

from gpu_ci.cli.github_app.apps import App, ask
from gpu_ci.cli.output import InputError

_POLL_SEC = 0.5
_CREATED = 201


@dataclass(frozen=True)
class NewApp:
    """An App that GitHub has just created."""

    id: int
    slug: str
    owner: str
    pem: bytes = field(repr=False)


def convert(api_url: str, code: str) -> NewApp:
    """Exchange the code that GitHub gave to the browser. It is valid for one hour, and once.

    docs.github.com/en/rest/apps/apps, "Create a GitHub App from a manifest".

    Raises:
        InputError: GitHub refused the code or could not be reached.
    """
    status, answer = ask(api_url, f"/app-manifests/{quote(code, safe='')}/conversions", method="POST")
    if status != _CREATED:
        raise InputError(
            "GitHub did not create the App from its code",
            got=f"{status} {answer.get('message', '')}".strip(),
            expected="a code that is less than one hour old and was not used",
            hint="create the App again on the page",
        )
    return NewApp(int(answer["id"]), str(answer["slug"]), str(answer["owner"]["login"]), str(answer["pem"]).encode())


@dataclass
class Registration:
    """One App of the stack, and what is known of it at GitHub."""

    app: App
    state: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    """The random text that GitHub returns with the code. Another site cannot send a code without it."""
    created: NewApp | None = None
    installation: int = 0


@dataclass
class Flow:
    """The registrations of all Apps, in the order of the stack file."""

    organization: str
    stack: str
    web_url: str
    address: str
    """The address of the listener, such as http://127.0.0.1:8765."""
    registrations: Sequence[Registration]
    convert: Callable[[str], NewApp]
    """Exchanges a code for the App."""
    store: Callable[[str, bytes], None]
    """Stores a key in the secret of this name."""
    installation: Callable[[NewApp], int]
    """Returns the number of the App's installation in the organization, or 0."""
    keep: Callable[[Registration], None]
    """Keeps the numbers of an App that was created or installed."""
    report: Callable[[str], None]
    """Prints one line of progress."""
    path: str = field(default_factory=lambda: f"/{secrets.token_urlsafe(16)}/", repr=False)
    """The path of the page. It is random, so that no other user and no other page can open it."""

    @property
    def is_complete(self) -> bool:
        return all(each.installation for each in self.registrations)

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"{self.address}{self.path}"

    def find_installations(self) -> None:
        """Ask GitHub for the installations of the Apps that are created and not known to be installed."""
        for each in self.registrations:
            if each.created and not each.installation and (number := self.installation(each.created)):
                each.installation = number
                self.keep(each)
                self.report(f"{each.app.key}: installed as {number}")

    def page(self) -> str:
        """Return the page with a button for each App that is missing."""
        environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
        template = environment.from_string((files(__package__) / "page.html.j2").read_text(encoding="utf-8"))
        done = sum(1 for each in self.registrations if each.installation)
        return template.render(
            organization=self.organization, done=done, apps=[self._shown(each) for each in self.registrations]
        )

    def _shown(self, each: Registration) -> dict[str, Any]:
        manifest = each.app.manifest(f"gpu-ci {each.app.key} {self.stack} {self.organization}", self.url)
        return {
            "key": each.app.key,
            "duty": each.app.duty,
            "secret": each.app.secret,
            "permissions": manifest["default_permissions"],
            "id": each.created.id if each.created else 0,
            "installation": each.installation,
            "install_url": f"{self.web_url}/apps/{each.created.slug}/installations/new" if each.created else "",
            "action": f"{self.web_url}/organizations/{self.organization}/settings/apps/new?state={each.state}",
            "manifest": json.dumps(manifest),
        }

    def receive(self, path: str) -> None:
        """Take a request of the browser that comes back from GitHub.

        Raises:
            click.ClickException: The request is wrong, or GitHub or Google refused it.
        """
        url = urlsplit(path)
        values = {name: found[0] for name, found in parse_qs(url.query).items()}
        each = self.routes[url.path]
        if not secrets.compare_digest(values.get("state", ""), each.state):
            raise click.ClickException("the request does not come from this page: another state")
        if each.created:
            return
        created = self.convert(values.get("code", ""))
        if created.owner.casefold() != self.organization.casefold():
            raise click.ClickException(f"GitHub created the App for {created.owner}, not for {self.organization}")
        self.store(each.app.secret, created.pem)
        each.created = created
        self.keep(each)
        self.report(f"{each.app.key}: created as App {created.id}; its key is in {each.app.secret}")

    @property
    def routes(self) -> dict[str, Registration]:
        """The Apps by the path to which GitHub sends the browser back."""
        return {f"{self.path}created/{each.app.key}": each for each in self.registrations}


def server(port: int) -> HTTPServer:
    """Return a server on 127.0.0.1 only. Port 0 takes a free port. Raises OSError if the port is taken."""
    return HTTPServer(("127.0.0.1", port), _Handler, bind_and_activate=True)


def serve(listening: HTTPServer, flow: Flow) -> None:
    """Answer requests until every App is installed."""
    listening.flow = flow  # type: ignore[attr-defined]
    listening.timeout = _POLL_SEC
    while not flow.is_complete:
        listening.handle_request()


class _Handler(BaseHTTPRequestHandler):
    """Shows the page, and passes the address of each App to the flow."""

    timeout = 10  # seconds for one request, so that a silent connection does not stop the others

    @property
    def flow(self) -> Flow:
        found: Flow = self.server.flow  # type: ignore[attr-defined]
        return found

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        # A page of another site could name this address under a name of its own (DNS rebinding).
        if f"http://{self.headers.get('Host')}" != self.flow.address:
            self._answer(403, "this listener has another address")
            return
        try:
            if path in self.flow.routes:
                self.flow.receive(self.path)
            # An App that an earlier run created sends the browser to the address of that run.
            self.flow.find_installations()
        except click.ClickException as error:
            self.flow.report(error.format_message())
            self._answer(400, error.format_message())
            return
        if path == self.flow.path or path in self.flow.routes:
            # The page itself and not a redirect to it, because the listener ends after the last App.
            self._answer(200, self.flow.page(), raw=True)
        else:
            self._answer(404, "no such page; the command has printed the address")

    def _answer(self, status: int, text: str, *, raw: bool = False) -> None:
        body = (text if raw else f"<!doctype html><pre>{html.escape(text)}</pre><a href='../'>Back</a>").encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        # The address has the code; no other page may learn it.
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Print nothing: the request line has the code."""
