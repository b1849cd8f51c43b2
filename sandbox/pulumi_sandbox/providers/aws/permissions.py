"""Refuse operations whose IAM actions the role of the run does not allow.

By default, the sandbox's user may do everything. The variable PULUMI_SANDBOX_AWS_ROLE names a role that a stack
created, by its ARN or its name. The role may do what its policies in the emulated cloud state allow:

- inline policies, and customer managed policies that are attached to it
- AdministratorAccess, with all actions

A statement counts for the resource `*`, for roles and instance profiles of IAM by their names, and for secrets,
parameters, buckets and objects. Of conditions, only ArnLike with iam:PolicyARN is known; a statement with another one
does not count. Other AWS managed policies permit nothing. Trust policies, permissions boundaries, service control
policies and the access entries of clusters are not evaluated.

AWS's error names the action and the role. The sandbox adds a hint with the command that adds the action.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from gpu_common import aws_permissions

from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.inputs import rows, table, text_of
from pulumi_sandbox.world.store import Record, World

VARIABLE = "PULUMI_SANDBOX_AWS_ROLE"
_ADMINISTRATOR = "arn:aws:iam::aws:policy/AdministratorAccess"
_BY_ARN = ("s3:", "secretsmanager:", "ssm:")


def role_of_environment() -> str:
    """Return the name of the role of the run; empty for the sandbox's user."""
    return os.environ.get(VARIABLE, "").strip().rpartition("/")[2]


@dataclass(frozen=True)
class Denial:
    """An action that the role does not allow."""

    action: str
    role: str
    account: str
    resource: str = "*"

    @property
    def code(self) -> str:
        """The error code of the service (botocore 1.44.5, eks; errors of EC2 and IAM: their API references)."""
        return {"ec2": "UnauthorizedOperation", "eks": "AccessDeniedException"}.get(self.service, "AccessDenied")

    @property
    def service(self) -> str:
        return self.action.partition(":")[0]

    @property
    def message(self) -> str:
        """AWS's message (github.com/aws-controllers-k8s/community/issues/2164)."""
        start = "You are not authorized to perform this operation. " if self.service == "ec2" else ""
        user = f"arn:aws:sts::{self.account}:assumed-role/{self.role}/sandbox"
        reason = f"because no identity-based policy allows the {self.action} action"
        return f"{start}User: {user} is not authorized to perform: {self.action} {reason}"

    def with_hint(self) -> str:
        """Return the error of the provider, and how to add the action."""
        name = self.action.partition(":")[2]
        error = f"operation error {self.service.upper()}: {name}, https response error StatusCode: 403"
        add = aws_permissions.add_to_role(self.role, [self.action], self.resource)
        hint = f"the role {self.role} lacks the action; to add it: {add}"
        return f"{error}, api error {self.code}: {self.message}\n  hint: {hint}"


@dataclass(frozen=True)
class Asked:
    """What the resources and conditions of a statement may name. An empty text is not known, and matches each pattern.

    `arn` is of a secret, a parameter, a bucket or an object.
    """

    role: str = ""
    profile: str = ""
    policy: str = ""
    arn: str = ""

    def is_of(self, pattern: str, action: str) -> bool:
        """Return True if the resource of an action matches the pattern of a statement."""
        if action.startswith(_BY_ARN):
            # The characters that AWS adds to the name of a secret may be missing.
            return any(fnmatchcase(each, pattern) for each in (self.arn or pattern, f"{self.arn}-a1b2c3"))
        of_profile = "InstanceProfile" in action and not action.endswith("ForRole")
        name, kind = (self.profile, "instance-profile") if of_profile else (self.role, "role")
        arn = f"arn:aws:iam::0:{kind}/{name}" if name else pattern
        return pattern == "*" or (action.startswith("iam:") and fnmatchcase(arn, pattern))


@dataclass(frozen=True)
class Caller:
    """The role of a run, and what it may do. An empty role is the sandbox's user, who may do everything."""

    world: World
    account: str
    role: str = ""

    def operation(
        self, token: str, operation: str, inputs: Mapping[str, Any] | None = None, name: str = "",
        old: Mapping[str, Any] | None = None,
    ) -> Iterator[Denial]:  # fmt: skip
        """Yield the actions of an operation on the resource `name` that the role does not allow."""
        given = inputs or {}
        role = name if token == types.ROLE else text_of(given, "role") or text_of(given, "nodeRoleArn")
        asked = Asked(role.rpartition("/")[2], name, text_of(given, "policyArn"), self._arn(given))
        needed = aws_permissions.RESOURCES.get(token, {}).get(operation, ())
        if old and old.get("assumeRolePolicy") != given.get("assumeRolePolicy"):
            needed = (*needed, aws_permissions.CHANGE_TRUST)
        yield from self._denied(needed, asked)

    def _arn(self, given: Mapping[str, Any]) -> str:
        """Return the ARN of a parameter with a base image, of a bucket or of an object in it; empty if it is not known.

        The ARNs of AWS's own parameters have no account.
        """
        image, bucket, key = (text_of(given, name) for name in ("parentImage", "bucket", "key"))
        if image.startswith("ssm:/"):
            path = image.removeprefix("ssm:/")
            return f"arn:aws:ssm:*:{'' if path.startswith('aws/service/') else self.account}:parameter/{path}"
        return f"arn:aws:s3:::{bucket}{f'/{key}' if key else ''}" if bucket else ""

    def knows(self, token: str) -> bool:
        """Return False for a type of which no actions are known, so that every operation is permitted."""
        return not self.role or token in aws_permissions.RESOURCES

    def lookup(self, token: str, arguments: Mapping[str, Any] | None = None) -> Iterator[Denial]:
        """Yield the actions of a function that the role does not allow."""
        asked = Asked(arn=text_of(arguments or {}, "secretId"))
        yield from self._denied(aws_permissions.LOOKUPS.get(token, ()), asked)

    def call(self, operation: str) -> Iterator[Denial]:
        """Yield the actions of a call of an API that the role does not allow, such as eks.describe_nodegroup."""
        yield from self._denied(aws_permissions.CALLS.get(operation, ()))

    def _denied(self, needed: Sequence[str], asked: Asked | None = None) -> Iterator[Denial]:
        if not self.role or not needed:
            return
        statements = [each for document in self._documents() for each in _listed(document.get("Statement"))]
        for action in needed:
            effects = {str(each.get("Effect")) for each in statements if _counts(each, action, asked or Asked())}
            if effects != {"Allow"}:
                arn = asked.arn if asked and action.startswith(_BY_ARN) else ""
                yield Denial(action, self.role, self.account, arn or "*")

    def _documents(self) -> Iterator[dict[str, Any]]:
        role = self.world.get(types.ROLE, self.role)
        for inline in rows(role.inputs.get("inlinePolicies")) if role else ():
            yield _document(table(inline).get("policy"))
        for policy in self._of_role(types.ROLE_POLICY):
            yield _document(policy.inputs.get("policy"))
        for attachment in self._of_role(types.ATTACHMENT):
            arn = text_of(attachment.inputs, "policyArn")
            if arn == _ADMINISTRATOR:
                yield {"Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}
            elif attached := self.world.get(types.POLICY, arn):
                yield _document(attached.inputs.get("policy"))

    def _of_role(self, kind: str) -> Iterator[Record]:
        for record in self.world.find(kind):
            if text_of(record.inputs, "role").rpartition("/")[2] == self.role:
                yield record


def _counts(statement: Mapping[str, Any], action: str, asked: Asked) -> bool:
    """Return True if a statement is about an action."""
    conditions = statement.get("Condition") or {"ArnLike": {"iam:PolicyARN": ["*"]}}
    policies = _listed(table(conditions.get("ArnLike")).get("iam:PolicyARN"))
    return (
        _matches(action, [str(each) for each in _listed(statement.get("Action"))])
        and any(asked.is_of(str(each), action) for each in _listed(statement.get("Resource")))
        and conditions.keys() == {"ArnLike"}
        and any(fnmatchcase(asked.policy or str(each), str(each)) for each in policies)
    )


def _matches(action: str, patterns: Sequence[str]) -> bool:
    """Return True if a pattern matches. IAM ignores the case of actions."""
    return any(fnmatchcase(action.lower(), pattern.lower()) for pattern in patterns)


def _document(text: Any) -> dict[str, Any]:
    return table(json.loads(text)) if isinstance(text, str) and text else {}


def _listed(value: Any) -> list[Any]:
    """Return the elements of a field of a policy that can be one value or a list."""
    return value if isinstance(value, list) else [] if value is None else [value]
