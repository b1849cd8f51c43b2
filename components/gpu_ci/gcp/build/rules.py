"""Validates the fields of BuildPoolArgs and its triggers by the rules of Cloud Build.

A validator returns a valid value and raises an error for an invalid value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from gpu_catalog import machine_types
from gpu_common.secret_patterns import redact
from pydantic import AfterValidator

from ...errors import at_path, did_you_mean, invalid, raise_problems
from ...naming import FORM, PATTERN
from ...pool_kind import EXAMPLE_KIND
from .. import network_choices, regions

# The machine types of private pools, none with a GPU (cloud.google.com/build/pricing, "Private pools pricing"). The
# field in the API is free text. The API has no field for a GPU (discovery document cloudbuild v1, revision 20261029).
MACHINE_TYPES = (
    "e2-medium",
    "e2-standard-2", "e2-standard-4", "e2-standard-8", "e2-standard-16", "e2-standard-32",
    "e2-highmem-2", "e2-highmem-4", "e2-highmem-8", "e2-highmem-16",
    "e2-highcpu-2", "e2-highcpu-4", "e2-highcpu-8", "e2-highcpu-16", "e2-highcpu-32",
)  # fmt: skip

SET_BY_POOL = ("_POOL", "_REGISTRY", "_CACHE")
"""The substitutions that every trigger sets."""

RESTRICTED = (
    f"a project that is restricted to some regions builds in {', '.join(regions.BUILDS_OF_RESTRICTED_PROJECTS)} only"
)
"""The rest of a sentence about a region of builds."""

_NAME = re.compile(PATTERN)
# Discovery document cloudbuild v1, BuildTrigger.substitutions.
_SUBSTITUTION = re.compile(r"_[A-Z0-9_]+")


def connect(repositories: str, region: str) -> str:
    """Return the prerequisite of triggers for repositories without `repositoryResource`."""
    return (
        f"{repositories} must be connected to Cloud Build as 1st gen in {region}; hint: Cloud Build, Repositories, 1st "
        "gen, Connect repository, as an owner of the organization on GitHub; or name a 2nd-gen repository in "
        "repositoryResource"
    )


def add_to_schema(schema: dict[str, Any]) -> None:
    """Add the known machine types and regions to the schema, for editors of stack files."""
    fields = schema["properties"]
    fields["machineType"]["enum"] = list(MACHINE_TYPES)
    fields["region"]["enum"] = list(regions.CLOUD_BUILD)


def machine_type(value: str) -> str:
    """Return the machine type. It must be a machine type of private pools."""
    if value in MACHINE_TYPES:
        return value
    if value in machine_types("gcp") and not value.startswith("n1-"):
        hint = f"jobs that need a GPU run in a pool of kind {EXAMPLE_KIND}"
        raise invalid("has GPUs, which Cloud Build pools do not support", "no-gpu-in-builds", hint=hint)
    raise invalid(
        "is not a machine type of Cloud Build pools",
        "not-a-machine-type",
        hint=did_you_mean(value, MACHINE_TYPES) or "use e2-medium, or a size of e2-standard, e2-highmem or e2-highcpu",
    )


def region(value: str) -> str:
    """Return the region. It must be a region of Cloud Build."""
    if value not in regions.CLOUD_BUILD:
        raise invalid("is not a region of Cloud Build", "not-a-region", hint=did_you_mean(value, regions.CLOUD_BUILD))
    return value


BuildRegion = Annotated[str | None, AfterValidator(lambda value: value and region(value))]
"""The region of builds that start machines. A project may be able to build in a few regions only."""


def ip_range(value: str) -> str:
    """Return the IP range, such as /24 or 192.168.0.0/24. It must have at least 8 addresses."""
    start, _, size = value.rpartition("/")
    hint = "such as /24, or 192.168.0.0/24"
    if not (size.isascii() and size.isdigit()) or int(size) < 8:
        raise invalid("is not an IP range", "not-an-ip-range", hint=hint)
    # cloud.google.com/build/docs/private-pools/private-pool-config-file-schema, peeredNetworkIpRange.
    if int(size) > 29:
        raise invalid("is too small; the smallest range is /29, with 8 addresses", "range-too-small", hint=hint)
    return value if not start else network_choices.subnet(value)


def path_in_repository(value: str, example: str) -> str:
    """Return the path, which must not leave the repository: a build would fail only after the clone."""
    if value.startswith("/") or ".." in value.split("/"):
        raise invalid("is not a path inside the repository", "path-outside-repository", hint=f"such as {example}")
    return value


def build_args(values: dict[str, str]) -> dict[str, str]:
    """Return the build arguments. Their values are in the trigger, in logs and in the history of the image."""
    problems = []
    for name, value in values.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            hint = "use letters, digits and underscores, as in ARG of the Dockerfile"
            problems.append(at_path(invalid("is no name of a build argument", "wrong-name", hint=hint), name, name))
        if redact(value) != value:
            problem = invalid(
                "looks like a secret, and every reader of the image can read it",
                "secret-in-image",
                safe_hint="remove it; let the image read secrets when it runs",
            )
            problems.append(at_path(problem, value, name))
    raise_problems(problems)
    return values


def trigger_name(name: str) -> str:
    """Return the name of a trigger. It must be valid as a part of resource names."""
    if not _NAME.fullmatch(name):
        raise invalid("is not a valid name of a trigger", "wrong-name", expected=FORM, hint="such as main")
    return name


def substitution(key: str) -> str:
    """Return the name of a user's substitution. It must have the format of the API."""
    if key in SET_BY_POOL:
        raise invalid("is set by the pool", "reserved-name", hint="rename the substitution")
    if not _SUBSTITUTION.fullmatch(key):
        better = "_" + re.sub(r"[^A-Z0-9]+", "_", key.upper()).strip("_")
        raise invalid(
            "is not the name of a substitution",
            "wrong-name",
            expected="_ followed by A-Z, 0-9 or _",
            hint=f"such as {better}",
        )
    return key


def run_step(script: str | None, others: Mapping[str, Any]) -> str | None:
    """Return the script of a step. The API does not accept args or an entrypoint together with a script.

    Source: cloudbuild v1, BuildStep.script.
    """
    if script is not None and (others.get("args") or others.get("entrypoint")):
        raise invalid(
            "is not allowed together with args or entrypoint", "script-and-args", hint="remove args and entrypoint"
        )
    return script
