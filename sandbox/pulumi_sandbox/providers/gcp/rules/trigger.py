"""Check rules for Cloud Build triggers that no schema contains, each with its source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pulumi_sandbox.providers.gcp.discovery import locations
from pulumi_sandbox.providers.gcp.rules.common import one_of
from pulumi_sandbox.providers.inputs import rows, table
from pulumi_sandbox.providers.paths import text
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.values import UNKNOWN

# Discovery document cloudbuild v1, BuildTrigger.name and BuildTrigger.substitutions.
TRIGGER_NAME = r"[A-Za-z0-9]([A-Za-z0-9-]{0,62}[A-Za-z0-9])?"
SUBSTITUTION = r"_[A-Z0-9_]+"
# Discovery document cloudbuild v2, Repository.name. The API's message is unknown; this one is the sandbox's.
REPOSITORY = r"projects/[^/]+/locations/[^/]+/connections/[^/]+/repositories/[^/]+"
REPOSITORY_FORM = "projects/*/locations/*/connections/*/repositories/*"
# The event sources of a trigger (terraform-provider-google e03b7622, resource_cloudbuild_trigger.go).
EVENTS = (
    "github", "triggerTemplate", "pubsubConfig", "webhookConfig", "repositoryEventConfig", "sourceToBuild",
    "bitbucketServerTriggerConfig", "developerConnectEventConfig",
)  # fmt: skip
# The fields with regular expressions for branches and tags of each event.
REFS = (
    *(
        f"{event}.{what}"
        for event in ("github", "repositoryEventConfig", "bitbucketServerTriggerConfig", "developerConnectEventConfig")
        for what in ("pullRequest.branch", "push.branch", "push.tag")
    ),
    "triggerTemplate.branchName",
    "triggerTemplate.tagName",
)
# Syntax that only Python supports, and syntax that only RE2 supports (github.com/google/re2/wiki/Syntax). Python's `re`
# checks the rest. It refuses most of the patterns that RE2 refuses, with its own messages.
NOT_RE2 = re.compile(r"\(\?<?[=!]|\\[1-9]|\(\?P=|\(\?>|(?<!\\)[*+?}]\+|\{[0-9]*,?[0-9]{4,}")
RE2_ALONE = re.compile(r"\\[pPzQEC]|\\x\{|\(\?<[A-Za-z]|\(\?[imsU-]+[:)]|\[\[:")
# Google Cloud documentation "Build configuration file schema" (docs.cloud.google.com/build/docs/
# build-config-file-schema), timeout: at most 24 hours.
LONGEST_SEC = 86_400
# terraform-provider-google e03b7622, resource_cloudbuild_trigger.go: the default timeout of a build.
DEFAULT_SEC = 600
SECONDS = r"(\d+)s"  # fractions of a second are not checked


def trigger(inputs: dict[str, Any]) -> Iterator[Problem]:
    name = inputs.get("name")
    if isinstance(name, str) and not re.fullmatch(TRIGGER_NAME, name):
        yield Problem("name", f'"name" ("{name}") doesn\'t match regexp "^{TRIGGER_NAME}$"')
    place = inputs.get("location")
    if isinstance(place, str) and place not in ("", "global", *locations("cloudbuild.v1")):
        yield Problem("location", f"{place} is not a location of Cloud Build", "such as us-central1")
    for key in table(inputs.get("substitutions")):
        if not re.fullmatch(SUBSTITUTION, key):
            yield Problem(text(("substitutions", key)), f'the key "{key}" doesn\'t match regexp "^{SUBSTITUTION}$"')
    # terraform-provider-google e03b7622, resource_cloudbuild_trigger.go: ExactlyOneOf.
    yield from one_of(inputs, ("build", "filename", "gitFileSource"), "")
    yield from one_of(inputs, EVENTS, "", at_least=True)
    for source in ("github", "repositoryEventConfig"):
        event = table(inputs.get(source))
        if event:
            yield from one_of(event, ("pullRequest", "push"), f"{source}.")
        if event.get("push") is not UNKNOWN and (push := table(event.get("push"))):
            yield from one_of(push, ("branch", "tag"), f"{source}.push.")
    repository = table(inputs.get("repositoryEventConfig")).get("repository")
    if isinstance(repository, str) and not re.fullmatch(REPOSITORY, repository):
        yield Problem("repositoryEventConfig.repository", f"{repository} is not of the form {REPOSITORY_FORM}")
    yield from expressions(inputs)
    if build := table(inputs.get("build")):
        yield from timeouts(build)
    yield from logs(inputs)


def logs(inputs: dict[str, Any]) -> Iterator[Problem]:
    # The API's message at the start of a build (github.com/cert-manager/cert-manager/pull/8851).
    build, options = table(inputs.get("build")), table(table(inputs.get("build")).get("options"))
    known = UNKNOWN not in (inputs.get("serviceAccount"), build.get("options"), options.get("logging"))
    if not build or not inputs.get("serviceAccount") or not known or build.get("logsBucket"):
        return
    if options.get("logging") not in ("CLOUD_LOGGING_ONLY", "NONE"):
        yield Problem(
            "build.options.logging",
            "if 'build.service_account' is specified, the build must either (a) specify 'build.logs_bucket', (b) use "
            "the REGIONAL_USER_OWNED_BUCKET build.options.default_logs_bucket_behavior option, or (c) use either "
            "CLOUD_LOGGING_ONLY / NONE logging options",
        )


def expressions(inputs: dict[str, Any]) -> Iterator[Problem]:
    # Discovery document cloudbuild v1, PushFilter and PullRequestFilter: "the syntax accepted by RE2".
    for path in REFS:
        pattern: Any = inputs
        for step in path.split("."):
            pattern = table(pattern).get(step)
        if not isinstance(pattern, str) or RE2_ALONE.search(pattern):
            continue
        if unsupported := NOT_RE2.search(pattern):
            yield Problem(path, f"RE2 does not support {unsupported.group()}, got {pattern}")
            continue
        try:
            re.compile(pattern)
        except re.error as error:
            yield Problem(path, f"{pattern} is not a regular expression: {error.msg}")


def timeouts(build: dict[str, Any]) -> Iterator[Problem]:
    build_sec = seconds(build.get("timeout") or f"{DEFAULT_SEC}s")
    if build_sec is None:
        return
    if build_sec > LONGEST_SEC:
        yield Problem("build.timeout", f"expected timeout to be at most {LONGEST_SEC}s (24 hours), got {build_sec}s")
    steps = sum(seconds(table(step).get("timeout")) or 0 for step in rows(build.get("steps")))
    if steps > build_sec:
        # The provider's message (stepTimeoutCustomizeDiff).
        yield Problem(
            "build.steps",
            f"Step timeout sum ({duration(steps)}) cannot be greater than build timeout ({duration(build_sec)})",
        )


def seconds(duration: Any) -> int | None:
    match = re.fullmatch(SECONDS, duration) if isinstance(duration, str) else None
    return int(match[1]) if match else None


def duration(whole: int) -> str:
    """Return a duration in seconds as Go prints it: 600 becomes 10m0s."""
    hours, minutes = whole // 3600, whole // 60 % 60
    return (f"{hours}h" if hours else "") + (f"{minutes}m" if hours or minutes else "") + f"{whole % 60}s"
