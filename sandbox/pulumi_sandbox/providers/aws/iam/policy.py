"""Compute aws.iam.getPolicyDocument: the same IAM policy document as that of the real provider.

Source of the format: terraform-provider-aws, internal/service/iam/policy_document_data_source.go (at 04e9356d) and
policy_model.go (at 084fd7bc):

- two spaces of indentation,
- fields in the order of the Go struct,
- single values without a list,
- actions, resources and identifiers in reverse order,
- conditions and principals sorted by key.

Sets that the real provider does not sort keep the order of the inputs. Their real order depends on a hash of Terraform.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from typing import Any

from pulumi_sandbox.providers.go_json import go_json
from pulumi_sandbox.providers.lookup_template import LookupRefusedError

VERSIONS = ("2008-10-17", "2012-10-17")
SID = re.compile(r"[a-zA-Z0-9]*\Z")
FIELDS = ("Sid", "Effect", "Action", "NotAction", "Resource", "NotResource", "Principal", "NotPrincipal", "Condition")
KNOWN = {name.lower(): name for name in FIELDS}

Document = dict[str, Any]


def get_policy_document(arguments: Mapping[str, Any]) -> dict[str, Any]:
    for removed in ("sourceJson", "overrideJson"):
        if arguments.get(removed):
            raise _error(f"{removed} is not used; write {removed.removesuffix('Json')}PolicyDocuments")
    version = arguments.get("version") or "2012-10-17"
    if version not in VERSIONS:
        raise _error(f'version: got "{version}", expected one of {", ".join(VERSIONS)}')
    merged: Document = {}
    sids: set[str] = set()
    for at, text in enumerate(arguments.get("sourcePolicyDocuments") or []):
        source = _parse(text, f"source document {at}") if text is not None else {}
        for number, statement in enumerate(source.get("Statement", [])):
            sid = statement.get("Sid")
            if sid and sid in sids:
                raise _error(
                    f"merging source document {at}: duplicate Sid ({sid}) in source_policy_documents "
                    f"(statement {number}). Remove the Sid or ensure Sids are unique."
                )
            sids.add(sid or "")
        _merge(merged, source)
    _merge(merged, _document(arguments, version))
    for at, text in enumerate(arguments.get("overridePolicyDocuments") or []):
        _merge(merged, _parse(text, f"override document {at}") if text is not None else {})
    ordered = {name: merged[name] for name in ("Version", "Id", "Statement") if merged.get(name)}
    document = go_json(ordered, indented=True)
    return {
        # create.StringHashcode: the CRC-32 of the text as a decimal number
        "id": str(zlib.crc32(document.encode())),
        "json": document,
        "minifiedJson": go_json(ordered),
        "version": version,
    }


def _document(arguments: Mapping[str, Any], version: str) -> Document:
    statements: list[Document] = []
    sids: set[str] = set()
    for at, statement in enumerate(arguments.get("statements") or []):
        sid = statement.get("sid") or ""
        if sid in sids - {""}:
            raise _error(f"duplicate Sid ({sid}). Remove the Sid or ensure the Sid is unique.")
        if not SID.match(sid):
            raise _error(f"statements[{at}].sid: {sid!r} must only include alphanumeric characters")
        effect = statement.get("effect") or "Allow"
        if effect not in ("Allow", "Deny"):
            raise _error(f'statements[{at}].effect: got "{effect}", expected Allow or Deny')
        sids.add(sid)
        fields = {
            "Sid": sid,
            "Effect": effect,
            "Action": _strings(statement.get("actions")),
            "NotAction": _strings(statement.get("notActions")),
            "Resource": _with_variables(_strings(statement.get("resources")), version),
            "NotResource": _with_variables(_strings(statement.get("notResources")), version),
            "Principal": _principals(statement.get("principals"), version),
            "NotPrincipal": _principals(statement.get("notPrincipals"), version),
            "Condition": _conditions(statement.get("conditions"), version),
        }
        statements.append({name: value for name, value in fields.items() if value})
    return {"Version": version, "Id": arguments.get("policyId"), "Statement": statements}


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


def _parse(text: str, subject: str) -> Document:
    """Parse a document. Like Go, ignore the case of keys and drop unknown keys."""
    try:
        fields = {name.lower(): value for name, value in json.loads(text).items()}
    except (ValueError, AttributeError):
        raise _error(f"merging {subject}: it is not a JSON object") from None
    if not isinstance(fields.get("statement", []), list):
        raise _error(f"merging {subject}: Statement must be a list")
    statements = []
    for one in fields.get("statement", []):
        statement = {KNOWN[name.lower()]: value for name, value in one.items() if name.lower() in KNOWN}
        for name in ("Principal", "NotPrincipal"):
            if isinstance(statement.get(name), Mapping):
                statement[name] = {
                    kind: sorted(ids, reverse=True) if isinstance(ids, list) else ids
                    for kind, ids in sorted(statement[name].items())
                }
                statement[name] = "*" if statement[name] in ({"*": "*"}, {"*": ["*"]}) else statement[name]
            elif statement.get(name):
                statement[name] = "*"
        if statement.get("Condition"):
            statement["Condition"] = {
                test: {variable: _single_value(values) for variable, values in sorted(variables.items())}
                for test, variables in sorted(statement["Condition"].items())
            }
        statements.append({name: statement[name] for name in FIELDS if statement.get(name)})
    return {"Version": fields.get("version"), "Id": fields.get("id"), "Statement": statements}


def _single_value(values: Any) -> Any:
    if isinstance(values, bool):
        return "true" if values else "false"
    return values[0] if isinstance(values, list) and len(values) == 1 else values


def _strings(given: list[str] | None) -> Any:
    distinct = sorted(set(given or []), reverse=True)
    return distinct[0] if len(distinct) == 1 else distinct


def _with_variables(value: Any, version: str) -> Any:
    """Convert the variables of IAM from `&{…}` to `${…}`, which Terraform uses for its own variables."""
    if isinstance(value, list):
        return [_with_variables(one, version) for one in value]
    if "&{" in value and version == "2008-10-17":
        raise _error(f"found &{{ sequence in ({value}), which is not supported in document version 2008-10-17")
    return value.replace("&{", "${")


def _principals(given: list[Mapping[str, Any]] | None, version: str) -> Any:
    result: dict[str, Any] = {}
    for one in given or []:
        kind, ids = one["type"], _with_variables(_strings(one["identifiers"]), version)
        if kind in result:
            before = result[kind] if isinstance(result[kind], list) else [result[kind]]
            ids = before + (ids if isinstance(ids, list) else [ids])
        result[kind] = ids
    # `{"AWS": "*"}` is not changed. Only `{"*": "*"}` becomes "*".
    return "*" if result == {"*": "*"} else dict(sorted(result.items()))


def _conditions(given: list[Mapping[str, Any]] | None, version: str) -> Any:
    result: dict[str, dict[str, list[str]]] = {}
    for one in given or []:
        variables = result.setdefault(one["test"], {})
        variables.setdefault(one["variable"], []).extend(_with_variables(list(one["values"]), version))
    return {
        test: {variable: _single_value(values) for variable, values in sorted(variables.items())}
        for test, variables in sorted(result.items())
    }


def _error(problem: str) -> LookupRefusedError:
    return LookupRefusedError(f"aws:iam/getPolicyDocument:getPolicyDocument: writing IAM Policy Document: {problem}")
