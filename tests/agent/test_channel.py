"""The messages from the agent to its supervisor arrive complete, wherever the pipe splits them."""

from __future__ import annotations

import itertools
import os

import pytest
from gpu_agent.channel import Channel, Ending, Incoming
from gpu_agent.report import Verdict
from hypothesis import given
from hypothesis import strategies as st


def sent() -> bytes:
    """Return one message of each kind, as bytes of the pipe."""
    reader, writer = os.pipe()
    channel = Channel(writer)
    channel.step("check", 12.5)
    channel.restarting(True)
    channel.verdict(Verdict("fail", 1, "é\n漢", "check-failed"))
    channel.job({"job": "train"})
    channel.end(Ending("job-done", "it ended", stays=True))
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        return stream.read()


MESSAGES = [
    {"step": "check", "within_sec": 12.5},
    {"restarting": True},
    {"verdict": ["fail", 1, "é 漢", "check-failed"]},
    {"job": {"job": "train"}},
    {"end": ["job-done", "it ended", True]},
]


@given(st.lists(st.integers(0, 300), max_size=20))
def test_messages_arrive_whole_wherever_they_are_cut(cuts: list[int]) -> None:
    content, incoming, found = sent(), Incoming(), []
    places = [0, *sorted(min(cut, len(content)) for cut in cuts), len(content)]
    for start, end in itertools.pairwise(places):
        found += list(incoming.messages(content[start:end]))
    assert found == MESSAGES


def test_no_secret_goes_even_to_the_supervisor() -> None:
    reader, writer = os.pipe()
    Channel(writer).end(Ending("refused", "ghs_abcdefgh"))
    assert b"ghs_" not in os.read(reader, 4096)
    os.close(reader)
    with pytest.raises(BrokenPipeError):
        Channel(writer).restarting(True)
    os.close(writer)
