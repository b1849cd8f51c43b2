"""Check the API server's rules for the policies and the limits of a Job.

Source: k8s.io/kubernetes v1.36.0, pkg/apis/batch/validation/validation.go, validateJobSpec.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pulumi_sandbox.providers.kubernetes.fields import (
    dns_subdomain,
    duplicate,
    has_unknown,
    invalid,
    label_key,
    required,
    unsupported,
)
from pulumi_sandbox.providers.kubernetes.rules.pod_rules import inner, items
from pulumi_sandbox.providers.resource import Problem

ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
OPERATORS, STATUSES = ("In", "NotIn"), ("False", "True", "Unknown")
RULES_MOST, CODES_MOST, CONDITIONS_MOST, NAME_MOST = 20, 255, 20, 63
INDEXES_MOST = 64 * 1024
MANY_COMPLETIONS, MANY_LIMIT, FAILED_MOST = 100_000, 10_000, 100_000


def policies(spec: Any) -> Iterator[Problem]:
    if not isinstance(spec, Mapping) or has_unknown(spec):
        return
    indexed = spec.get("completionMode") == "Indexed"
    yield from _limits(spec, indexed=indexed)
    yield from _manager(spec.get("managedBy"))
    yield from _failure(spec)
    success = spec.get("successPolicy")
    if success is not None and not indexed:
        # Go prints the object with the names of its fields.
        yield invalid("spec.successPolicy", {"Rules": success.get("rules")}, "requires indexed completion mode")
    elif success is not None:
        yield from _success(spec, success)
    replacement = spec.get("podReplacementPolicy")
    supported = ("Failed",) if spec.get("podFailurePolicy") is not None else ("Failed", "TerminatingOrFailed")
    if replacement is not None and replacement not in supported:
        yield unsupported("spec.podReplacementPolicy", replacement, supported)


def _limits(spec: Mapping[str, Any], *, indexed: bool) -> Iterator[Problem]:
    failed, completions, parallelism = (spec.get(one) for one in ("maxFailedIndexes", "completions", "parallelism"))
    per_index = spec.get("backoffLimitPerIndex") is not None
    if failed is not None and not per_index:
        yield required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if not indexed:
        return
    above = f"completions is above {MANY_COMPLETIONS}"
    and_used = f"when completions are above {MANY_COMPLETIONS} and used with backoff limit per index"
    if failed is not None and completions is not None and failed > completions:
        yield invalid("spec.maxFailedIndexes", failed, "must be less than or equal to completions")
    if failed is not None and failed > FAILED_MOST:
        yield invalid("spec.maxFailedIndexes", failed, f"must be less than or equal to {FAILED_MOST}")
    if completions is None or completions <= MANY_COMPLETIONS or not per_index:
        return
    if failed is None:
        yield required("spec.maxFailedIndexes", f"must be specified when {above}")
    for name, value in (("parallelism", parallelism), ("maxFailedIndexes", failed)):
        if value is not None and value > MANY_LIMIT:
            yield invalid(f"spec.{name}", value, f"must be less than or equal to {MANY_LIMIT} {and_used}")


def _manager(name: Any) -> Iterator[Problem]:
    """Check the name of the controller (apimachinery, pkg/util/validation, IsDomainPrefixedPath)."""
    path = "spec.managedBy"
    if name is None:
        return
    domain, slash, rest = name.partition("/")
    if not name:
        yield required(path)
    elif not slash or not domain or not rest:
        yield invalid(path, name, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        yield from (invalid(path, domain, message) for message in dns_subdomain(domain))
        if not re.fullmatch(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", rest):
            yield invalid(path, rest, "Invalid path")
    if len(name) > NAME_MOST:
        yield Problem(path, f"Too long: may not be more than {NAME_MOST} bytes")


def too_many(path: str, number: int, most: int) -> Iterator[Problem]:
    if number > most:
        yield Problem(path, f"Too many: {number}: must have at most {most} items")


def _valid_values(values: tuple[str, ...]) -> str:
    return f"valid values: [{' '.join(f'{chr(34)}{one}{chr(34)}' for one in values)}]"


def _choice(path: str, given: Any, supported: tuple[str, ...]) -> Iterator[Problem]:
    if not given:
        yield required(path, _valid_values(supported))
    elif given not in supported:
        yield unsupported(path, given, supported)


def _failure(spec: Mapping[str, Any]) -> Iterator[Problem]:
    pod, path = inner(spec, "template", "spec"), "spec.podFailurePolicy.rules"
    names = {one.get("name") for kind in ("containers", "initContainers") for _, one in items(inner(pod, kind))}
    rules = list(items(inner(spec, "podFailurePolicy", "rules")))
    yield from too_many(path, len(rules), RULES_MOST)
    for at, rule in rules:
        here, codes, conditions = f"{path}[{at}]", rule.get("onExitCodes"), rule.get("onPodConditions") or []
        if rule.get("action") == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
            yield invalid(f"{here}.action", "FailIndex", "requires the backoffLimitPerIndex to be set")
        yield from _choice(f"{here}.action", rule.get("action"), ACTIONS)
        if codes is not None:
            yield from _exit_codes(f"{here}.onExitCodes", codes, names)
        yield from too_many(f"{here}.onPodConditions", len(conditions), CONDITIONS_MOST)
        for place, one in items(conditions):
            where, kind = f"{here}.onPodConditions[{place}]", one.get("type") or ""
            yield from (invalid(f"{where}.type", kind, message) for message in label_key(kind))
            # The default is True.
            yield from _choice(f"{where}.status", one.get("status") or "True", STATUSES)
        if codes is not None and conditions:
            yield Problem(here, "Invalid value: specifying both OnExitCodes and OnPodConditions is not supported")
        if codes is None and not conditions:
            yield Problem(here, "Invalid value: specifying one of OnExitCodes and OnPodConditions is required")


def _exit_codes(path: str, given: Mapping[str, Any], names: set[Any]) -> Iterator[Problem]:
    operator, name, values = given.get("operator"), given.get("containerName"), given.get("values") or []
    yield from _choice(f"{path}.operator", operator, OPERATORS)
    if name is not None and name not in names:
        message = "must be one of the container or initContainer names in the pod template"
        yield invalid(f"{path}.containerName", name, message)
    if not values:
        yield invalid(f"{path}.values", values, "at least one value is required")
    yield from too_many(f"{path}.values", len(values), CODES_MOST)
    for at, value in enumerate(values):
        if operator == "In" and value == 0:
            yield invalid(f"{path}.values[{at}]", value, "must not be 0 for the In operator")
        if value in values[:at]:
            yield duplicate(f"{path}.values[{at}]", value)
    if values != sorted(values):
        yield invalid(f"{path}.values", values, "must be ordered")


def _success(spec: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[Problem]:
    path, completions = "spec.successPolicy.rules", spec.get("completions") or 0
    rules = list(items(given.get("rules")))
    if not rules:
        yield required(path, "at least one rules must be specified when the successPolicy is specified")
    yield from too_many(path, len(rules), RULES_MOST)
    for at, rule in rules:
        here, count, indexes = f"{path}[{at}]", rule.get("succeededCount"), rule.get("succeededIndexes")
        if count is None and indexes is None:
            yield required(here, "at least one of succeededCount or succeededIndexes must be specified")
        total = 0
        if indexes is not None:
            if len(indexes) > INDEXES_MOST:
                yield Problem(f"{here}.succeededIndexes", f"Too long: may not be more than {INDEXES_MOST} bytes")
            try:
                total = number_of_indexes(indexes, completions)
            except ValueError as error:
                yield invalid(f"{here}.succeededIndexes", indexes, f"error parsing succeededIndexes: {error}")
        if count is None:
            continue
        most, where = "must be less than or equal to", f"{here}.succeededCount"
        if count < 0:
            yield invalid(where, count, "must be greater than or equal to 0")
        if count > completions:
            yield invalid(where, count, f"{most} {completions} (the number of specified completions)")
        if indexes is not None and count > total:
            what = "the number of indexes in the specified succeededIndexes field"
            yield invalid(where, count, f"{most} {total} ({what})")


def number_of_indexes(text: str, completions: int) -> int:
    """Return the number of indexes in a text such as `1,3-5` (validateIndexesFormat)."""
    total, last = 0, -1
    for interval in text.split(",") if text else ():
        limits = interval.split("-")
        if len(limits) > 2:
            raise ValueError(f'the fragment "{interval}" violates the requirement that an index interval can have at '
                             "most two parts separated by '-'")  # fmt: skip
        numbers = []
        for one in limits:
            if not re.fullmatch("[0-9]+", one):
                raise ValueError(f'cannot convert string to integer for index: "{one}"')
            numbers.append(int(one))
            if numbers[-1] >= completions:
                raise ValueError(f'too large index: "{one}"')
        if len(numbers) == 2 and numbers[0] >= numbers[1]:
            raise ValueError(f"non-increasing order, previous: {numbers[0]}, current: {numbers[1]}")
        if numbers[0] <= last:
            raise ValueError(f"non-increasing order, previous: {last}, current: {numbers[0]}")
        total, last = total + numbers[-1] - numbers[0] + 1, numbers[-1]
    return total
