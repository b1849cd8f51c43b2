"""JUnit XML for GitLab, Jenkins and reporters for GitHub.

GitLab takes the suite from `classname`, shows the content of `failure`, and ignores a second test of the same name
(https://docs.gitlab.com/ci/testing/unit_test_reports). So names are unique, and the text is in the content as well as
in the attribute that Jenkins shows.
"""

from __future__ import annotations

from collections import Counter
from xml.etree import ElementTree

from .record import ERROR, FAIL, SKIP, WARN, Record, advice, number, safe_line, silent, title

_ELEMENT = {ERROR: "error", FAIL: "failure", SKIP: "skipped"}
_COUNTED = {"failures": FAIL, "errors": ERROR, "skipped": SKIP}
_PROPERTIES = {"host": ("driver", "kernel", "python"), "torch": ("version", "cuda"), "pool": ("node", "instance_type")}


def junit(record: Record) -> str:
    """Return one suite with a test for each check. A run that did not pass has at least one failed test."""
    checks = list(record["checks"])
    if silent(record):
        checks.append({"id": "complete", "status": ERROR, "message": record["summary"], "severity": "incomplete"})
    name = safe_line(record.get("pool", {}).get("name", ""), 100) or "gpu-smoke"
    counts = {"tests": str(len(checks))}
    counts |= {key: str(sum(check["status"] == status for check in checks)) for key, status in _COUNTED.items()}
    seconds = f"{number(record.get('seconds')) or 0:.3f}"
    root = ElementTree.Element("testsuites", counts | {"time": seconds})
    suite = ElementTree.SubElement(root, "testsuite", {"name": name} | counts | {"time": seconds})
    if isinstance(record.get("started"), str):  # JUnit schemas allow no time zone; the time is UTC
        suite.set("timestamp", safe_line(record["started"], 30).rstrip("Z"))
    _properties(suite, record)
    title_counts: Counter[str] = Counter()
    for check in checks:
        check_title = title(record, check)
        title_counts[check_title] += 1
        unique = check_title if title_counts[check_title] == 1 else f"{check_title} ({title_counts[check_title]})"
        _case(suite, name, unique, check)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _properties(suite: ElementTree.Element, record: Record) -> None:
    properties = {"verdict": record["verdict"], "exit_code": record.get("exit_code"), "tool": record.get("tool")}
    for part, names in _PROPERTIES.items():
        properties |= {f"{part}.{name}": record.get(part, {}).get(name) for name in names}
    element = ElementTree.SubElement(suite, "properties")
    for name, value in properties.items():
        if value not in (None, ""):
            ElementTree.SubElement(element, "property", {"name": name, "value": safe_line(value, 200)})


def _case(suite: ElementTree.Element, classname: str, name: str, check: Record) -> None:
    case = ElementTree.SubElement(suite, "testcase", {"classname": classname, "name": name})
    case.set("time", f"{number(check.get('seconds')) or 0:.3f}")
    if element := _ELEMENT.get(check["status"]):
        outcome = ElementTree.SubElement(case, element, {"message": safe_line(check["message"], 300)})
        if element != "skipped":
            outcome.set("type", safe_line(check.get("severity", ""), 40) or element)
            outcome.text = advice(check)
    else:
        ElementTree.SubElement(case, "system-out").text = ("warning: " if check["status"] == WARN else "") + advice(
            check
        )
