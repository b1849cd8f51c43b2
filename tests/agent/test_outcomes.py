"""The table of reasons with which a machine ends, and the code that uses it."""

from __future__ import annotations

import ast
from pathlib import Path

import gpu_agent
from gpu_agent.outcomes import OUTCOMES

AGENT = Path(gpu_agent.__file__).parent


def words() -> set[str]:
    """Return all texts of the agent's code, without those of the table."""
    files = [file for file in AGENT.rglob("*.py") if file.name != "outcomes.py"]
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text())))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def reasons() -> set[str]:
    """Return all reasons in the agent's code that are written directly as an argument of AgentExit."""
    nodes = (node for file in AGENT.rglob("*.py") for node in ast.walk(ast.parse(file.read_text())))
    calls = (node for node in nodes if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "AgentExit")
    firsts = [call.args[0] for call in calls]
    return {first.value for first in firsts if isinstance(first, ast.Constant) and isinstance(first.value, str)}


def test_every_reason_that_the_agent_raises_is_in_the_table() -> None:
    assert len(reasons()) > 15
    assert reasons() <= set(OUTCOMES)


def test_every_reason_of_the_table_is_used() -> None:
    assert set(OUTCOMES) - words() == set()
