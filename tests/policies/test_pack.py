"""Tests of the pack as the engine uses it: its own environment, the SDK's runner, and gRPC."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import empty_pb2, struct_pb2
from gpu_ci_policies.rules import RULES
from gpu_common import pulumi_wire
from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc

from tests.conftest import ROOT

from .samples import GOOD
from .support import JOB, TEMPLATE, pod

BUCKET = "gcp:storage/bucket:Bucket"

# The engine's placeholder for an unknown text (pulumi_policy/proxy.py has the same).
UNKNOWN_TEXT = pulumi_wire.UNKNOWN_STRING
SIGNATURE = pulumi_wire.SIGNATURE
SECRET_SIGNATURE = pulumi_wire.SECRET
MANDATORY, ADVISORY = analyzer_pb2.MANDATORY, analyzer_pb2.ADVISORY


@contextlib.contextmanager
def served(policy_python: Path, **environment: str) -> Iterator[analyzer_pb2_grpc.AnalyzerStub]:
    command = [policy_python, "-u", "-m", "pulumi.policy", "127.0.0.1:1", str(ROOT / "policies")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}) as process:
        try:
            assert process.stdout is not None
            with grpc.insecure_channel(f"127.0.0.1:{int(process.stdout.readline())}") as channel:
                yield analyzer_pb2_grpc.AnalyzerStub(channel)
        finally:
            process.kill()


@pytest.fixture(scope="module")
def pack(policy_python: Path) -> Iterator[analyzer_pb2_grpc.AnalyzerStub]:
    with served(policy_python) as stub:
        yield stub


@pytest.fixture(autouse=True)
def unconfigured(pack: analyzer_pb2_grpc.AnalyzerStub) -> None:
    configure(pack)


def configure(pack: analyzer_pb2_grpc.AnalyzerStub, **rules: dict[str, Any]) -> None:
    request = analyzer_pb2.ConfigureAnalyzerRequest()
    for rule, settings in rules.items():
        given = request.policyConfig[rule.replace("_", "-")]
        given.enforcementLevel = MANDATORY
        given.properties.update(settings)
    pack.Configure(request)


def context(kind: str, props: dict[str, Any], name: str = "x") -> dict[str, Any]:
    properties = struct_pb2.Struct()
    properties.update(props)
    return {"type": kind, "name": name, "urn": f"urn:pulumi:dev::p::{kind}::{name}", "properties": properties}


def broken(pack: analyzer_pb2_grpc.AnalyzerStub, kind: str, props: dict[str, Any], name: str = "x") -> list[Any]:
    answer = pack.Analyze(analyzer_pb2.AnalyzeRequest(**context(kind, props, name)))
    return [(each.policyName, each.enforcementLevel, each.message) for each in answer.diagnostics]


def test_the_engine_gets_every_rule_with_its_level_and_its_settings(
    pack: analyzer_pb2_grpc.AnalyzerStub,
) -> None:
    info = pack.GetAnalyzerInfo(empty_pb2.Empty())
    assert info.name == "gpu-ci"
    assert [(each.name, each.description, each.remediation_steps) for each in info.policies] == [
        (rule.name, rule.title, rule.fix) for rule in RULES
    ]
    assert [each.name for each in info.policies if each.enforcementLevel == ADVISORY] == ["no-job-pods", "runner-fresh"]
    assert {each.enforcementLevel for each in info.policies} == {MANDATORY, ADVISORY}
    schemas = {each.name: set(each.configSchema.properties) for each in info.policies}
    assert schemas["no-public-ip"] == {"exempt"}
    assert schemas["imds-hop-limit"] == {"maxHops", "exempt"}


def test_a_violation_says_the_rule_what_is_wrong_and_how_to_mend_it(pack: analyzer_pb2_grpc.AnalyzerStub) -> None:
    [(rule, level, message)] = broken(pack, JOB, pod({"name": "a", "image": "python:3"}))
    assert (rule, level) == ("pinned-images", MANDATORY)
    assert message == (
        "Pods of jobs, checks and runners name their image by digest.\n"
        "spec.template.spec.containers[a].image is python:3, which has no digest.\n"
        "To fix it: Write the image as name:tag@sha256:…; docker buildx imagetools inspect prints the digest."
    )


def test_unknown_values_are_skipped_and_the_others_are_checked(pack: analyzer_pb2_grpc.AnalyzerStub) -> None:
    unknown = {"name": UNKNOWN_TEXT, "image": UNKNOWN_TEXT, "resources": UNKNOWN_TEXT}
    assert broken(pack, JOB, pod(unknown)) == []
    both = broken(pack, JOB, pod(unknown, {"name": "b", "image": "python:3"}))
    assert [(rule, level) for rule, level, _ in both] == [("pinned-images", MANDATORY)]
    assert "containers[b]" in both[0][2]


def test_a_secret_is_read_and_never_repeated(pack: analyzer_pb2_grpc.AnalyzerStub) -> None:
    token = "ghp_" + "a1B2" * 9
    props = {"stringData": {SIGNATURE: SECRET_SIGNATURE, "value": {"key": token}}}
    [(rule, _, message)] = broken(pack, "kubernetes:core/v1:Secret", props)
    assert rule == "no-github-token"
    assert "stringData.key holds a personal access token" in message
    assert token not in message


def test_a_rule_that_asks_the_catalog_can_be_asked(pack: analyzer_pb2_grpc.AnalyzerStub) -> None:
    props = {"metadata": {"gpu-agent-config": '{"runner": {"version": "2.300.0"}}'}}
    [(rule, _, message)] = broken(pack, TEMPLATE, props)
    assert rule == "runner-accepted"
    assert "runner.version is 2.300.0, and GitHub registers 2.329.0 or later" in message


def test_without_the_catalog_the_rules_that_ask_it_are_passed_over_and_no_others(
    policy_python: Path, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['gpu_catalog'] = None\n")
    props = {"metadata": {"gpu-agent-config": '{"runner": {"version": "2.300.0"}}'}}
    with served(policy_python, PYTHONPATH=str(tmp_path)) as alone:
        answer = alone.Analyze(analyzer_pb2.AnalyzeRequest(**context(TEMPLATE, props)))
    missing = "the package gpu_catalog is not installed in the environment of the pack"
    assert list(answer.diagnostics) == []
    passed_over = [(each.policy_name, each.reason) for each in answer.not_applicable]
    assert passed_over == [(name, missing) for name in ("runner-accepted", "runner-fresh")]


def test_every_sample_passes_what_is_mandatory(pack: analyzer_pb2_grpc.AnalyzerStub) -> None:
    for kind, props in GOOD:
        assert [rule for rule, level, _ in broken(pack, kind, props) if level == MANDATORY] == [], kind


def test_settings_and_exemptions_reach_their_rule_and_no_other(pack: analyzer_pb2_grpc.AnalyzerStub) -> None:
    tomorrow, yesterday = (str(date.today() + timedelta(days)) for days in (1, -1))
    exempt = {"resource": "x", "reason": "agreed with finance", "until": tomorrow}
    configure(pack, own_keys={"required": True, "exempt": [exempt]})
    assert broken(pack, BUCKET, {}) == []
    [(rule, _, message)] = broken(pack, BUCKET, {}, name="y")
    assert (rule, message.splitlines()[1]) == ("own-keys", "encryption.defaultKmsKeyName names no key.")
    assert [rule for rule, *_ in broken(pack, JOB, pod({"name": "a", "image": "x"}))] == ["pinned-images"]

    configure(pack, own_keys={"required": True, "exempt": [exempt | {"until": yesterday}]})
    [(_, _, message)] = broken(pack, BUCKET, {})
    assert message.splitlines()[1:3] == [
        "encryption.defaultKmsKeyName names no key.",
        f"An exemption expired on {yesterday}: agreed with finance.",
    ]


def test_settings_that_no_rule_reads_are_refused_with_what_may_be_meant(pack: analyzer_pb2_grpc.AnalyzerStub) -> None:
    configure(pack, own_keys={"required": True})
    with pytest.raises(grpc.RpcError) as refused:
        configure(pack, imds_hop_limit={"maxHop": 2}, own_key={"required": False})
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    info = refused.value.details().splitlines()
    assert info[:3] == ["settings of the policies:", "imds-hop-limit.maxHop: no such setting", "  got: maxHop"]
    assert info[4:7] == ["  hint: did you mean maxHops?", "own-key: no such rule", "  got: own-key"]
    assert len(broken(pack, BUCKET, {})) == 1, "what is refused leaves the settings as they were"
