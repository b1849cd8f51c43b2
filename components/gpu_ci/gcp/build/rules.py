"""What Cloud Build takes in a private pool and its triggers: pure functions over plain values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gpu_catalog import machine_types

from ...errors import at_path, did_you_mean, invalid, raise_problems
from ...naming import FORM, PATTERN
from .. import ip_ranges, regions

# cloud.google.com/build/pricing, "Private pools pricing": the fifteen predefined machine types, none with a GPU. The
# API's field is free text and the whole discovery document cloudbuild v1 (revision 20261029) has no accelerator in it.
MACHINE_TYPES = (
    "e2-medium",
    "e2-standard-2", "e2-standard-4", "e2-standard-8", "e2-standard-16", "e2-standard-32",
    "e2-highmem-2", "e2-highmem-4", "e2-highmem-8", "e2-highmem-16",
    "e2-highcpu-2", "e2-highcpu-4", "e2-highcpu-8", "e2-highcpu-16", "e2-highcpu-32",
)  # fmt: skip

OURS = ("_POOL", "_REGISTRY", "_CACHE")
"""The substitutions every trigger gets."""

_NAME = re.compile(PATTERN)
# Discovery document cloudbuild v1, BuildTrigger.substitutions.
_SUBSTITUTION = re.compile(r"_[A-Z0-9_]+")
# github.com/google/re2/wiki/Syntax: what it has not, and what Python's own expressions, which judge the rest, have not.
_NOT_RE2 = re.compile(r"\(\?<?[=!]|\\[1-9]|\(\?P=|\(\?>|(?<!\\)[*+?}]\+|\{[0-9]*,?[0-9]{4,}")
_RE2_ALONE = re.compile(r"\\[pPzQEC]|\\x\{|\(\?<[A-Za-z]|\(\?[imsU-]+[:)]|\[\[:")


def add_to_schema(schema: dict[str, Any]) -> None:
    """Add the machine types and regions there are, for editors of stack files."""
    fields = schema["properties"]
    fields["machineType"]["enum"] = list(MACHINE_TYPES)
    fields["region"]["enum"] = list(regions.CLOUD_BUILD)


def machine_type(value: str) -> str:
    """One that private pools have."""
    if value in MACHINE_TYPES:
        return value
    if value in machine_types("gcp") and not value.startswith("n1-"):
        hint = "a job that needs a GPU goes to a pool of kind gce-runners"
        raise invalid("has GPUs, and a Cloud Build pool takes none", hint=hint)
    raise invalid(
        "is no machine type of Cloud Build pools",
        hint=did_you_mean(value, MACHINE_TYPES)
        or "they are e2-medium and sizes of e2-standard, e2-highmem, e2-highcpu",
    )


def region(value: str) -> str:
    """One that Cloud Build is in."""
    if value not in regions.CLOUD_BUILD:
        raise invalid("is no region of Cloud Build", hint=did_you_mean(value, regions.CLOUD_BUILD))
    return value


def ip_range(value: str) -> str:
    """A prefix of 8 addresses or more, with or without the address it begins at."""
    start, _, size = value.rpartition("/")
    hint = "such as /24, or 192.168.0.0/24"
    if not (size.isascii() and size.isdigit()) or int(size) < 8:
        raise invalid("is no range", hint=hint)
    # cloud.google.com/build/docs/private-pools/private-pool-config-file-schema, peeredNetworkIpRange.
    if int(size) > 29:
        raise invalid("is too small: the smallest is /29, with 8 addresses", hint=hint)
    return value if not start else ip_ranges.subnet(value)


def network(value: Any) -> Any:
    """One that reaches Google.

    Private service connect does not: betaToGaPrivatePool looks for it in an object that it has just made, and sends the
    rest (hashicorp/terraform-provider-google@e03b762:google/services/cloudbuild/cloudbuild_utils.go, of August 2026).
    """
    if getattr(value, "kind", "") == "private-service-connect":
        problem = invalid(
            "does not work yet: pulumi-gcp takes it and does not send it, so workers would be in Google's own network",
            expected="a peered network, or none",
            hint="use kind: peered, or publicEgress: true without a network; Google's issue is b/394920388",
        )
        # The word of the model it is in, as pydantic itself would name the place.
        raise_problems([at_path(problem, value.kind, value.kind, "kind")])
    return value


def without_a_way(triggers: Mapping[str, Any], attached: object, *, public: bool) -> str:
    """What to warn of where builds are started that cannot fetch their source; empty where they can, or may.

    Every trigger is of a repository on github.com. Workers without a public address reach no public one "unless a
    network proxy is configured" (cloudbuild v1, NetworkConfig.EgressOption), which takes a network of one's own.
    """
    if public or attached or not triggers:
        return ""
    return (
        f"triggers: {', '.join(sorted(triggers))}: workers have neither a public address nor a network of yours, so "
        "builds cannot fetch their source from github.com; hint: publicEgress: true, or a peered network with a way out"
    )


def ref(value: str) -> str:
    """A regular expression as Cloud Build reads it, which is RE2."""
    if found := _NOT_RE2.search(value):
        raise invalid(
            f"has {found.group()}, which RE2 does not know",
            hint="write what to match; includedFiles and ignoredFiles narrow it further",
        )
    if _RE2_ALONE.search(value):
        return value
    try:
        re.compile(value)
    except re.error as error:
        raise invalid(
            f"is no regular expression: {error.msg}", hint=f"to match it as it is: {re.escape(value)}"
        ) from None
    return value


def trigger_name(name: str) -> str:
    """One that becomes part of resources' names."""
    if not _NAME.fullmatch(name):
        raise invalid("the name has a form that is not accepted", expected=FORM, hint="such as main")
    return name


def substitution(key: str) -> str:
    """A name of the user's own, in the API's form."""
    if key in OURS:
        raise invalid("is filled in by the pool", hint="give yours another name")
    if not _SUBSTITUTION.fullmatch(key):
        better = "_" + re.sub(r"[^A-Z0-9]+", "_", key.upper()).strip("_")
        raise invalid("is no name of a substitution", expected="_ and then A-Z, 0-9 or _", hint=f"such as {better}")
    return key


def run_step(script: str | None, others: Mapping[str, Any]) -> str | None:
    """A script, or an entrypoint with its arguments; the API takes one of the two (cloudbuild v1, BuildStep.script)."""
    if script is not None and (others.get("args") or others.get("entrypoint")):
        raise invalid(
            "stands beside args or entrypoint, and a step has one or the other", hint="remove args and entrypoint"
        )
    return script
