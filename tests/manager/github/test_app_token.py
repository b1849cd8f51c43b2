"""The installation token of the manager's App: when it is created, with which fields, and that no secret is exposed."""

from __future__ import annotations

import logging
from pathlib import Path

import httpx2
import pytest
from gpu_manager.github.adapter import GithubAdapter
from gpu_manager.github.app_token import App
from gpu_manager.ports import Refused

from tests.manager.github.fake_github import KEY, FakeGithub, adapter, job, new_key, run

KERNELS = "example-org/kernels"


def mints(github: FakeGithub) -> int:
    return sum("access_tokens" in each for each in github.asked)


def test_a_token_is_renewed_five_minutes_before_its_hour_ends(github: FakeGithub, manager: GithubAdapter) -> None:
    manager.observe(())
    github.clock.pass_time(3299)
    manager.observe(())
    assert mints(github) == 1
    github.clock.pass_time(1)
    assert manager.observe(()).problems == ()
    assert mints(github) == 2


@pytest.mark.parametrize("skew_sec", [600.0, -600.0, 86_400.0])
def test_a_wrong_clock_of_the_machine_is_found_by_githubs_date(
    github: FakeGithub, tmp_path: Path, skew_sec: float
) -> None:
    github.clock.skew_sec = skew_sec
    manager = adapter(github, tmp_path)
    view = manager.observe(())
    manager.close()
    assert (view.problems, view.unix) == ((), github.clock.unix_now)


def test_a_new_key_is_read_without_a_restart(github: FakeGithub, manager: GithubAdapter, tmp_path: Path) -> None:
    manager.observe(())
    new, github.public_key = new_key()
    (tmp_path / "app.pem").write_bytes(new)
    github.clock.pass_time(3600)
    assert manager.observe(()).problems == ()


def test_the_key_may_be_a_secret_of_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    """moto is an emulator of AWS Secrets Manager that others keep."""
    from botocore.session import get_session  # type: ignore[import-untyped]
    from moto import mock_aws

    arn = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:github-manager-app-key"
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        client = get_session().create_client("secretsmanager", region_name="eu-west-1")
        with pytest.raises(Refused, match="ResourceNotFoundException") as missing:
            App(1, 2, arn).signed({})
        assert arn in str(missing.value)
        client.create_secret(Name="github-manager-app-key", SecretString=KEY.decode())
        assert App(1, 2, arn).signed({"iss": "1"}).count(".") == 2
        client.put_secret_value(SecretId="github-manager-app-key", SecretString="no key: s3cret")
        with pytest.raises(Refused, match="does not contain an unencrypted RSA private key") as wrong:
            App(1, 2, arn).signed({})
        assert "s3cret" not in str(wrong.value)


def test_a_token_that_was_revoked_is_replaced_within_the_request(github: FakeGithub, manager: GithubAdapter) -> None:
    manager.observe(())
    github.clock.pass_time(60)
    github.tokens.append("ghs_another")
    assert manager.observe(()).problems == ()
    assert mints(github) == 2


def test_a_401_to_a_new_token_creates_no_other_token(github: FakeGithub, manager: GithubAdapter) -> None:
    github.faults["/runner-groups"] = lambda _: httpx2.Response(401, json={"message": "Bad credentials"})
    assert manager.observe(()).jobs is None
    assert manager.observe(()).jobs is None
    assert mints(github) == 1


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "the App's key cannot be read: No such file or directory"),
        (b"planted-key-text", "does not contain an unencrypted RSA private key of 2048 bits or more in PEM form"),
        (b"", "does not contain an unencrypted RSA private key of 2048 bits or more in PEM form"),
    ],
)
def test_a_key_that_cannot_be_used_is_named_by_its_file_alone(
    github: FakeGithub, manager: GithubAdapter, tmp_path: Path, content: bytes | None, problem: str
) -> None:
    file = tmp_path / "app.pem"
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    assert manager.observe(()).problems == (f"{file}: {problem}",)
    assert github.asked == []


def test_no_secret_is_in_a_log_a_problem_or_a_repr(
    github: FakeGithub, manager: GithubAdapter, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    bearers: set[str] = set()

    def keep(request: httpx2.Request) -> None:
        bearers.add(request.headers["authorization"].removeprefix("Bearer "))

    github.faults["/"] = keep  # every request passes it
    github.runs["kernels"] = [run(1, "queued")]
    github.jobs[1] = [job(1, 1, "queued")]
    texts = [repr(manager.observe(()))]
    bearer = github.tokens[-1]
    github.faults = {"/runner-groups": lambda _: httpx2.Response(403, json={"message": f"no, {bearer} may not"})}
    texts += manager.observe(()).problems
    github.faults = {"/runner-groups": lambda _: httpx2.Response(502, json={"message": f"broken: {bearer}"})}
    texts += manager.observe(()).problems

    def broken(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("connection refused", request=request)

    github.faults = {"": broken}
    texts += manager.observe(()).problems
    texts += [repr(value) for value in (manager, vars(manager), manager._client._token, vars(manager._client))]
    assert len(bearers) == 2
    secrets = [*bearers, KEY.decode(), KEY.decode().splitlines()[3]]
    everything = "\n".join([*texts, caplog.text, *(str(vars(record)) for record in caplog.records)])
    assert "…" in everything
    assert caplog.records
    assert [secret for secret in secrets if secret in everything] == []
