"""The steps of `gpu-ci doctor manager.json`. They start, delete, unregister and rerun nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from gpu_ci.cli import google_api
from gpu_ci.cli.doctor.steps import Finding, Step, problems_or_pass
from gpu_ci.cli.google_api import Call
from gpu_ci.cli.output import InputError
from gpu_ci.cli.programs import NotAskedError
from gpu_ci.gcp import manager_permissions
from gpu_ci.gcp.template_links import region_and_name_of_template
from gpu_common import google_permissions

from .cli import options
from .config import Config
from .github.adapter import GithubAdapter
from .github.app_token import App
from .model import DEFAULT_SUPPLIER, Pool
from .ports import Refused, Unavailable

_ACT_AS = "iam.serviceAccounts.actAs"


@dataclass(frozen=True)
class Target:
    """A manager's configuration, its App and Google's APIs."""

    config: Config
    app: App
    connection: Callable[[App], GithubAdapter]
    google: Callable[[], Call]

    @cached_property
    def pools(self) -> list[Pool]:
        """The pools on Compute Engine."""
        return [pool for pool in self.config.pools if pool.supplier == DEFAULT_SUPPLIER]

    @cached_property
    def github(self) -> GithubAdapter:
        return self.connection(self.app)

    @cached_property
    def call(self) -> Call:
        return self.google()

    @cached_property
    def templates(self) -> list[tuple[str, dict[str, Any]]]:
        """The instance templates of each pool, with the pool's name."""
        return [
            (pool.name, self.ask("compute", "v1", _request_of(pool.account, template)))
            for pool in self.pools
            for template in pool.templates
        ]

    def ask(self, service: str, version: str, request: Callable[[Any], Any]) -> dict[str, Any]:
        return google_api.ask(self.call, service, version, request)


def target(config_file: str, key_file: Path, github_url: str, google: Callable[[], Call]) -> Target:
    """Return the manager of a configuration. Raise InputError if the configuration is invalid."""
    config = options.configuration(config_file)
    groups = {pool.runner_group for pool in config.pools}

    def connection(app: App) -> GithubAdapter:
        address = github_url or config.github.api_url
        try:
            return GithubAdapter(address, app, config.github.owner, groups, public=config.is_public)
        except Refused as error:
            raise InputError(str(error), hint="correct --github-url, or github.apiUrl of the configuration") from None

    return Target(config, App(config.github.app_id, config.github.installation_id, key_file), connection, google)


def app_key(target: Target) -> Finding:
    with _converted_errors():
        target.app.signed({})
    return Finding("pass", f"App {target.app.id}: {Path(target.app.key_file).name} contains a valid key")


def runner_groups(target: Target) -> Finding:
    with _converted_errors():
        found = target.github.repositories()
    empty = [name for name, repositories in found.items() if not repositories]
    counts = ", ".join(f"{name}: {len(repositories)} repositories" for name, repositories in found.items())
    return problems_or_pass(empty, counts, found, "no repository may use the group ")


def queue(target: Target) -> Finding:
    view = target.github.observe(())
    if view.problems or view.jobs is None or view.runners is None:
        return Finding("fail", "; ".join(view.problems), list(view.problems))
    return Finding("pass", f"{len(view.jobs)} jobs wait or run, {len(view.runners)} runners are registered")


def _on_compute_engine(ask: Callable[[Target], Finding]) -> Callable[[Target], Finding]:
    """Return a step that passes if no pool is on Compute Engine."""
    return lambda target: ask(target) if target.pools else Finding("pass", "no pool is on Compute Engine")


@_on_compute_engine
def templates(target: Target) -> Finding:
    names = [template["name"] for _, template in target.templates]
    return Finding("pass", f"{', '.join(names)} exist", names)


@_on_compute_engine
def permissions(target: Target) -> Finding:
    wanted = google_permissions.of_calls(manager_permissions.MACHINES)
    missing = []
    for project in dict.fromkeys(pool.account for pool in target.pools):
        answer = target.ask("cloudresourcemanager", "v3", _permissions_of(project, wanted))
        missing += [f"{each} on {project}" for each in wanted if each not in answer.get("permissions", [])]
    return problems_or_pass(missing, f"all {len(wanted)} are granted on the project", missing, "missing: ")


@_on_compute_engine
def service_accounts(target: Target) -> Finding:
    refused = []
    # All templates of a pool have the same account.
    for name, template in dict(target.templates).items():
        email = template["properties"]["serviceAccounts"][0]["email"]
        answer = target.ask("iam", "v1", _rights_on(email))
        if _ACT_AS not in answer.get("permissions", []):
            refused.append(f"the account of {name}")
    return problems_or_pass(refused, "machines can be started as each pool's account", refused, "not granted on ")


def _request_of(project: str, template: str) -> Callable[[Any], Any]:
    region, name = region_and_name_of_template(template)
    return lambda api: api.regionInstanceTemplates().get(project=project, region=region, instanceTemplate=name)


def _permissions_of(project: str, wanted: list[str]) -> Callable[[Any], Any]:
    body = {"permissions": wanted}
    return lambda api: api.projects().testIamPermissions(resource=f"projects/{project}", body=body)


def _rights_on(account: str) -> Callable[[Any], Any]:
    resource, body = f"projects/-/serviceAccounts/{account}", {"permissions": [_ACT_AS]}
    return lambda api: api.projects().serviceAccounts().testIamPermissions(resource=resource, body=body)


@contextmanager
def _converted_errors() -> Iterator[None]:
    """Raise NotAskedError with the text of a refusal or of a missing answer from GitHub."""
    try:
        yield
    except (Unavailable, Refused) as error:
        raise NotAskedError(str(error)) from None


STEPS: tuple[Step[Target], ...] = (
    Step(
        "app key", "the file contains the App's private key", app_key,
        "create a key on the App's settings page, under Private keys",
    ),
    Step(
        "runner groups", "the runner group of each pool exists and allows the pool's repositories", runner_groups,
        "run pulumi up with gpu-ci:github.runnerGroup, or install the App for the repositories",
    ),
    Step(
        "queue", "the App can read the queued runs of every repository", queue,
        "accept the App's permissions: Actions and Self-hosted runners, read and write; and with publicRepositories "
        "of the runner group, Pull requests, read",
    ),
    Step("templates", "each pool's template exists", templates),
    Step(
        "permissions", "the manager has every permission", permissions,
        "create the role in docs/guides/runner-manager-setup.md",
    ),
    Step(
        "service accounts", "the manager may use each account", service_accounts,
        "grant roles/iam.serviceAccountUser on the pool's account",
    ),
)  # fmt: skip
