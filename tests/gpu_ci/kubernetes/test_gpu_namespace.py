"""The resources of a namespace for GPU pods."""

from __future__ import annotations

import pulumi
from gpu_ci.kubernetes.gpu_namespace import GpuNamespace, GpuNamespaceArgs
from gpu_common import pulumi_wire

from tests.gpu_ci.harness import deploy


def test_a_login_is_a_secret_in_the_form_the_kubelet_reads_and_nothing_waits_for_its_value() -> None:
    def program() -> None:
        login = {"name": "ghcr", "registry": "ghcr.io", "username": "bot", "password": pulumi.Output.secret("pw")}
        GpuNamespace("ci", GpuNamespaceArgs(gpus=4, image_pull_secrets=[login]))

    made = deploy(program)
    secret = made.one(":Secret")
    assert (secret.inputs["metadata"], secret.inputs["type"]) == (
        {"name": "ghcr", "namespace": "ci"},
        "kubernetes.io/dockerconfigjson",
    )
    text = secret.inputs["stringData"]
    sealed = text if pulumi_wire.SIGNATURE in text else text[".dockerconfigjson"]
    assert sealed[pulumi_wire.SIGNATURE] == pulumi_wire.SECRET
    # base64 of bot:pw
    assert '{"auths": {"ghcr.io": {"auth": "Ym90OnB3"}}}' in str(sealed["value"])
