"""Any sequence of faults in a registration: it ends in time, in an expected way, and reveals no secret."""

from __future__ import annotations

import json
from typing import Any

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from gpu_agent.github.registration import Registration
from gpu_agent.outcomes import AgentExit
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.agent.fakes.github import Fault
from tests.agent.fakes.world import RUNNER, World

SECONDARY = b'{"message": "You have exceeded a secondary rate limit. Please wait."}'
HEADERS = st.dictionaries(
    st.sampled_from(["Retry-After", "X-RateLimit-Remaining", "X-RateLimit-Reset", "Date"]),
    st.one_of(
        st.sampled_from(["0", "1", "30", "1800001200", "Thu, 01 Jan 2026 00:00:00 GMT", "soon"]),
        st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30),
    ),
)
FIELDS = ["message", "token", "permissions", "metadata", "repositories", "runner_groups", "id", "name", "runner"]
FIELDS += ["encoded_jit_config"]
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=10)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                [
                    "message",
                    "token",
                    "permissions",
                    "repositories",
                    "runner_groups",
                    "id",
                    "name",
                    "runner",
                    "metadata",
                    "encoded_jit_config",
                ]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=8,
)
BODIES = st.one_of(st.binary(max_size=20), VALUES.map(lambda value: json.dumps(value).encode()), st.just(SECONDARY))
STATUSES = st.sampled_from([0, 200, 201, 204, 301, 400, 401, 403, 404, 409, 418, 422, 429, 500, 502, 503])
FAULTS = st.builds(
    Fault, st.sampled_from(["", "", "hang", "drip", "reset", "truncated"]), STATUSES, HEADERS, BODIES, st.booleans()
)


@settings(max_examples=60)
@given(
    faults=st.dictionaries(st.sampled_from(["token", "groups", "register"]), st.lists(FAULTS, max_size=6)),
    time_sec=st.sampled_from([0.05, 1.0, 30.0, 300.0, 3000.0]),
    skew_sec=st.sampled_from([0, -3600, 3600]),
    repository=st.sampled_from(["", "kernels"]),
)
def test_any_faults_end_in_time_without_an_early_retry_or_a_revealed_secret(
    app_key: bytes,
    public_key: RSAPublicKey,
    faults: dict[str, list[Fault]],
    time_sec: float,
    skew_sec: float,
    repository: str,
):
    world = World(app_key, public_key)
    world.clock.skew_sec = skew_sec
    world.github.faults = {route: list(planned) for route, planned in faults.items()}
    deadline = world.clock.now() + time_sec
    agent = world.agent(repository=repository)
    said: Any
    try:
        said = agent.register("runner-a", RUNNER, deadline)
        assert isinstance(said, Registration)
    except AgentExit as ended:
        said = ended
    assert world.clock.now() <= deadline
    # Each route has at most one request for each fault and one more, except for taken names, a clock difference and
    # pages of groups.
    planned = sum(map(len, faults.values()))
    assert len(world.github.asked) <= planned + 3 + 3 + 1
    assert len(world.github.runners) <= 1 + planned
    output = f"{said!r} {said}"
    for secret in ["planted", *world.github.bearers, *app_key.decode().splitlines()[1:-1]]:
        assert secret not in output
