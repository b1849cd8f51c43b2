"""The steps of `gpu-ci doctor` about GitHub: each App of the stack file, and the version of the runner."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

from gpu_catalog import staleness

from gpu_ci.cli import clock, programs
from gpu_ci.cli.doctor.deployment import Deployment
from gpu_ci.cli.doctor.steps import Finding, Step
from gpu_ci.cli.github_app.apps import OPTIONAL, App, apps_of
from gpu_ci.cli.github_app.secret_store import app_token
from gpu_ci.cli.google_api import NOT_FOUND
from gpu_ci.cli.init.repository import ADMIN_APP, MANAGER_APP, RUNNER_APP
from gpu_ci.cli.programs import NotAskedError
from gpu_ci.github_trust import TEMPLATE_CLAIMS, set_subject
from gpu_ci.stack.clusters import CLUSTERS, of_kind
from gpu_ci.stack.site import SITE, app_entries

PLACEHOLDERS = {(app.id, app.installation) for app in (ADMIN_APP, RUNNER_APP, MANAGER_APP)}
"""The numbers that `gpu-ci init` writes until the Apps exist."""

_OK, _UNAUTHORIZED = 200, 401
_LATEST_RUNNER = "/repos/actions/runner/releases/latest"
_LEVELS = ("", "read", "write", "admin")


def steps(deployment: Deployment) -> Iterator[Step[Deployment]]:
    """Yield a step for each App of the stack file, and one for the runner if machines run one."""
    github = (deployment.file.values[SITE] or {}).get("github") or {}
    if app_entries(github):
        for app in apps_of(deployment.file)[1]:
            yield Step(
                app.key,
                "the App and its installation exist, belong to the owner, and have the permissions",
                lambda deployment, app=app: app_works(deployment, app),  # type: ignore[misc]
            )
    if of_kind(deployment.file.values[CLUSTERS], "eks"):
        yield Step("subject", f"tokens of this repository with {', '.join(TEMPLATE_CLAIMS)}", subject_is_set)
    if github and any(args.runner_version for _, args in deployment.file.pools):
        yield Step(
            "runner version",
            f"a runner that GitHub gives jobs: no newer release is {staleness.RUNNERS_LAST_DAYS} days old",
            runner_is_current,
        )


def subject_is_set(_: Deployment) -> Finding:
    """Check the subject of the tokens with which jobs of this folder's repository assume roles on AWS."""
    # gh replaces the words in braces by those of the folder's repository.
    found = programs.run_json(["gh", "api", "repos/{owner}/{repo}/actions/oidc/customization/sub"])
    fix = (set_subject("{owner}/{repo}"),)
    claims = tuple(found.get("include_claim_keys") or ())
    if found.get("use_default") is False and claims == TEMPLATE_CLAIMS:
        return Finding("pass", "the subject names the ids of owner and repository, and the event")
    if found.get("use_immutable_subject"):
        text = "the subject is GitHub's, which only a role with subjectClaim: immutable trusts"
        return Finding("unknown", text, found, fix)
    return Finding("fail", f"the subject has {', '.join(claims) or 'names instead of ids'}", found, fix)


def app_works(deployment: Deployment, app: App) -> Finding:
    owner = apps_of(deployment.file, (app.key,))[0]
    described = app_entries(deployment.file.values[SITE]["github"])[app.key]
    number, installation = int(described["id"]), int(described["installationId"])
    create = f"gpu-ci github-app create {deployment.file.name} --only {app.key}"
    if (number, installation) in PLACEHOLDERS:
        text = f"{number} and {installation} are the numbers that gpu-ci init writes until the App exists"
        return Finding("fail", text, fix=(create,))
    store = f"gpu-ci github-app store {app.secret} < KEY.pem"
    key = deployment.private_key(app.secret)
    if key is None:
        return Finding("fail", f"{app.secret} has no version", fix=(store, create))
    token = app_token(number, key)
    if token is None:
        return Finding(
            "fail", f"the newest version of {app.secret} is not an RSA private key in PEM form", fix=(store,)
        )
    status, found = deployment.ask_github("/app", token)
    if status in (_UNAUTHORIZED, NOT_FOUND):
        text = f"GitHub answered {status}: there is no App {number} with the key in {app.secret}"
        return Finding("fail", text, fix=(store, create))
    _check(status)
    return _installed(deployment, app, owner, found, token, installation)


def _installed(
    deployment: Deployment, app: App, owner: str, found: Mapping[str, Any], token: str, installation: int
) -> Finding:
    """Return the finding for an App that GitHub knows, and for its installation."""
    slug, holder = str(found.get("slug")), str((found.get("owner") or {}).get("login"))
    organization = f"{deployment.github_web}/organizations/{owner}/settings"
    create = f"gpu-ci github-app create {deployment.file.name} --only {app.key}"
    if holder.casefold() != owner.casefold():
        return Finding("fail", f"the App belongs to {holder}, not to {owner}", fix=(create,))
    if missing := _missing(app.permissions, found.get("permissions") or {}):
        page = f"{organization}/apps/{slug}/permissions"
        return Finding("fail", f"the App lacks {', '.join(missing)}", fix=(f"# grant them at {page}",))
    status, answer = deployment.ask_github(f"/app/installations/{installation}", token)
    if status == NOT_FOUND:
        page = f"{deployment.github_web}/apps/{slug}/installations/new"
        hint = f"# install it at {page}, and write the number at the end of the address as installationId"
        return Finding("fail", f"the App has no installation {installation}", fix=(hint,))
    _check(status)
    page = f"{organization}/installations/{installation}"
    account = str((answer.get("account") or {}).get("login"))
    if account.casefold() != owner.casefold():
        fix = f"# install it at {deployment.github_web}/apps/{slug}/installations/new"
        return Finding("fail", f"installation {installation} is in {account}, not in {owner}", fix=(fix,))
    if answer.get("suspended_at"):
        return Finding("fail", f"installation {installation} is suspended", fix=(f"# unsuspend it at {page}",))
    if missing := _missing(app.permissions, answer.get("permissions") or {}):
        text = f"the App's new permissions are not accepted in {owner}: {', '.join(missing)}"
        return Finding("fail", text, fix=(f"# accept them at {page}",))
    optional = _missing(OPTIONAL.get(app.key, {}), answer.get("permissions") or {})
    without = f"; optional, and not granted: {', '.join(optional)} (docs/guides/github.md)" if optional else ""
    return Finding("pass", f"{slug} is installed in {owner}, with every permission{without}")


def _missing(needed: Mapping[str, str], granted: Mapping[str, str]) -> list[str]:
    def level(text: Any) -> int:
        return _LEVELS.index(text) if text in _LEVELS else 0

    return [f"{name}: {access}" for name, access in needed.items() if level(granted.get(name)) < level(access)]


def _check(status: int) -> None:
    """Raise NotAskedError unless GitHub answered. Its message is not shown, because it may repeat the request."""
    if status != _OK:
        raise NotAskedError(f"GitHub answered {status}")


def runner_is_current(deployment: Deployment) -> Finding:
    status, answer = deployment.ask_github(_LATEST_RUNNER)
    _check(status)
    try:
        latest = str(answer.get("tag_name")).removeprefix("v")
        published = date.fromisoformat(str(answer.get("published_at"))[:10])
        behind = {
            pool: args.runner_version
            for pool, args in deployment.file.pools
            if args.runner_version and _parts(args.runner_version) < _parts(latest)
        }
        old = [
            f"{pool}: {stale.subject} {stale.text}"
            for pool, version in behind.items()
            for stale in staleness.runner(version, clock.today(), {latest: published})
        ]
    except ValueError:
        raise NotAskedError("GitHub's answer names no version with a day") from None
    if old:
        page = f"https://github.com/actions/runner/releases/tag/v{latest}"
        pin = f"# or write `runner: {{version: {latest}, sha256: …}}` in the pool, with the checksums of {page}"
        return Finding("fail", "; ".join(old), fix=("# install a newer gpu-ci: docs/operate/upgrade.md", pin))
    if behind:
        return Finding("pass", f"{latest} was released on {published}; the older runner still gets jobs")
    return Finding("pass", f"no release is newer than {latest}")


def _parts(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
