"""The gate's identity is pulumi-gcp's: the same variables of the environment, in the same order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import google.auth
import pytest
from google.auth import impersonated_credentials
from google.auth.credentials import AnonymousCredentials
from google.oauth2 import credentials as oauth2
from gpu_ci.gcp.gate.google_service import PLATFORM, CredentialsError, credentials

pytestmark = pytest.mark.filterwarnings("ignore:The load_credentials_from_dict method:DeprecationWarning")

COMPUTE = "https://www.googleapis.com/auth/compute"
USER = {"type": "authorized_user", "client_id": "1", "client_secret": "2", "refresh_token": "of-json"}


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The scopes that application default credentials were asked for."""
    asked: list[list[str]] = []

    def default(scopes: list[str]) -> tuple[Any, None]:
        asked.append(scopes)
        return AnonymousCredentials(), None  # type: ignore[no-untyped-call]

    monkeypatch.setattr(google.auth, "default", default)
    return asked


def test_an_access_token_comes_first() -> None:
    found = credentials({"GOOGLE_OAUTH_ACCESS_TOKEN": "ya29.x", "GOOGLE_CREDENTIALS": json.dumps(USER)})
    assert isinstance(found, oauth2.Credentials)
    assert (found.token, found.refresh_token) == ("ya29.x", None)


def test_an_access_token_may_end_with_a_newline_and_is_never_in_an_error() -> None:
    assert credentials({"GOOGLE_OAUTH_ACCESS_TOKEN": "ya29.x\n"}).token == "ya29.x"
    with pytest.raises(CredentialsError, match="is not an access token") as raised:
        credentials({"GOOGLE_OAUTH_ACCESS_TOKEN": "ya29.x\nya29.y"})
    assert "ya29" not in str(raised.value)


@pytest.mark.parametrize("name", ["GOOGLE_CREDENTIALS", "GOOGLE_CLOUD_KEYFILE_JSON", "GCLOUD_KEYFILE_JSON"])
@pytest.mark.parametrize("in_file", [True, False])
def test_credentials_are_json_or_a_file_with_it(name: str, in_file: bool, tmp_path: Path) -> None:
    file = tmp_path / "key.json"
    file.write_text(json.dumps(USER))
    assert credentials({name: str(file) if in_file else f" {json.dumps(USER)}"}).refresh_token == "of-json"


def test_of_several_variables_the_one_that_pulumi_gcp_reads_first_counts() -> None:
    names = ["GOOGLE_CREDENTIALS", "GOOGLE_CLOUD_KEYFILE_JSON", "GCLOUD_KEYFILE_JSON"]
    given = {name: json.dumps({**USER, "refresh_token": name}) for name in names}
    for name in names:
        assert credentials(given).refresh_token == name
        del given[name]


def test_without_a_variable_they_are_application_default_credentials(asked: list[list[str]]) -> None:
    assert isinstance(credentials({}), AnonymousCredentials)
    assert asked == [[COMPUTE]]


@pytest.mark.parametrize("more", [{}, {"GOOGLE_OAUTH_ACCESS_TOKEN": "ya29.x"}])
def test_an_account_to_act_as_is_acted_as_whatever_the_source(more: dict[str, str], asked: list[list[str]]) -> None:
    account = "ci@example-ci.iam.gserviceaccount.com"
    found = credentials({"GOOGLE_IMPERSONATE_SERVICE_ACCOUNT": account, **more})
    assert isinstance(found, impersonated_credentials.Credentials)
    assert found.service_account_email == account
    assert isinstance(found._source_credentials, oauth2.Credentials if more else AnonymousCredentials)
    assert found._target_scopes == [COMPUTE]
    assert asked == ([] if more else [[PLATFORM]])


@pytest.mark.parametrize("given", ["{ hush", "[]", "/no/such/hush.json", '"hush"'])
def test_what_holds_no_credentials_is_refused_without_being_shown(given: str) -> None:
    with pytest.raises(CredentialsError) as caught:
        credentials({"GOOGLE_CREDENTIALS": given})
    assert str(caught.value) == (
        "GOOGLE_CREDENTIALS: does not contain credentials\n  expected: a key in JSON, or the path of a file with a key"
    )


INCOMPLETE: list[dict[str, Any]] = [
    {"type": "impersonated_service_account", "service_account_impersonation_url": "https://hush"},
    {"type": "impersonated_service_account", "source_credentials": "hush"},
    {"type": "impersonated_service_account", "source_credentials": USER},
]


@pytest.mark.parametrize("given", INCOMPLETE, ids=lambda given: "-".join(given))
def test_credentials_with_a_field_too_few_are_named_and_not_shown(given: dict[str, Any]) -> None:
    with pytest.raises(CredentialsError) as caught:
        credentials({"GOOGLE_CREDENTIALS": json.dumps(given)})
    assert str(caught.value) == (
        "GOOGLE_CREDENTIALS: fields are missing or malformed\n  expected: all fields of the credentials type, such as "
        "source_credentials of an impersonated_service_account"
    )
