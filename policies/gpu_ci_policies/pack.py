"""Serves the rules to the engine. It is the only module that uses pulumi_policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from importlib.util import find_spec
from typing import Any

import grpc
from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyConfigSchema,
    PolicyPack,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
)
from pulumi_policy import policy as sdk
from pulumi_policy.proxy import UnknownValueError

from . import settings
from .properties import UNKNOWN, is_list
from .rule import Resource, Rule, RuleContext
from .rules import RULES

NAME = "gpu-ci"


class Servicer(sdk._PolicyAnalyzerServicer):  # type: ignore[misc]
    """The SDK's service, extended: it refuses settings that no rule reads."""

    def Configure(self, request: Any, context: grpc.ServicerContext) -> Any:
        configured = {name: each.properties.keys() for name, each in request.policyConfig.items()}
        if problems := list(settings.problems(configured)):
            message = "\n".join(["settings of the policies:", *problems])
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, message)
        return super().Configure(request, context)


def serve() -> None:
    """Serve the rules until the engine ends the process."""
    # The engine also passes settings that no rule has, and the SDK has no public method to check them.
    sdk._PolicyAnalyzerServicer = Servicer
    PolicyPack(NAME, [policy(rule) for rule in RULES], enforcement_level=EnforcementLevel.MANDATORY)


def policy(rule: Rule) -> Policy:
    schema = PolicyConfigSchema(
        {name: dict(each) for name, each in rule.settings.items()} | {"exempt": settings.EXEMPT_SCHEMA}
    )
    return ResourceValidationPolicy(
        rule.name,
        rule.title,
        validation(rule),
        enforcement_level=EnforcementLevel(rule.level),
        config_schema=schema,
        remediation_steps=rule.fix,
    )


def validation(rule: Rule) -> Callable[[ResourceValidationArgs, ReportViolation], None]:
    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        if rule.needs_catalog and find_spec("gpu_catalog") is None:
            args.not_applicable("the package gpu_catalog is not installed in the environment of the pack")
        context = RuleContext(rule.defaults | args.get_config(), date.today())
        found = Resource(args.resource_type, args.name, args.urn, plain_values(args.props))
        report_violations(rule, rule.check(found, context), found, context, report)

    return validate


def report_violations(
    rule: Rule, texts: Iterable[str], about: Resource, context: RuleContext, report: ReportViolation
) -> None:
    granted = settings.exemptions_of(context.settings.get("exempt", ()))
    for text in texts:
        violation = settings.violation_text(sentence(text), about.name, about.urn, granted, context.today)
        if violation is not None:
            report(f"{violation}\nTo fix it: {rule.fix}", about.urn or None)


def sentence(text: str) -> str:
    """Return the text with a full stop, because some outputs join the lines into one text."""
    return text if text.endswith((".", "!", "?")) else f"{text}."


def plain_values(value: Any) -> Any:
    """Return the properties as plain data, with UNKNOWN for unknown values.

    For an unknown value, the SDK raises an error and reports that the whole rule cannot run. With UNKNOWN, the rule can
    still check the other values.
    """
    if isinstance(value, Mapping):
        return {key: value_at(value, key) for key in value}
    if is_list(value):
        return [value_at(value, index) for index in range(len(value))]
    return value


def value_at(holder: Mapping[str, Any] | Sequence[Any], key: Any) -> Any:
    try:
        return plain_values(holder[key])
    except UnknownValueError:
        return UNKNOWN
