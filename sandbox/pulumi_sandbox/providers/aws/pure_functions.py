"""Compute IAM policy documents, as the real provider does.

Source of the format of IAM policy documents: terraform-provider-aws, internal/service/iam/
policy_document_data_source.go (at 04e9356d) and policy_model.go (at 084fd7bc):

- two spaces of indentation,
- fields in the order of the Go struct,
- single values without a list,
- actions, resources and identifiers in reverse order,
- conditions and principals sorted by key.

Sets that the real provider does not sort keep the order of the inputs. Their real order depends on a hash of Terraform.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

from pulumi_sandbox.providers.invokes import LookupRefusedError, go_json
from pulumi_sandbox.providers.resource import PureFunction

FIELDS = ("Sid", "Effect", "Action", "NotAction", "Resource", "NotResource", "Principal", "NotPrincipal", "Condition")
KNOWN = {name.lower(): name for name in FIELDS}

Document = dict[str, Any]


def get_policy_document(arguments: Mapping[str, Any]) -> dict[str, Any]:
    version = arguments.get("version") or "2012-10-17"
    own = {
        "Version": version,
        "Id": arguments.get("policyId"),
        "Statement": [_statement(one) for one in arguments.get("statements") or []],
    }
    sources, overrides = (
        [_parse(text) for text in arguments.get(f"{kind}PolicyDocuments") or [] if text is not None]
        for kind in ("source", "override")
    )
    merged: Document = {}
    for document in (*sources, own, *overrides):
        _merge(merged, document)
    ordered = {name: merged[name] for name in ("Version", "Id", "Statement") if merged.get(name)}
    text = go_json(ordered, indented=True)
    return {
        # create.StringHashcode: the CRC-32 of the text as a decimal number
        "id": str(zlib.crc32(text.encode())),
        "json": text,
        "minifiedJson": go_json(ordered),
        "version": version,
    }


def _statement(given: Mapping[str, Any]) -> Document:
    fields = {
        "Sid": given.get("sid"),
        "Effect": given.get("effect") or "Allow",
        "Action": _strings(given.get("actions")),
        "NotAction": _strings(given.get("notActions")),
        "Resource": _with_variables(_strings(given.get("resources"))),
        "NotResource": _with_variables(_strings(given.get("notResources"))),
        "Principal": _principals(given.get("principals")),
        "NotPrincipal": _principals(given.get("notPrincipals")),
        "Condition": _conditions(given.get("conditions")),
    }
    return {name: value for name, value in fields.items() if value}


def _merge(target: Document, new: Document) -> None:
    """Merge a document into another one.

    The result has the id of the new document, the higher version, and all statements. A statement of the new document
    replaces the statement with the same Sid.
    """
    if new.get("Id"):
        target["Id"] = new["Id"]
    if (new.get("Version") or "") > target.get("Version", ""):
        target["Version"] = new["Version"]
    statements = target.setdefault("Statement", [])
    for statement in new.get("Statement") or []:
        sid = statement.get("Sid")
        position = next((at for at, one in enumerate(statements) if sid and one.get("Sid") == sid), None)
        if position is None:
            statements.append(statement)
        else:
            statements[position] = statement


def _parse(text: str) -> Document:
    """Parse a document. Like Go, ignore the case of keys and drop unknown keys."""
    try:
        fields = {name.lower(): value for name, value in json.loads(text).items()}
    except (ValueError, AttributeError):
        raise LookupRefusedError("aws.iam.getPolicyDocument: a document is not a JSON object") from None
    statements = []
    for one in fields.get("statement", []):
        statement = {KNOWN[name.lower()]: value for name, value in one.items() if name.lower() in KNOWN}
        for name in ("Principal", "NotPrincipal"):
            if statement.get(name) in ({"*": "*"}, {"*": ["*"]}):
                statement[name] = "*"
        for variables in (statement.get("Condition") or {}).values():
            variables |= {variable: _single_value(values) for variable, values in variables.items()}
        statements.append({name: statement[name] for name in FIELDS if statement.get(name)})
    return {"Version": fields.get("version"), "Id": fields.get("id"), "Statement": statements}


def _single_value(values: Any) -> Any:
    if isinstance(values, bool):
        return "true" if values else "false"
    return values[0] if isinstance(values, list) and len(values) == 1 else values


def _strings(given: list[str] | None) -> Any:
    distinct = sorted(set(given or []), reverse=True)
    return distinct[0] if len(distinct) == 1 else distinct


def _with_variables(value: Any) -> Any:
    """Convert the variables of IAM from `&{…}` to `${…}`, which Terraform uses for its own variables."""
    return [_with_variables(one) for one in value] if isinstance(value, list) else value.replace("&{", "${")


def _principals(given: list[Mapping[str, Any]] | None) -> Any:
    result: dict[str, Any] = {}
    for one in given or []:
        kind, ids = one["type"], _with_variables(_strings(one["identifiers"]))
        if kind in result:
            before = result[kind] if isinstance(result[kind], list) else [result[kind]]
            ids = before + (ids if isinstance(ids, list) else [ids])
        result[kind] = ids
    # `{"AWS": "*"}` is not changed. Only `{"*": "*"}` becomes "*".
    return "*" if result == {"*": "*"} else dict(sorted(result.items()))


def _conditions(given: list[Mapping[str, Any]] | None) -> Any:
    result: dict[str, dict[str, list[str]]] = {}
    for one in given or []:
        variables = result.setdefault(one["test"], {})
        variables.setdefault(one["variable"], []).extend(_with_variables(list(one["values"])))
    return {
        test: {variable: _single_value(values) for variable, values in sorted(variables.items())}
        for test, variables in sorted(result.items())
    }


FUNCTIONS: dict[str, PureFunction] = {
    "aws:iam/getPolicyDocument:getPolicyDocument": get_policy_document,
}
