"""Rules of IAM for policy documents, with IAM's messages, and notes about actions without effect.

IAM does not check that an action exists (https://github.com/aws-cloudformation/cfn-lint/issues/1117). A name that is
not in cfn-lint's list therefore gets a note and is not refused. The list is as old as the package.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from gpu_common.suggest import closest

from pulumi_sandbox.providers.aws import documents, types
from pulumi_sandbox.providers.aws.iam.policy import VERSIONS
from pulumi_sandbox.providers.inputs import rows, table
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.values import UNKNOWN

Inputs = dict[str, Any]
TRUST, IDENTITY = "trust", "identity"
# The inputs of a type that contain documents, and whether each is a trust policy or an identity policy.
DOCUMENTS = {
    types.ROLE: (("assumeRolePolicy", TRUST), ("inlinePolicies", IDENTITY)),
    types.ROLE_POLICY: (("policy", IDENTITY),),
    types.POLICY: (("policy", IDENTITY),),
    "aws:iam/groupPolicy:GroupPolicy": (("policy", IDENTITY),),
    "aws:iam/userPolicy:UserPolicy": (("policy", IDENTITY),),
}
# docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_grammar.html
TOP = ("Id", "Statement", "Version")
STATEMENT = (
    "Action", "Condition", "Effect", "NotAction", "NotPrincipal", "NotResource", "Principal", "Resource", "Sid",
)  # fmt: skip
# Source: cfn-lint, data/schemas/other/iam/policy.json (AwsArn, AwsPrincipalArn). IAM variables are allowed anywhere.
ARN = r"arn:(aws[A-Za-z-]*|\*):[^:]+:[^:]*(:(?:\d{12}|\*|aws|\$\{[^}]+\})?:.+|)|\*"
PRINCIPAL = (
    r"\*|\d{12}|arn:aws[a-z-]*:iam::\d{12}:(?:root|user/|group/|role/).*|arn:aws[a-z-]*:sts::\d{12}:assumed-role/.+|"
    r"arn:aws[a-z-]*:iam::cloudfront:user/.+|A[A-Z0-9]{15,}"
)
SERVICE = r"[a-z0-9-]+(\.[a-z0-9-]+)*\.(amazonaws\.com(\.cn)?|amazon\.com|aws\.internal)"
# The maximum size in characters without white space (docs.aws.amazon.com/IAM/latest/UserGuide/
# reference_iam-quotas.html).
MAX_CHARACTERS = {types.POLICY: 6144, types.ROLE_POLICY: 10240}


def rules(token: str, inputs: Inputs) -> Iterator[Problem]:
    for path, kind, value in _documents(token, inputs):
        document, problem = _parse(value, path)
        if problem:
            yield problem
        if document is None:
            continue
        limit = MAX_CHARACTERS.get(token)
        size = len(re.sub(r"\s", "", value)) if isinstance(value, str) else 0
        if limit and size > limit:
            yield Problem(path, f"LimitExceeded: Cannot exceed quota for PolicySize: {limit}, got {size}")
        yield from _document(document, path, kind)


def notes(token: str, inputs: Inputs) -> Iterator[str]:
    """Yield a note for each action that IAM accepts although it does not exist."""
    for path, _, value in _documents(token, inputs):
        document, _ = _parse(value, path)
        for at, statement in enumerate(_statements(document or {})):
            for name in [*_texts(statement.get("Action")), *_texts(statement.get("NotAction"))]:
                if text := _unknown_action(name):
                    yield f"{path}: Statement[{at}]: {text}"


def _documents(token: str, inputs: Inputs) -> Iterator[tuple[str, str, Any]]:
    for name, kind in DOCUMENTS.get(token, ()):
        if name == "inlinePolicies":
            for index, row in enumerate(rows(inputs.get(name))):
                yield f"{name}[{index}].policy", kind, table(row).get("policy")
        else:
            yield name, kind, inputs.get(name)


def _parse(value: Any, path: str) -> tuple[Inputs | None, Problem | None]:
    """Parse a document, with the checks of terraform-provider-aws, internal/verify/validate.go, ValidIAMPolicyJSON."""
    if isinstance(value, dict):
        return value, None
    if not isinstance(value, str):
        return None, None
    name = path.rpartition(".")[2]
    if not value:
        return None, Problem(path, f'"{name}" is an empty string, which is not a valid JSON value')
    if not value.startswith("{"):
        why = ": leading space characters are not allowed" if value[0] in " \t\r\n" else ": not a JSON object"
        return None, Problem(path, f'"{name}" contains an invalid JSON policy{why}')
    try:
        found: Inputs = json.loads(value)
    except json.JSONDecodeError as error:
        where = f"{error.msg}, in line {error.lineno}, column {error.colno}"
        return None, Problem(path, f'"{name}" contains an invalid JSON policy: {where}')
    return found, None


def _document(document: Inputs, path: str, kind: str) -> Iterator[Problem]:
    yield from _check_names(document, TOP, path)
    version = document.get("Version")
    if version not in (None, UNKNOWN, *VERSIONS):
        yield _malformed(path, "The policy must contain a valid version string", f"Version {version}", VERSIONS)
    if "Statement" not in document:
        yield _malformed(path, "Syntax errors in policy.", "no Statement")
    sids = [one.get("Sid") for one in _statements(document)]
    for sid in sorted({one for one in sids if isinstance(one, str) and one and sids.count(one) > 1}):
        yield _malformed(path, "Statement IDs (SID) in a single policy must be unique.", f"{sid} twice")
    for at, statement in enumerate(_statements(document)):
        yield from _statement(statement, f"{path}: Statement[{at}]", kind)


def _statement(statement: Inputs, path: str, kind: str) -> Iterator[Problem]:
    yield from _check_names(statement, STATEMENT, path)
    effect = statement.get("Effect")
    if effect not in ("Allow", "Deny", UNKNOWN):
        yield _malformed(path, "Syntax errors in policy.", f"Effect {effect or 'not set'}", ("Allow", "Deny"))
    for one in ("Action", "Resource", "Principal"):
        if one in statement and f"Not{one}" in statement:
            yield _malformed(path, "Syntax errors in policy.", f"{one} and Not{one}")
    if not {"Action", "NotAction"} & statement.keys():
        yield _malformed(path, "Policy statement must contain actions.")  # aws-cdk issue 7615
    yield from _actions(statement, path, kind)
    yield from (_trust if kind == TRUST else _identity)(statement, path)


def _actions(statement: Inputs, path: str, kind: str) -> Iterator[Problem]:
    for name in [*_texts(statement.get("Action")), *_texts(statement.get("NotAction"))]:
        vendor, colon, action = name.partition(":")
        if name == "*":
            continue
        if not colon:
            text = "Actions/Conditions must be prefaced by a vendor, e.g., iam, sdb, ec2, etc."
            yield _malformed(path, text, name)
        elif ":" in action:  # https://github.com/aws-cloudformation/cfn-lint/issues/935
            yield _malformed(path, "Actions/Condition can contain only one colon.", name)
        elif "*" in vendor or "?" in vendor:  # https://github.com/boogy/iam-policy-validator/pull/172
            yield _malformed(path, "Action vendors (e.g., aws, ec2, etc.) must not contain wildcards", name)
        elif kind == TRUST and vendor.lower() != "sts":
            yield _malformed(path, "AssumeRole policy may only specify STS AssumeRole actions.", name)


def _trust(statement: Inputs, path: str) -> Iterator[Problem]:
    for field in ("Resource", "NotResource"):
        if field in statement:
            yield _malformed(path, f"Has prohibited field {field}")
    principal = statement.get("Principal", statement.get("NotPrincipal"))
    if not principal:
        # https://github.com/terraform-aws-modules/terraform-aws-iam/issues/47
        yield _malformed(path, "Invalid principal in policy: The passed in policy has a statement with no principals!")
    if isinstance(principal, str) and principal != "*":
        yield _malformed(path, f'Invalid principal in policy: "{principal}"')
    for kind, pattern in (("AWS", PRINCIPAL), ("Service", SERVICE)):
        for one in _texts(table(principal).get(kind)):
            if not re.fullmatch(pattern, one):
                yield _malformed(path, f'Invalid principal in policy: "{kind.upper()}":"{one}"')
    yield from _check_names(table(principal), ("AWS", "CanonicalUser", "Federated", "Service"), f"{path}: Principal")


def _identity(statement: Inputs, path: str) -> Iterator[Problem]:
    if {"Principal", "NotPrincipal"} & statement.keys():
        # https://github.com/hashicorp/terraform-provider-aws/issues/10419
        yield _malformed(path, "Policy document should not specify a principal.")
    resources = statement.get("Resource", statement.get("NotResource"))
    if resources in (None, [], ""):
        # https://github.com/terraform-aws-modules/terraform-aws-iam/issues/603
        yield _malformed(path, "Policy statement must contain resources.")
    for one in _texts(resources):
        if one and not re.fullmatch(ARN, one):
            # https://github.com/trussworks/terraform-aws-s3-anti-virus/issues/21
            yield _malformed(path, f'Resource {one} must be in ARN format or "*".')


def _check_names(fields: Inputs, names: tuple[str, ...], path: str) -> Iterator[Problem]:
    for name in fields:
        if name not in names:
            similar = closest(name, names, cutoff=0.7)
            problem = _malformed(path, "Syntax errors in policy.", name, names)
            yield Problem(problem.path, problem.text, f"did you mean {similar}?" if similar else "")


def _malformed(path: str, message: str, got: str = "", expected: tuple[str, ...] = ()) -> Problem:
    """Return a MalformedPolicyDocument problem.

    `path` is a property, followed by the place in the document. The place is put before the message.
    """
    name, _, place = path.partition(": ")
    text = f"{place}: MalformedPolicyDocument: {message}" if place else f"MalformedPolicyDocument: {message}"
    text += f"\n  got: {got}" if got else ""
    text += f"\n  expected: {', '.join(expected)}" if expected else ""
    return Problem(name, text)


def _unknown_action(name: str) -> str:
    vendor, _, action = name.lower().partition(":")
    services = documents.actions()
    if not action or "*" in vendor:
        return ""
    if vendor not in services:
        similar = closest(vendor, services, cutoff=0.75)
        suggestion = f"; did you mean {similar}?" if similar else ""
        return f"IAM accepts {name}, but {vendor} is not a known service{suggestion}"
    actions = services[vendor].get("Actions", {})
    if any(fnmatchcase(one, action) for one in actions):
        return ""
    similar = closest(action, actions)
    suggestion = f"; did you mean {vendor}:{similar} (case does not matter)?" if similar else ""
    return f"IAM accepts {name}, but it is not a known action{suggestion}"


def _statements(document: Inputs) -> list[Inputs]:
    given = document.get("Statement")
    return [one for one in (given if isinstance(given, list) else [given]) if isinstance(one, dict)]


def _texts(given: Any) -> list[str]:
    return [one for one in (given if isinstance(given, list) else [given]) if isinstance(one, str)]
