"""The stack file that the engine gets, and the real one, which no command changes."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
import yaml
from gpu_common.passphrase import opens
from pulumi_sandbox.cli import arguments
from pulumi_sandbox.stacks import OWN_PASSPHRASE, engine_copy

from tests.sandbox.conftest import Project
from tests.sandbox_runner import SandboxRunner

# A salt whose passphrase is not known here.
FOREIGN_SALT = "v1:TQLjDfBNZJo=:v1:kP6VmZ6vT2jS8uRO:6Jm5kqNy1Zl6VYJt2cXz8h3o2mO6bQ=="
CIPHERTEXT = "AAABALJq4tXUMZkF"
GOOGLE_KMS = "gcpkms://projects/acme-ci/locations/us-central1/keyRings/pulumi/cryptoKeys/pulumi-secrets"
CONFIG = f"config:\n  small:who: world  # kept\n  small:pw: {{secure: {CIPHERTEXT}}}\n"
REAL = {
    "gcpkms": f"secretsprovider: {GOOGLE_KMS}\nencryptedkey: CiQAabcdef==\n{CONFIG}",
    "awskms": f"{CONFIG}secretsprovider: awskms://alias/ci?region=us-east-1\nencryptedkey: AQICAH==\n",
    "another passphrase": f"# ours\nencryptionsalt: {FOREIGN_SALT}\n{CONFIG}",
    "the Pulumi service": CONFIG,
}
PLAIN = "config:\n  small:who: world\n"
PROGRAM = (
    "import pulumi\nconfig = pulumi.Config()\npulumi.export('who', config.require('who'))\n"
    "pulumi.export('pw', config.get_secret('pw'))\n"
)


@pytest.mark.parametrize(
    ("encrypted_by", "form"),
    [
        *((each, "block") for each in REAL),
        *((each, form) for each, form in zip(
            [*REAL, "gcpkms"], ["flow", "json", "indented", "comment", "block scalar"], strict=True)),
    ],
)  # fmt: skip
def test_the_engine_gets_the_sandboxs_encryption_and_everything_else_as_it_is(encrypted_by: str, form: str) -> None:
    text = REAL[encrypted_by]
    document = yaml.safe_load(text)
    texts = {
        "block": text,
        "flow": yaml.safe_dump(document, default_flow_style=True, width=10_000),
        "json": yaml.safe_dump(document, default_flow_style=True, default_style='"', width=10_000),
        "indented": "".join(f"  {line}" for line in text.splitlines(keepends=True)),
        "comment": f"# first\n---\n{text}# last\n",
        "block scalar": text.replace(f"{{secure: {CIPHERTEXT}}}", f"\n    secure: |\n      {CIPHERTEXT}\n"),
    }
    copy = engine_copy(texts[form])
    found = yaml.safe_load(copy.text)
    assert (copy.encrypted_by, copy.placeholders, copy.passphrase) == (encrypted_by, ("small:pw",), OWN_PASSPHRASE)
    assert opens(found.pop("encryptionsalt"), OWN_PASSPHRASE)
    assert not found.pop("secretsprovider", "")
    assert not found.pop("encryptedkey", "")
    assert found["config"].pop("small:pw")["secure"].startswith("v1:")
    assert found == {"config": {"small:who": "world"}}
    assert CIPHERTEXT not in copy.text


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}", "config: {}\n", PLAIN, "config:\n  a: 0o17 # yes\n"])
def test_a_file_without_secrets_gets_a_salt_and_keeps_its_text(text: str) -> None:
    copy = engine_copy(text)
    found = yaml.safe_load(copy.text)
    assert opens(found.pop("encryptionsalt"), OWN_PASSPHRASE)
    assert (found, copy.encrypted_by) == (yaml.safe_load(text) or {}, "")
    lines = {line.partition("#")[0].rstrip() for line in text.splitlines()} - {"", "{}"}
    assert lines <= set(copy.text.splitlines())


def test_a_time_of_day_stays_text() -> None:
    assert yaml.safe_load(engine_copy("config:\n  a: {end: 18:00}\n").text)["config"] == {"a": {"end": "18:00"}}


def test_a_file_that_a_passphrase_of_the_user_or_the_sandbox_opens_is_used_as_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = engine_copy(CONFIG).text
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "another")
    assert engine_copy(text) == engine_copy(text)
    assert (engine_copy(text).text, engine_copy(text).passphrase) == (text, "sandbox")


@pytest.mark.parametrize("text", ["config: [", "- a\n", "just text", "config: &a [*a]\n"])
def test_a_file_that_is_no_stack_file_is_left_to_the_engine(text: str) -> None:
    assert engine_copy(text).text == text


@pytest.mark.parametrize(
    "words",
    ["destroy --remove -s prod", "stack init prod --secrets-provider=x", "stack change-secrets-provider x",
     "stack init qa --copy-config-from prod", "stack migrate"],
)  # fmt: skip
def test_commands_on_the_stack_file_itself_are_refused(words: str) -> None:
    assert "\n  hint: " in arguments.parse(words.split()).refusal
    assert not arguments.parse([*words.split(), "--help"]).refusal


# From here on with the real CLI.

# Each command with True if it succeeds. `config` commands that change the file are refused.
COMMANDS = (
    ("stack select prod", True),
    ("preview -s prod", True),
    ("preview", True),
    ("up -s prod --yes --skip-preview", True),
    ("up --yes --skip-preview -c small:more=1", True),
    ("refresh -s prod --yes --skip-preview", True),
    ("config -s prod", True),
    ("config get who -s prod", True),
    ("config get pw -s prod", True),
    ("config set who you -s prod", False),
    ("config set --secret pw hush -s prod", False),
    ("config set-all --plaintext who=you -s prod", False),
    ("config rm who -s prod", False),
    ("config cp --dest prod -s plain", False),
    ("config refresh --force -s prod", False),
    ("stack output --show-secrets", True),
    ("stack history --show-secrets", True),
    ("stack export -s prod", True),
    ("new python --force --yes --stack prod", False),
    ("stack change-secrets-provider passphrase -s prod", False),
    ("stack init prod", False),
    ("stack rename other -s prod", True),
    ("stack rename prod", True),
    ("destroy -s prod --yes --remove", False),
    ("destroy -s prod --yes --skip-preview", True),
    ("stack rm prod --yes", True),
    ("stack init prod", True),
    ("preview", True),
    ("stack rm prod --yes", True),
    ("stack select prod --create", True),
)
FIRST_COMMANDS = (("preview -s prod", True), ("up -s prod --yes --skip-preview", True), COMMANDS[9])


@pytest.fixture
def runner(project: Project) -> SandboxRunner:
    made = project(PROGRAM)
    (made.project / "Pulumi.plain.yaml").write_text(PLAIN)
    return made


def files(runner: SandboxRunner) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in runner.project.glob("Pulumi.*")}


@pytest.mark.engine
@pytest.mark.parametrize(
    ("encrypted_by", "commands"),
    [
        ("gcpkms", FIRST_COMMANDS),
        *(pytest.param(each, COMMANDS if each == "awskms" else FIRST_COMMANDS, marks=pytest.mark.slow)
          for each in REAL if each != "gcpkms"),
    ],
)  # fmt: skip
def test_no_command_changes_a_file_that_real_deployments_use(
    runner: SandboxRunner, encrypted_by: str, commands: tuple[tuple[str, bool], ...]
) -> None:
    (runner.project / "Pulumi.prod.yaml").write_text(REAL[encrypted_by])
    before = files(runner)
    for words, succeeds in commands:
        begin = time.monotonic()
        finished = runner.run(*words.split(), "--non-interactive", ok=succeeds)
        assert files(runner) == before, words
        assert time.monotonic() - begin < 40, words
        assert CIPHERTEXT not in finished.output
        if words == "preview -s prod":
            assert f"which {encrypted_by} encrypts: small:pw" in finished.output


@pytest.mark.engine
@pytest.mark.slow
def test_a_killed_command_leaves_the_file_as_it_is(runner: SandboxRunner) -> None:
    (runner.project / "Pulumi.prod.yaml").write_text(REAL["gcpkms"])
    before = files(runner)
    for pause_sec in (0.2, 0.8, 1.6):
        process = runner.start("preview", "-s", "prod", "--non-interactive")
        time.sleep(pause_sec)
        process.send_signal(signal.SIGKILL)
        process.wait()
        runner.gone()
        assert files(runner) == before


@pytest.mark.engine
@pytest.mark.slow
def test_a_stack_whose_file_gets_a_key_service_later_works_at_once(runner: SandboxRunner) -> None:
    file = runner.project / "Pulumi.dev.yaml"
    before = file.read_bytes()
    runner.run("up", "-s", "dev", "--yes", "--skip-preview")
    assert file.read_bytes() == before, "the salt of the sandbox is not in the file"
    file.write_text(REAL["gcpkms"])
    begin = time.monotonic()
    runner.run("up", "-s", "dev", "--yes", "--skip-preview")
    assert time.monotonic() - begin < 40
    outputs = runner.json("stack", "output", "-s", "dev", "--json", "--show-secrets")
    assert outputs == {"who": "world", "pw": "emulated-by-sandbox-secret"}


@pytest.mark.engine
@pytest.mark.slow
def test_a_program_gets_placeholders_of_tokens_and_the_command_for_a_provider_that_is_missing(project: Project) -> None:
    runner = project(
        "import os, pulumi\n"
        "pulumi.export('tokens', [os.environ.get('GITHUB_TOKEN'), os.environ.get('GH_TOKEN')])\n"
        "pulumi.CustomResource('fifth:index/thing:Thing', 'x', {}) if pulumi.Config().get('fifth') else None\n"
    )
    runner.run("up", "-s", "dev", "--yes", "--skip-preview", GITHUB_TOKEN="ghp_real")
    assert runner.json("stack", "output", "-s", "dev", "--json")["tokens"] == ["emulated-by-sandbox-token", None]
    sdk = runner.folder / "path" / "pulumi_fifth" / "pulumi-plugin.json"
    sdk.parent.mkdir(parents=True)
    sdk.write_text('{"resource": true, "name": "fifth", "version": "4.18.0"}')
    failed = runner.run("up", "-s", "dev", "--yes", "--skip-preview", "-c", "fifth=1", ok=False,
                        PYTHONPATH=str(sdk.parents[1]))  # fmt: skip
    assert "hint: if the program uses it: pulumi-sandbox plugin install resource fifth 4.18.0" in failed.output
