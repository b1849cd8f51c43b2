"""A configuration that is none."""

from __future__ import annotations

import pytest
from gpu_agent.config import parse
from gpu_agent.outcomes import AgentExit


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "the machine's metadata has no gpu-agent-config"),
        ("", "the machine's metadata has no gpu-agent-config"),
        ("{", "gpu-agent-config is no JSON: "),
        ("[" * 100_000, "gpu-agent-config is no configuration: it is nested without an end"),
    ],
)
def test_it_ends_the_machine_with_what_is_wrong(text: str | None, words: str) -> None:
    with pytest.raises(AgentExit) as ended:
        parse(text)
    assert ended.value.end.reason == "no-config"
    assert ended.value.detail.startswith(words)
