"""Compute IAM policy documents, as the real provider does.

Source of the format: terraform-provider-aws, internal/service/iam/policy_document_data_source.go (at 04e9356d) and
policy_model.go (at 084fd7bc): single values without a list; actions, resources and identifiers in reverse order;
conditions and principals sorted by key.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from pulumi_sandbox.providers.inputs import rows
from pulumi_sandbox.providers.invokes import LookupRefusedError, go_json
from pulumi_sandbox.providers.resource import PureFunction

Document = dict[str, Any]


def get_policy_document(arguments: Mapping[str, Any]) -> dict[str, Any]:
    version = arguments.get("version") or "2012-10-17"
    own = {
        "Version": version,
        "Id": arguments.get("policyId"),
        "Statement": [_statement(one) for one in arguments.get("statements") or []],
    }
    documents = [
        *_parsed(arguments.get("sourcePolicyDocuments")),
        own,
        *_parsed(arguments.get("overridePolicyDocuments")),
    ]
    statements: dict[Any, Document] = {}
    for number, statement in enumerate(one for document in documents for one in _listed(document.get("Statement"))):
        # A statement replaces an earlier one with the same Sid.
        statements[statement.get("Sid") or number] = statement
    merged = {
        "Version": max(document.get("Version") or "" for document in documents),
        "Id": next((document["Id"] for document in reversed(documents) if document.get("Id")), None),
        "Statement": list(statements.values()),
    }
    ordered = {name: value for name, value in merged.items() if value}
    text = go_json(ordered, indented=True)
    return {
        # create.StringHashcode: the CRC-32 of the text as a decimal number
        "id": str(zlib.crc32(text.encode())),
        "json": text,
        "minifiedJson": go_json(ordered),
        "version": version,
    }


def _parsed(texts: Any) -> Iterable[Document]:
    for text in rows(texts):
        try:
            document = json.loads(text)
        except (TypeError, ValueError):
            document = None
        if not isinstance(document, dict):
            raise LookupRefusedError("aws.iam.getPolicyDocument: a document is not a JSON object")
        yield document


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if value else []


def _statement(given: Mapping[str, Any]) -> Document:
    fields = {
        "Sid": given.get("sid"),
        "Effect": given.get("effect") or "Allow",
        **{name: _strings(given.get(f"{name[0].lower()}{name[1:]}s"))
           for name in ("Action", "NotAction", "Resource", "NotResource")},
        "Principal": _principals(given.get("principals")),
        "NotPrincipal": _principals(given.get("notPrincipals")),
        "Condition": _conditions(given.get("conditions")),
    }  # fmt: skip
    return {name: value for name, value in fields.items() if value}


def _strings(given: Iterable[str] | None) -> Any:
    # IAM's variables are `&{…}` in the arguments, because Terraform has `${…}` for its own variables.
    return _one_or_list(sorted({one.replace("&{", "${") for one in given or []}, reverse=True))


def _one_or_list(values: list[str]) -> Any:
    return values[0] if len(values) == 1 else values


def _principals(given: list[Mapping[str, Any]] | None) -> Any:
    result: dict[str, list[str]] = {}
    for one in given or []:
        result.setdefault(one["type"], []).extend(_listed(_strings(one["identifiers"])))
    # `{"AWS": "*"}` is not changed. Only `{"*": "*"}` becomes "*".
    return "*" if result == {"*": ["*"]} else {kind: _one_or_list(ids) for kind, ids in sorted(result.items())}


def _conditions(given: list[Mapping[str, Any]] | None) -> Any:
    result: dict[str, dict[str, list[str]]] = {}
    for one in given or []:
        values = [value.replace("&{", "${") for value in one["values"]]
        result.setdefault(one["test"], {}).setdefault(one["variable"], []).extend(values)
    return {
        test: {variable: _one_or_list(values) for variable, values in sorted(variables.items())}
        for test, variables in sorted(result.items())
    }


FUNCTIONS: dict[str, PureFunction] = {
    "aws:iam/getPolicyDocument:getPolicyDocument": get_policy_document,
}
