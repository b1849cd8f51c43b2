"""A runner is registered once, with the smallest permission, and GitHub's refusals are quoted."""

from __future__ import annotations

import base64
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from gpu_agent.github.registration import Registration, app_jwt
from gpu_agent.outcomes import OUTCOMES, AgentExit
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.agent.conftest import openssl
from tests.agent.fakes.github import RUNNER, Fault, World


def test_one_registration_takes_three_requests_and_describes_the_runner(world: World):
    assert world.register() == Registration(101, "planted-jitconfig-101")
    assert world.github.asked == ["token", "groups", "register"]
    assert world.github.runners[101] == {
        "id": 101,
        "name": "runner-a",
        "runner_group_id": 7,
        "labels": ["self-hosted", "gpu", "l4"],
        "work_folder": "_work",
    }


def test_a_token_for_a_repository_covers_only_this_repository_and_reads_no_group(world: World):
    assert world.register(repository="kernels").runner_id == 101
    [token] = world.github.tokens.values()
    assert token["permissions"] == {"administration": "write", "metadata": "read"}
    assert token["repositories"] == ["kernels"]
    assert world.github.asked == ["token", "register"]
    assert world.github.runners[101]["runner_group_id"] == 1


def test_a_taken_name_gets_a_suffix_three_times(world: World):
    names = [world.github.runners[world.register("runner-a").runner_id]["name"] for _ in range(4)]
    assert names == ["runner-a", "runner-a-2", "runner-a-3", "runner-a-4"]
    assert world.ended().startswith(
        "refused: GitHub answered 409 to a request for a runner's registration: "
        "Already exists - A runner with the name runner-a-4 already exists."
    )


def test_a_rehearsal_sends_every_request_except_the_registration(world: World):
    world.agent().rehearse(world.clock.now() + 60)
    assert world.github.asked == ["token", "groups"]
    world.agent(repository="kernels").rehearse(world.clock.now() + 60)
    assert world.github.asked == ["token", "groups", "token", "runners"]
    assert world.github.runners == {}


def test_a_busy_runner_is_not_removed(world: World):
    registration = world.register()
    world.github.busy.add(registration.runner_id)
    assert not world.agent().remove(registration.runner_id, world.clock.now() + 60)


def test_no_repr_contains_a_secret(world: World):
    registration, agent = world.register(), world.agent()
    assert "planted" not in repr(registration) + str(registration)
    assert "PRIVATE" not in repr(agent) + str(agent)


def test_an_agent_that_has_forgotten_the_key_gets_no_token(world: World) -> None:
    agent = world.agent()
    agent.rehearse(world.clock.now() + 60)
    agent.forget()
    assert not agent.remove(1, world.clock.now() + 60)
    assert world.github.asked.count("token") == 1


NOW = 1_800_000_000.9


def decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def test_it_is_a_jwt_that_names_the_app_from_a_minute_ago_for_five_minutes(app_key: bytes, public_key: RSAPublicKey):
    token = app_jwt("Iv23planted", app_key, NOW)
    head, claims, signature = token.split(".")
    assert json.loads(decoded(head)) == {"alg": "RS256", "typ": "JWT"}
    assert json.loads(decoded(claims)) == {"iat": 1_799_999_940, "exp": 1_800_000_300, "iss": "Iv23planted"}
    public_key.verify(decoded(signature), f"{head}.{claims}".encode(), PKCS1v15(), SHA256())
    assert "=" not in token


def unusable() -> dict[str, bytes]:
    key = openssl("genrsa", "2048")
    return {
        "nothing": b"",
        "words": b"planted words",
        "a cut key": key[: len(key) // 2],
        "a key under a passphrase": openssl("rsa", "-aes128", "-passout", "pass:x", content=key),
        "a public key": openssl("rsa", "-pubout", content=key),
        "an elliptic key": openssl("ecparam", "-genkey", "-noout", "-name", "prime256v1"),
        "an Ed25519 key": openssl("genpkey", "-algorithm", "ed25519"),
        "a key of 1024 bits": openssl("genrsa", "1024"),
        "base64 of a key": base64.b64encode(key),
        "a key with more around it than any has": key.ljust(16_385, b"\n"),
        "more than a pipe holds": key * 100,
        "zeros": bytes(100),
    }


def test_a_secret_that_is_no_rsa_key_stops_the_pool_and_is_not_quoted():
    for name, secret in unusable().items():
        with pytest.raises(AgentExit) as ended:
            app_jwt("1", secret, NOW)
        assert str(ended.value) == (
            "refused: the secret does not contain an unencrypted RSA private key of 2048 bits or more in PEM form"
        ), name
    assert OUTCOMES["refused"].stops_pool


def test_openssl_gets_the_key_through_a_pipe_and_nothing_else(
    app_key: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """A fake openssl records what any process of the machine could see, and then runs the real one."""
    stand_in = tmp_path / "openssl"
    stand_in.write_text(
        f"#!/bin/bash\ntr '\\0' '\\n' </proc/$$/cmdline >{tmp_path}/argv\nenv >{tmp_path}/environ\n"
        f'for each in /proc/$$/fd/*; do readlink "$each"; done >{tmp_path}/opened\n'
        f'exec {shutil.which("openssl")} "$@"\n'
    )
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("PLANTED", "planted")
    before = set(Path("/proc/self/fd").iterdir())
    app_jwt("1", app_key, NOW)
    seen = {name: (tmp_path / name).read_text() for name in ("argv", "environ", "opened")}
    lines = [line for line in app_key.decode().splitlines() if "-----" not in line]
    assert not [line for line in lines if any(line in text for text in seen.values())]
    assert "planted" not in seen["environ"]
    opened = {path for path in seen["opened"].splitlines() if path.startswith("/")}
    assert opened == {"/dev/null", str(stand_in), f"{tmp_path}/opened"}
    assert set(Path("/proc/self/fd").iterdir()) == before


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"app_id": "1"},
            "GitHub answered 404 to a request for a token of the App's installation: Integration not found",
        ),
        (
            {"installation_id": 1},
            (
                "GitHub answered 404 to a request for a token of the App's installation: Not Found; there is no such "
                "installation, organization or repository for this App; sent as installation 1 "
                "(gpu-ci:site.github.runnerApp.installationId)"
            ),
        ),
        ({"installation_id": 1}, "GitHub answered 404 to a request for a token of the App's installation: Not Found"),
        ({"owner": "other"}, "GitHub answered 404 to a request for the runner groups: Not Found"),
        (
            {"repository": "other"},
            "GitHub answered 422 to a request for a token of the App's installation: There is at",
        ),
        (
            {"runner_group": "GitHub-hosted"},
            "GitHub answered 403 to a request for a runner's registration: Resource not",
        ),
    ],
)
def test_a_request_without_the_apps_permission_is_refused_at_once(world: World, changes: dict[str, Any], words: str):
    assert world.ended(**changes).startswith(f"refused: {words}")
    assert world.clock.slept == []


@pytest.mark.parametrize("more", [{"contents": "read"}, {"organization_self_hosted_runners": "admin"}])
def test_a_token_with_more_permissions_than_requested_is_not_used(world: World, more: dict[str, str]):
    world.github.extra_permissions = more
    [(name, level)] = more.items()
    assert world.ended() == f"refused: GitHub's token has more permissions than requested: {name}: {level}"
    assert world.github.asked == ["token"]


def test_a_token_for_more_repositories_than_requested_is_not_used(world: World):
    body = {"token": "ghs_planted", "permissions": {}, "repositories": [{"name": "kernels"}, {"name": "website"}]}
    world.github.faults["token"] = [Fault(status=201, body=json.dumps(body).encode())]
    assert world.ended(repository="kernels").endswith("has more permissions than requested: repository website")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://api.github.com", "expected https, got http://api.github.com"),
        ("http://10.0.0.1/planted", "expected https, got http://10.0.0.1"),
        ("https://host/api?planted", "expected nothing after the path /api"),
        ("https://host/api#planted", "expected nothing after the path /api"),
        ("https://me:planted@host/", "expected an http or https URL with a host and without credentials"),
        ("api.github.com", "expected an http or https URL with a host and without credentials"),
        ("", "expected an http or https URL with a host and without credentials"),
        ("https://host/\nplanted", "the URL has characters that are not allowed in a URL"),
    ],
)
def test_the_key_is_not_used_for_an_address_that_is_not_plain_https(world: World, url: str, words: str):
    assert world.ended(api_url=url) == f"no-config: github.api_url: {words}"


EVERY_ROUTE = pytest.mark.parametrize("route", ["token", "groups", "register"])
SECONDARY = b'{"message": "You have exceeded a secondary rate limit. Please wait."}'


@EVERY_ROUTE
@pytest.mark.parametrize(
    "fault",
    [
        Fault("reset"),
        Fault("truncated"),
        Fault(status=500),
        Fault(status=200, body=b"<html>Please log in</html>"),
        Fault(status=201, body=b'{"token": "cut'),
        Fault(status=200, body=b"[" * 100_000),
    ],
    ids=lambda fault: f"{fault.how}{fault.status or ''}-{len(fault.body)}",
)
def test_a_temporary_fault_is_retried_after_1_2_and_4_seconds(world: World, route: str, fault: Fault):
    world.github.faults[route] = [fault] * 3
    assert world.register().runner_id == 101
    assert world.github.asked.count(route) == 4
    assert world.clock.slept == [1, 2, 4]


@EVERY_ROUTE
@pytest.mark.parametrize(
    ("fault", "waits"),
    [
        pytest.param(Fault(status=429, headers={"Retry-After": "20"}), [30], id="429 with seconds"),
        pytest.param(Fault(status=429), [90], id="429 without a time"),
        pytest.param(Fault(status=403, body=SECONDARY), [90], id="403 that is a secondary limit by its words"),
        pytest.param(Fault(status=403, headers={"X-RateLimit-Remaining": "0"}), [90], id="403 without a reset"),
    ],
)
def test_a_rate_limit_is_waited_for_and_at_most_half_as_long_again(
    world: World, route: str, fault: Fault, waits: list[float]
):
    world.github.faults[route] = [fault]
    assert world.register().runner_id == 101
    assert world.clock.slept == waits


@pytest.mark.parametrize("skew_sec", [-3600, 3600, -400, 400])
def test_a_machine_whose_clock_is_wrong_uses_githubs_clock(world: World, skew_sec: float):
    world.clock.skew_sec = skew_sec
    agent = world.agent()
    assert agent.register("runner-a", RUNNER, world.clock.now() + 300).runner_id == 101
    assert world.github.asked == ["token", "token", "groups", "register"]
    assert agent.skew_sec == pytest.approx(-skew_sec, abs=2)
    assert agent.remove(101, world.clock.now() + 60)
    assert world.github.asked[4:] == ["token", "remove"], "the second token needs no second try"


def test_a_token_in_githubs_message_is_not_repeated(world: World):
    world.github.faults["groups"] = [Fault(status=404, body=b'{"message": "who is ghs_planted0?"}')]
    assert "404 to a request for the runner groups: who is …?" in world.ended()


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
            st.sampled_from(FIELDS),
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
