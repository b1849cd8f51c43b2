"""The steps of `gpu-ci doctor` about a GKE cluster of a stack.

STEPS, at the end, lists the steps in order. The function of a step sends read-only requests to Google, or runs a
command that changes nothing, and returns a Finding. It raises NotAskedError if there is no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Network, ip_network
from typing import Any

from gpu_ci.cli import google_api, programs
from gpu_ci.cli.doctor import deployer, google, kubernetes
from gpu_ci.cli.doctor.kubernetes import KubernetesCluster
from gpu_ci.cli.doctor.steps import Finding, Step, problems_or_pass
from gpu_ci.cli.programs import NotAskedError
from gpu_ci.cli.stack_files import StackFile
from gpu_ci.errors import ArgsError
from gpu_ci.kubernetes.kueue_labels import WEBHOOK_PORT
from gpu_ci.stack.clusters import CLUSTERS

PLUGIN = "gke-gcloud-auth-plugin"
APIS = ("compute.googleapis.com", "container.googleapis.com")
"""The services that must be enabled in the project of a cluster, even without pools."""
_OF_PROJECT = ("apis", "permissions")
"""The steps that the group google has too, for the stack's own project."""
# docs.cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters#Status and
# …/projects.locations.clusters.nodePools#Status. GKE changes something while a status is RECONCILING.
_USABLE = ("RUNNING", "RECONCILING")
_BROKEN = ("ERROR", "RUNNING_WITH_ERROR")


@dataclass(frozen=True)
class Cluster(KubernetesCluster):
    """A cluster, and the pools of one stack file on it."""

    name: str
    location: str
    project: google.Project
    """The project of the cluster and of its nodes."""
    pools: Mapping[str, Any]
    network_policies: bool
    """True if the stack file says that the cluster enforces network policies."""
    kueue: bool
    """True if the cluster has Kueue."""
    context: str = ""
    plugin_namespace: str = ""

    @property
    def place(self) -> str:
        """The options with which a command of gcloud finds the cluster."""
        return f"--location {self.location} --project {self.project.name}"

    @property
    def connect_command(self) -> str:
        return f"gcloud container clusters get-credentials {self.name} {self.place}"

    @cached_property
    def described(self) -> dict[str, Any]:
        """The cluster as GKE describes it."""
        name = f"projects/{self.project.name}/locations/{self.location}/clusters/{self.name}"
        found = google_api.find(
            self.project.call, "container", "v1", lambda api: api.projects().locations().clusters().get(name=name)
        )
        if found is None:
            raise _MissingError
        return found


class _MissingError(NotAskedError):
    """The cluster does not exist."""

    def __init__(self) -> None:
        super().__init__("the cluster does not exist")


def target(file: StackFile, name: str, context: str, connect: Callable[[], google_api.Call]) -> Cluster:
    """Return one cluster of a stack file. Raise LookupError if the file does not describe it."""
    described = file.values[CLUSTERS][name]
    pools = file.pools_on(name)
    apis = tuple(sorted({*APIS, *deployer.services(pools.values())}))
    permissions = tuple(deployer.of_pools(pools.values()))
    project = google.Project(described.get("project") or file.project, {}, {}, apis, (), permissions, connect, pools)
    policies, kueue = bool(described.get("networkPolicies", True)), bool(described.get("kueue"))
    return Cluster(name, described["location"], project, pools, policies, kueue, context)


def steps(file: StackFile, cluster: Cluster) -> Sequence[Step[Cluster]]:
    """Return the steps for a cluster. The group google covers the stack's own project."""
    own = cluster.project.name == file.project
    return [step for step in STEPS if not own or step.name not in _OF_PROJECT] + [KUEUE_STEP] * cluster.kueue


def plugin_is_installed(_: Cluster) -> Finding:
    try:
        output = programs.run([PLUGIN, "--version"])
    except programs.NotInstalledError:
        fix = (f"gcloud components install {PLUGIN}  # or the package google-cloud-cli-{PLUGIN}",)
        return Finding("fail", f"{PLUGIN} is not installed here", fix=fix)
    text = (output.out or output.err).strip().splitlines()
    return Finding("pass" if output.code == 0 else "fail", text[0] if text else f"exit code {output.code}")


def cluster_is_ready(cluster: Cluster) -> Finding:
    try:
        found = cluster.described
    except _MissingError:
        place = f"{cluster.location} of {cluster.project.name}"
        fix = (f"gcloud container clusters list --project {cluster.project.name}  # names and locations",)
        return Finding("fail", f"{cluster.name} does not exist in {place}", fix=fix)
    version = str(found.get("currentMasterVersion", ""))
    details = {key: found.get(key) for key in ("status", "currentMasterVersion", "autopilot", "networkPolicy",
                                               "networkConfig", "releaseChannel")}  # fmt: skip
    problems = [] if found.get("status") in _USABLE else [f"the cluster is {found.get('status')}"]
    autopilot = bool((found.get("autopilot") or {}).get("enabled"))
    real = {"location": cluster.location, "control_plane_version": version, "autopilot": autopilot}
    for pool, args in cluster.pools.items():
        # The check of the stack file did not know the version, on which drivers, markets and upgrades depend.
        try:
            type(args)(**{**dict(args), **real})
        except ArgsError as error:
            problems += [f"{pool}: {each.path}: {each.text}" for each in error.problems]
    return problems_or_pass(problems, f"{found.get('status')}, version {version}", details)


def policies_are_enforced(cluster: Cluster) -> Finding:
    found = cluster.described
    provider = (found.get("networkConfig") or {}).get("datapathProvider")
    if provider == "ADVANCED_DATAPATH":
        return Finding("pass", "Dataplane V2 enforces network policies", provider)
    if (found.get("networkPolicy") or {}).get("enabled"):
        return Finding("pass", "network policy enforcement is on", found.get("networkPolicy"))
    if not cluster.network_policies:
        return Finding("pass", "the stack file has networkPolicies: false; jobs can connect to private addresses")
    update = f"gcloud container clusters update {cluster.name} {cluster.place}"
    # docs.cloud.google.com/kubernetes-engine/docs/how-to/network-policy, "Enable network policy enforcement".
    fix = (
        f"{update} --update-addons NetworkPolicy=ENABLED",
        f"{update} --enable-network-policy  # creates all nodes again",
    )
    return Finding("fail", "the cluster enforces no network policies", found.get("networkConfig"), fix)


def nodes_reach_internet(cluster: Cluster) -> Finding:
    network = cluster.described.get("networkConfig") or {}
    links = {pool.subnetwork or network.get("subnetwork") for pool in cluster.pools.values()}
    subnetworks = sorted(link for link in links if isinstance(link, str))
    if not subnetworks:
        return Finding("unknown", "the answer names no subnetwork of the cluster", network)
    good = f"{', '.join(link.rpartition('/')[2] for link in subnetworks)} can reach the internet"
    return google.subnetworks_reach_internet(cluster.project, subnetworks, good, [])


def node_pools_are_healthy(cluster: Cluster) -> Finding:
    pools = cluster.described.get("nodePools") or []
    broken = {each["name"]: each for each in pools if each.get("status") in _BROKEN}
    problems = [
        ": ".join(filter(None, (name, *(each.get("message", "") for each in pool.get("conditions") or ()))))
        for name, pool in broken.items()
    ]
    details = {name: {key: each.get(key) for key in ("status", "conditions")} for name, each in broken.items()}
    describe = f"gcloud container node-pools describe --cluster {cluster.name} {cluster.place}"
    fix = [f"{describe} {name}" for name in broken]
    return problems_or_pass(problems, f"none of {len(pools)} node pools has an error", details, fix=fix)


def webhook_is_reached(cluster: Cluster) -> Finding:
    """Check the port of Kueue's webhooks. The control plane reaches private nodes on ports 443 and 10250 only.

    Source: docs.cloud.google.com/kubernetes-engine/docs/how-to/private-clusters#add_firewall_rules.
    """
    private = cluster.described.get("privateClusterConfig") or {}
    if not private.get("enablePrivateNodes"):
        return Finding("pass", "the nodes are not private", private)
    source, link = private.get("masterIpv4CidrBlock"), (cluster.described.get("networkConfig") or {}).get("network")
    if not source or not link:
        return Finding("unknown", "the answer names no address range of the control plane, or no network", private)
    _, project, _, _, network = link.split("/")
    answer = google_api.ask(cluster.project.call, "compute", "v1", lambda api: api.firewalls().list(project=project))
    rules = [rule for rule in answer.get("items", []) if rule["network"].endswith(link)]
    if any(_allows(rule, source) for rule in rules):
        return Finding("pass", f"a firewall rule of {network} allows port {WEBHOOK_PORT} from {source}")
    create = f"gcloud compute firewall-rules create gke-{cluster.name}-kueue --network {network} --project {project}"
    fix = (f"{create} --direction INGRESS --source-ranges {source} --allow tcp:{WEBHOOK_PORT}",)
    text = f"no firewall rule of {network} allows port {WEBHOOK_PORT} from the control plane, {source}"
    return Finding("fail", text, [rule["name"] for rule in rules], fix)


def _allows(rule: Mapping[str, Any], source: str) -> bool:
    """Return True if an ingress rule allows the port of the webhooks from a range of addresses."""
    if rule.get("direction") != "INGRESS" or rule.get("disabled"):
        return False
    ranges = [ip_network(each) for each in rule.get("sourceRanges", ())]
    inside = [one for one in ranges if isinstance(one, IPv4Network) and IPv4Network(source).subnet_of(one)]
    return bool(inside) and any(_has_port(each) for each in rule.get("allowed", ()))


def _has_port(allowed: Mapping[str, Any]) -> bool:
    if allowed["IPProtocol"] not in ("tcp", "6", "all"):
        return False
    bounds = [(each.partition("-")[0], each.rpartition("-")[2]) for each in allowed.get("ports", ("0-65535",))]
    return any(int(low) <= WEBHOOK_PORT <= int(high) for low, high in bounds)


def _of_project(ask: Callable[[google.Project], Finding]) -> Callable[[Cluster], Finding]:
    return lambda cluster: ask(cluster.project)


STEPS: tuple[Step[Cluster], ...] = (
    Step("apis", "the APIs of the cluster's project are enabled", _of_project(google.apis_enabled)),
    Step("permissions", "the deployer may create node pools", _of_project(google.permissions_granted)),
    Step(
        "plugin", "the program is installed where Pulumi runs", plugin_is_installed,
        "install it: docs.cloud.google.com/kubernetes-engine/docs/how-to/cluster-access-for-kubectl",
    ),
    Step(
        "cluster", "a Standard cluster that is RUNNING, with a version that the pools need", cluster_is_ready,
        "correct `location` and `project` of the cluster, or upgrade the control plane",
    ),
    Step("network policies", "Dataplane V2 or network policy enforcement is on", policies_are_enforced),
    Step("machines", "every zone offers the machine type and its GPU", _of_project(google.machines_offered)),
    Step("quotas", "the limits allow `max` nodes", _of_project(google.quotas_suffice)),
    Step(
        "networks", "the nodes' subnetwork has Private Google Access, and its region a Cloud NAT", nodes_reach_internet
    ),
    Step("node pools", "no node pool has an error", node_pools_are_healthy),
    *kubernetes.STEPS,
)  # fmt: skip
KUEUE_STEP: Step[Cluster] = Step(
    "kueue webhook", f"the control plane reaches port {WEBHOOK_PORT} of Kueue", webhook_is_reached
)
"""A step for clusters with Kueue."""
