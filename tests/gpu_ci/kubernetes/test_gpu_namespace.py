"""The resources of a namespace for GPU pods."""

from __future__ import annotations

from typing import Any

import pulumi
from gpu_ci.kubernetes.gpu_namespace import GpuNamespace, GpuNamespaceArgs
from gpu_common import pulumi_wire

from tests.gpu_ci.harness import deploy
from tests.gpu_ci.kubernetes.clusters import build

PRIVATE = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"]
# Networks of Google Cloud may have them, and no public server.
RESERVED = [
    *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
    "240.0.0.0/4",
]
WORLD = [
    {"ipBlock": {"cidr": "0.0.0.0/0", "except": [*PRIVATE, "169.254.0.0/16", *RESERVED]}},
    {"ipBlock": {"cidr": "::/0", "except": ["fc00::/7", "fe80::/10", "fd00:ec2::/32"]}},
]


def policies(**choices: Any) -> dict[str, Any]:
    rows = build(GpuNamespace, "ci", **choices).of(":NetworkPolicy")
    assert {row.inputs["metadata"]["namespace"] for row in rows} == {"ci"}
    return {row.inputs["metadata"]["name"]: row.inputs["spec"] for row in rows}


def test_by_default_it_enforces_the_strictest_level() -> None:
    labels = [
        build(GpuNamespace, "ci", **choices).one(":Namespace").inputs["metadata"]["labels"]
        for choices in ({}, {"podSecurity": "baseline"})
    ]
    assert labels == [
        {"pod-security.kubernetes.io/enforce": level, "pod-security.kubernetes.io/warn": level}
        for level in ("restricted", "baseline")
    ]


def test_the_quota_is_of_gpus_and_of_what_else_is_named() -> None:
    assert build(GpuNamespace, "ci").one(":ResourceQuota").inputs == {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpus", "namespace": "ci"},
        "spec": {"hard": {"requests.nvidia.com/gpu": "4", "pods": "16"}},
    }
    more = build(GpuNamespace, "ci", gpuResource="nvidia.com/gpu.shared", cpus=64, memoryGib=256)
    assert more.one(":ResourceQuota").inputs["spec"]["hard"] == {
        "requests.nvidia.com/gpu.shared": "4",
        "pods": "16",
        "requests.cpu": "64",
        "requests.memory": "256Gi",
    }


def test_nothing_comes_in_and_only_names_and_the_public_world_are_reached() -> None:
    assert policies() == {
        "deny": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
        "dns": {
            "podSelector": {},
            "policyTypes": ["Egress"],
            "egress": [
                {
                    "to": [
                        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}},
                        {"ipBlock": {"cidr": "169.254.20.10/32"}},
                    ],
                    "ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}],
                }
            ],
        },
        "egress": {
            "podSelector": {},
            "policyTypes": ["Egress"],
            "egress": [{"to": WORLD, "ports": [{"protocol": "TCP", "port": 443}]}],
        },
    }


def test_other_dns_servers_answer_on_the_port_of_dns_alone() -> None:
    [plain] = policies()["dns"]["egress"]
    more = ["169.254.169.254", "fd00:ec2::253", "169.254.20.10", "34.118.224.10"]
    [rule] = policies(dnsAddresses=more)["dns"]["egress"]
    blocks = [{"ipBlock": {"cidr": each}} for each in ("169.254.169.254/32", "fd00:ec2::253/128", "34.118.224.10/32")]
    assert rule == {"to": [*plain["to"], *blocks], "ports": plain["ports"]}
    assert policies(dnsAddresses=more)["egress"] == policies()["egress"]


def test_registries_have_their_ports_and_their_private_addresses() -> None:
    [rule] = policies(egressPorts=[443, 5000], privateRanges=["10.20.0.0/28"])["egress"]["egress"]
    assert rule == {
        "to": [*WORLD, {"ipBlock": {"cidr": "10.20.0.0/28"}}],
        "ports": [{"protocol": "TCP", "port": 443}, {"protocol": "TCP", "port": 5000}],
    }


def test_its_default_service_account_hands_out_no_token() -> None:
    assert build(GpuNamespace, "ci").one(":ServiceAccountPatch").inputs == {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": "ci"},
        "automountServiceAccountToken": False,
    }


def test_a_name_of_its_own_is_everywhere() -> None:
    made = build(GpuNamespace, "ci", namespace="gpu-runners")
    assert {row.inputs["metadata"].get("namespace", "gpu-runners") for row in made.rows[1:]} == {"gpu-runners"}
    assert made.one(":Namespace").inputs["metadata"]["name"] == "gpu-runners"
    assert made.outputs[made.rows[0].urn] == {"namespace": "gpu-runners"}


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
