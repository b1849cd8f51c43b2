"""Pure functions of aws, computed in the same way as by the real provider."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pulumi_sandbox.providers.aws.iam.policy import get_policy_document
from pulumi_sandbox.providers.lookup_template import LookupRefusedError
from pulumi_sandbox.providers.resource import PureFunction


def _arn(text: str) -> dict[str, str]:
    """Split an ARN into its six sections, with the error messages of aws-sdk-go-v2 (aws/arn, Parse)."""
    if not text.startswith("arn:"):
        raise LookupRefusedError(f"invalid ARN: arn: invalid prefix\n  got: {text}")
    sections = text.split(":", 5)
    if len(sections) != 6:
        raise LookupRefusedError(f"invalid ARN: arn: not enough sections\n  got: {text}")
    return dict(zip(("partition", "service", "region", "account", "resource"), sections[1:], strict=True))


def get_arn(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": arguments["arn"], **_arn(arguments["arn"])}


def arn_parse(arguments: Mapping[str, Any]) -> dict[str, Any]:
    parsed = _arn(arguments["arn"])
    return {"accountId": parsed.pop("account"), **parsed}


def arn_build(arguments: Mapping[str, Any]) -> dict[str, Any]:
    parts = (arguments.get(name) or "" for name in ("partition", "service", "region", "accountId", "resource"))
    return {"result": ":".join(("arn", *parts))}


FUNCTIONS: dict[str, PureFunction] = {
    "aws:iam/getPolicyDocument:getPolicyDocument": get_policy_document,
    "aws:index/getArn:getArn": get_arn,
    "aws:index/arnParse:arnParse": arn_parse,
    "aws:index/arnBuild:arnBuild": arn_build,
}
