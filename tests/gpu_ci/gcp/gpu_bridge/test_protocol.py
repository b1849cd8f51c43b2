"""Step and machine agree on the objects that they exchange. The agent cannot import the step's module."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gpu_agent import storage as agent_storage
from gpu_agent.build import output, session, workspace
from gpu_agent.outcomes import OUTCOMES
from gpu_ci.gcp.gpu_bridge import build, protocol
from gpu_ci.gcp.gpu_bridge.protocol import parse_result

RESULT: dict[str, Any] = {
    "format": 1,
    "failed": "command",
    "reason": "",
    "detail": "",
    "exit_code": 3,
    "signal": None,
    "logs": 2,
    "artifacts": None,
    "seconds": {"fetch": 0.1},
}


def test_both_ends_have_the_same_names_limits_and_reasons() -> None:
    assert (protocol.FORMAT, protocol.REQUEST_KEY) == (workspace.FORMAT, workspace.KEY)
    assert (protocol.RESULT, protocol.ARTIFACTS) == (session.RESULT, session.ARTIFACTS)
    assert protocol.DIGEST == agent_storage.DIGEST
    assert protocol.log_name("p/", 12) == output.name_of("p/", 12)
    assert {*build._OF_RESULT} <= {*OUTCOMES}
    assert {*build._HINTS} - {*OUTCOMES} == {"no-verdict"}


def test_the_machines_limits_after_the_command_end_before_google_deletes_the_machine() -> None:
    terminate = session._TERM_SEC + session._CLEAR_SEC
    assert workspace.PACK_SEC < session._ARTIFACTS_SEC
    last = session._ARTIFACTS_SEC + session._REPORT_SEC + session._READ_SEC
    assert session._START_SEC + terminate + last < protocol.REPORT_SEC


def test_a_result_is_read() -> None:
    result = parse_result(json.dumps(RESULT).encode())
    assert (result.exit_code, result.signal, result.logs) == (3, None, 2)


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"[]", b"null", b"\xff"),
        json.dumps({**RESULT, "format": 2}).encode(),
        json.dumps({key: value for key, value in RESULT.items() if key != "logs"}).encode(),
    ],
)
def test_anything_else_is_no_result(content: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each case has another text
        parse_result(content)
