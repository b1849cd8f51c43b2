"""Publishes the report of a run, sets the commit status, and notifies. It runs last, also after a fault or a cancel.

Any file of the run can be missing. A step that fails does not stop the others. Only a report that cannot be stored
fails this task.

report.json:

    schema       1
    run, repository, branch, revision, time (of the report)
    verdict      passed, failed, or stopped (cancelled, or over the limit of the whole run)
    reason       one sentence
    notebooks    a list: notebook; status (passed, failed, timeout, error, or missing); error (name, message, cell) or
                 null; hint; seconds; waited (from the end of `prepare` to the start); peakMemoryMib; peakGpuMemoryMib;
                 html (a path in the folder of the run, or null). A value is null if it is unknown.
    tests        passed, failed, skipped, and failures (a list: name, message); null if no test ran
    tasks        a list: name, status, reason (both from Tekton), problem (the text of a fault, or null)
"""

from __future__ import annotations

import base64
import json
import logging
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import convert
import jinja2
from junitparser import JUnitXml

import common

TASKS = ("prepare", "execute", "fetch-tests", "convert", "test", "verdict")
FIGURES, FIGURES_OF_NOTEBOOK, FIGURE_BYTES = 40, 6, 500_000
"""The limits of the figures in the page: of all, of one notebook, and of one figure."""
MESSAGE_CHARACTERS = 4000
_IMAGES = ("image/png", "image/jpeg", "image/svg+xml")
_UNKNOWN = ("error", "hint", "seconds", "waited", "peakMemoryMib", "peakGpuMemoryMib", "html")


def main() -> None:
    prepared = attempt("the list of notebooks", lambda: common.get_json("prepared.json")) or {}
    notebooks: list[str] = prepared.get("notebooks", [])
    report = make_report(notebooks)
    pictures = {each: attempt(f"the figures of {each}", partial(figures, each)) or [] for each in notebooks}
    stored = attempt("the report", lambda: store(report, pictures))
    common.log(f"{report['verdict']}: {report['reason']}")
    passed = report["verdict"] == "passed"
    status = "success" if passed else "failure", report["reason"], common.report_url()
    attempt("the commit status", lambda: common.set_status(report["revision"], *status))
    attempt("the notification", lambda: notify(report, ended(report, passed)))
    if not stored:
        raise common.Fault("the report is not stored: the log of the task publish has the reason")


def store(report: dict[str, Any], pictures: dict[str, list[str]]) -> bool:
    """Store the report and its page."""
    common.put_json("report.json", report)
    common.put("index.html", page(report, pictures).encode())
    return True


def attempt(what: str, step: Callable[[], Any]) -> Any:
    """Return the value of a step; None, with a message in the log, if the step fails."""
    try:
        return step()
    except Exception as error:
        # The texts of other libraries can have the address of a notification.
        common.log(f"{what}: {error if isinstance(error, common.Fault) else type(error).__name__}")
        return None


def make_report(notebooks: list[str]) -> dict[str, Any]:
    """Return the content of report.json."""
    found = [attempt(each, partial(notebook_result, each)) or missing(each) for each in notebooks]
    tests = attempt("the results of the tests", test_results)
    tasks = [task for name in TASKS if (task := task_result(name))]
    verdict, reason = judge(found, tests, tasks)
    return {
        "schema": 1,
        "run": common.RUN,
        "repository": common.REPOSITORY,
        "branch": os.environ["BRANCH"].removeprefix("refs/heads/"),
        "revision": os.environ["REVISION"],
        "time": common.now(),
        "verdict": verdict,
        "reason": reason,
        "notebooks": found,
        "tests": tests,
        "tasks": tasks,
    }


def missing(notebook: str) -> dict[str, Any]:
    return {"notebook": notebook, "status": "missing", **dict.fromkeys(_UNKNOWN)}


def notebook_result(notebook: str) -> dict[str, Any]:
    """Return the result of a notebook. Its page is made here if `convert` did not run."""
    html = f"{common.folder(notebook)}/out.html"
    if not common.exists(html):
        convert.convert(notebook)
    found = common.get_json(f"{common.folder(notebook)}/result.json")
    if not found:
        found = missing(notebook)
        problem = text(common.problem_path("execute", notebook))
        found["error"] = {"name": "execute", "message": problem, "cell": None} if problem else None
    return {**found, "html": html if common.exists(html) else None}


def text(path: str) -> str | None:
    """Return the text of a stored file; None if it is missing."""
    content = common.get(path)
    return None if content is None else content.decode(errors="replace")


def test_results() -> dict[str, Any] | None:
    """Return the counts and the failures of the tests."""
    if (content := common.get("junit.xml")) is None:
        return None
    cases = [case for suite in JUnitXml.fromstring(content) for case in suite]
    bad = [case for case in cases if case.is_failure or case.is_error]
    failures = [
        {
            "name": f"{case.classname or ''}::{case.name}".removeprefix("::"),
            "message": "\n".join(filter(None, (each.text or each.message for each in case.result)))[
                :MESSAGE_CHARACTERS
            ],
        }
        for case in bad
    ]
    counts = {"passed": sum(case.is_passed for case in cases), "failed": len(bad)}
    return {**counts, "skipped": len(cases) - sum(counts.values()), "failures": failures}


def task_result(name: str) -> dict[str, Any] | None:
    """Return the end of a task as Tekton reports it; None if the pipeline has no such task."""
    status, reason = (os.environ.get(f"{name}-{what}".upper().replace("-", "_")) for what in ("status", "reason"))
    if status is None:
        return None
    # Tekton leaves a value that it does not know, such as the reason of a task that did not begin.
    reason = "" if not reason or reason.startswith("$(") else reason
    problem = None
    if status != "Succeeded" and name != "execute":  # a problem of `execute` belongs to its notebook
        problem = attempt(name, lambda: text(common.problem_path(name.replace("-", "_"))))
    return {"name": name, "status": status, "reason": reason, "problem": problem}


def judge(
    notebooks: list[dict[str, Any]], tests: dict[str, Any] | None, tasks: list[dict[str, Any]]
) -> tuple[str, str]:
    """Return the verdict and the reason."""
    of = {each["name"]: each for each in tasks}
    statuses = [each["status"] for each in notebooks]
    passed, failed = (tests["passed"], tests["failed"]) if tests else (0, 0)
    if of["verdict"]["status"] == "Succeeded":
        return "passed", f"{len(notebooks)} notebooks and {passed} tests passed"
    if any(each["reason"] == "TaskRunCancelled" for each in tasks):
        return "stopped", "the run was cancelled, or ran longer than timeouts.pipelineMin"
    faults = [each for each in tasks if each["status"] == "Failed" and each["name"] != "verdict"]
    if faults:
        return "failed", "; ".join(fault(each, notebooks) for each in faults)
    if of["verdict"]["status"] == "Failed":
        return "failed", "; ".join(common.problems(statuses, passed, failed))
    return "stopped", "the run ended before its verdict"


def fault(task: dict[str, Any], notebooks: list[dict[str, Any]]) -> str:
    """Return why a task failed, in one line."""
    errors = [each["error"]["message"] for each in notebooks if each["status"] == "missing" and each["error"]]
    problem = task["problem"] or (errors[0] if task["name"] == "execute" and errors else "")
    if task["reason"] == "TaskRunTimeout" and task["name"] == "execute":
        problem = problem or "no node with a free GPU in time (timeouts.queueMin)"
    return f"{task['name']} failed: {problem.partition(chr(10))[0] or task['reason'] or 'no reason is known'}"


def figures(notebook: str) -> list[str]:
    """Return the images of a notebook's outputs as data URIs."""
    content = common.get(f"{common.folder(notebook)}/out.ipynb")
    found: list[str] = []
    for cell in json.loads(content)["cells"] if content else ():
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            kind = next((each for each in _IMAGES if each in data), None)
            if kind is None or len(found) == FIGURES_OF_NOTEBOOK:
                continue
            value = "".join(data[kind])
            raw = value.encode() if kind == "image/svg+xml" else base64.b64decode(value)
            if len(raw) <= FIGURE_BYTES:
                found.append(f"data:{kind};base64,{base64.b64encode(raw).decode()}")
    return found


def page(report: dict[str, Any], pictures: dict[str, list[str]]) -> str:
    """Return the page of a report. Everything in it is escaped."""
    # Cloud Storage's page for a browser redirects, so a relative link would lead to another host.
    base = "" if common.STORE.startswith("file://") else common.report_url().removesuffix("index.html")
    left, shown = FIGURES, {}
    for notebook, found in pictures.items():
        shown[notebook] = found[:left]
        left -= len(shown[notebook])
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.filters |= {"seconds": in_words, "gib": lambda mib: "-" if mib is None else f"{mib / 1024:.1f} GiB"}
    template = environment.from_string(Path(__file__).with_name("report.html").read_text(encoding="utf-8"))
    return template.render(report=report, figures=shown, link=lambda path: base + quote(path))


def in_words(seconds: float | None) -> str:
    """Return a duration, such as 3 min 20 s."""
    if seconds is None:
        return "-"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"


def ended(report: dict[str, Any], passed: bool) -> set[str]:
    """Return what the end of this run is: failure, success, recovery. Keep it for the next run of the branch."""
    path = f"latest-{report['branch'].replace('/', '~')}.json"  # no branch has a ~ in its name
    before = attempt("the run before", lambda: common.get_json(path, of_run=False)) or {}
    attempt(
        "the run before",
        lambda: common.put_json(
            path, {key: report[key] for key in ("run", "revision", "time", "verdict")}, of_run=False
        ),
    )
    if not passed:
        return {"failure"}
    return {"success", "recovery"} if before.get("verdict", "passed") != "passed" else {"success"}


def notify(report: dict[str, Any], ends: set[str]) -> None:
    """Send a notification of the ends that the pipeline reports."""
    wanted = ends & set(os.environ["NOTIFY_ON"].split())
    if not wanted:
        return
    logging.disable()  # Apprise writes parts of the address into its log.
    import apprise

    state = "recovered" if "recovery" in wanted else report["verdict"]
    title = f"{report['repository']} {report['branch']}: notebooks {state}"
    body = "\n".join(filter(None, (report["reason"], report["revision"], common.report_url())))
    sender = apprise.Apprise()
    if not sender.add(common.SECRETS["NOTIFY_URL"]) or not sender.notify(body=body, title=title):
        raise common.Fault(
            "the receiver did not take it\n  path: notify.url\n  hint: send one with the command apprise"
        )


if __name__ == "__main__":
    common.run(main)
