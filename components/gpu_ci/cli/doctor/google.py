"""The steps of `gpu-ci doctor` about the Google Cloud project of a stack.

STEPS, at the end, lists the steps in order. The function of a step sends read-only requests to Google, and returns a
Finding. It raises NotAskedError if Google does not answer, or refuses the request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from gpu_catalog import limits
from gpu_common import google_permissions

from gpu_ci.cli.doctor import deployer
from gpu_ci.cli.doctor.steps import Finding, Step, problems_or_pass
from gpu_ci.cli.google_api import Call, ask, caller, find, quota_project
from gpu_ci.cli.programs import NotAskedError
from gpu_ci.cli.stack_files import StackFile
from gpu_ci.gcp.gate.runner import GATE_LABEL
from gpu_ci.gcp.machine.args import GpuMachineChoices
from gpu_ci.gcp.machine.software import is_signed
from gpu_ci.secret_manager import aws_secret
from gpu_ci.stack import quotas
from gpu_ci.stack.site import MANAGER, app_entries

# The steps that concern a stack without machines.
_EVERY_PROJECT = ("project", "quota project", "apis", "permissions", "secrets")

# Google creates the VMs of managed instance groups with the identity of the Google APIs service agent
# (cloud.google.com/iam/docs/service-account-types). The agent needs one of AGENT_ROLES, or both AGENT_MACHINES and
# AGENT_ACCOUNTS. With AGENT_ACCOUNTS, it may create VMs that use the service accounts of pools.
AGENT_ROLES = {"roles/editor", "roles/owner"}
AGENT_MACHINES, AGENT_ACCOUNTS = "roles/compute.instanceAdmin.v1", "roles/iam.serviceAccountUser"

# Organization policies that are enforced or not. Each text is the effect on pools and their checks if it is enforced.
CONSTRAINTS = {
    "compute.disableGuestAttributesAccess": "the check's verdict is then read from the serial port alone",
    "compute.disableSerialPortLogging": "steps and serial output of a VM are then not in Cloud Logging",
    "iam.disableServiceAccountCreation": "a pool makes an account for its VMs",
}
_ROLE_FOR_ATTESTATIONS = "sign.attestor creates a custom role: run pulumi up as an owner of the project"
_BINARY_AUTHORIZATION = "binaryauthorization.googleapis.com"
# This policy matters only for pools whose image may have an unsigned driver.
SHIELDED = "compute.requireShieldedVm"

_IMAGE = re.compile(r"projects/(?P<project>[^/]+)/global/images/(?P<family>family/)?(?P<name>[^/]+)$")
_IMAGE_FIELDS = ("name", "status", "deprecated", "creationTimestamp", "diskSizeGb")
_SUBNETWORK = re.compile(r"projects/(?P<project>[^/]+)/regions/(?P<region>[^/]+)/subnetworks/(?P<name>[^/]+)$")
_REGION = re.compile(r"[a-z]+-[a-z]+\d+")
# A long list of permissions is sent in several requests, because Google may refuse a request that is too long.
_PERMISSIONS_PER_REQUEST = 100


@dataclass(frozen=True)
class Project:
    """A project and the pools of one stack file in it."""

    name: str
    pools: Mapping[str, Any]
    """The arguments of the pools on Compute Engine."""
    subnetworks: Mapping[str, str]
    """The existing subnetworks, by region. In other regions, the stack creates a network."""
    apis: tuple[str, ...]
    """The services that the stack calls."""
    secrets: tuple[str, ...]
    """The secrets with the private keys of the stack's GitHub Apps, as projects/<project>/secrets/<name>."""
    permissions: tuple[str, ...]
    """The permissions that the deployer needs on the project."""
    connect: Callable[[], Call]
    nodes: Mapping[str, Any] = field(default_factory=dict)
    """The arguments of the pools of one GKE cluster in the project."""
    without_role_rights: str = google_permissions.USE_BOOTSTRAP_ROLES
    """The advice for a deployer that may not create roles."""

    @cached_property
    def call(self) -> Call:
        return self.connect()

    @property
    def machines(self) -> list[GpuMachineChoices]:
        """The machines of all pools, also those of ladders."""
        return [*(rung for pool in self.pools.values() for rung in pool.rungs), *self.nodes.values()]

    @property
    def regions(self) -> list[str]:
        return sorted({machine.region for machine in self.machines})


def target(file: StackFile, connect: Callable[[], Call]) -> Project:
    """Return the project of a stack file with its pools on Compute Engine."""
    site = file.values["gpu-ci:site"] or {}
    keys = [app.get("privateKey") for app in app_entries(site.get("github")).values()]
    keys += [spec.choices.get(name) for spec in file.specs for name in spec.model.SECRETS_OF_MANAGER]
    secrets = tuple(dict.fromkeys(key for key in keys if isinstance(key, str) and not aws_secret(key)))
    machines = [(name, args) for name, args in file.pools if args.REGISTERED_BY == "machines"]
    pools = {name: args for name, args in machines if isinstance(args, GpuMachineChoices)}
    permissions, apis = tuple(deployer.permissions(file)), tuple(sorted(set(_apis(file, bool(pools)))))
    found = Project(file.project, pools, site.get("subnetworks") or {}, apis, secrets, permissions, connect)
    if deployer.uses_bootstrap_roles(file) and deployer.attests(file):
        found = replace(found, without_role_rights=_ROLE_FOR_ATTESTATIONS)
    return found


def _apis(file: StackFile, has_machines: bool) -> Iterator[str]:
    """Yield the services that the stack calls, and those of the steps of this module."""
    types = deployer.types(file)
    yield from google_permissions.services(types)
    yield from ("cloudresourcemanager.googleapis.com", "secretmanager.googleapis.com")
    if types:
        yield "logging.googleapis.com"  # machines and builds write their logs
    if has_machines:
        yield "orgpolicy.googleapis.com"
    if deployer.attests(file):
        yield from (_BINARY_AUTHORIZATION, "containeranalysis.googleapis.com")
    if (file.values[MANAGER] or {}).get("binaryAuthorization"):
        yield _BINARY_AUTHORIZATION
    own = {spec.name for spec in file.specs if deployer.is_in_project(file, spec)}
    yield from deployer.services(args for name, args in file.pools if name in own)
    if str(file.others.get("secretsprovider")).startswith("gcpkms://"):
        yield "cloudkms.googleapis.com"


def steps(project: Project) -> list[Step[Project]]:
    """Return the steps that concern what the file uses."""
    if project.pools:
        return [*STEPS]
    if not (project.permissions or project.secrets):
        return []
    without = () if project.permissions else ("permissions",)
    return [step for step in STEPS if step.name in _EVERY_PROJECT and step.name not in without]


def quota_project_is_set(project: Project) -> Finding:
    found = quota_project()
    fix = (f"gcloud auth application-default set-quota-project {project.name}",)
    if found is None:
        return Finding("pass", "the credentials are of an account of Google Cloud, and need no quota project")
    if not found:
        return Finding("fail", "the credentials of the user have none", fix=fix)
    if found == project.name:
        return Finding("pass", f"it is {found}")
    return Finding("unknown", f"it is {found}, where every API of the stack must be enabled too", fix=fix)


def project_exists(project: Project) -> Finding:
    answer = _read_project(project)
    state = str(answer.get("state", ""))
    fix = (f"gcloud projects undelete {project.name}",) if state == "DELETE_REQUESTED" else ()
    return Finding("pass" if state == "ACTIVE" else "fail", f"{project.name} is {state}", answer, fix)


def apis_enabled(project: Project) -> Finding:
    names = [f"projects/{project.name}/services/{each}" for each in project.apis]
    answer = ask(
        project.call, "serviceusage", "v1",
        lambda api: api.services().batchGet(parent=f"projects/{project.name}", names=names),
    )  # fmt: skip
    states = {service["name"].rpartition("/")[2]: service.get("state") for service in answer.get("services", [])}
    disabled = [each for each in project.apis if states.get(each) != "ENABLED"]
    fix = [f"gcloud services enable {' '.join(disabled)} --project {project.name}"]
    return problems_or_pass(disabled, f"all {len(project.apis)} are enabled", states, "not enabled: ", fix)


def permissions_granted(project: Project) -> Finding:
    needed = project.permissions
    granted: set[str] = set()
    for start in range(0, len(needed), _PERMISSIONS_PER_REQUEST):
        body = {"permissions": list(needed[start : start + _PERMISSIONS_PER_REQUEST])}
        granted.update(_granted(project, body).get("permissions", []))
    missing = [each for each in needed if each not in granted]
    role_id = google_permissions.DEPLOYER_ROLE_ID
    bind = google_permissions.bind_role(f"projects/{project.name}/roles/{role_id}", project.name, caller())
    plain = [each for each in missing if each in google_permissions.deployer()]
    add = google_permissions.add_to_role(role_id, project.name, plain)
    fix = []
    if plain:
        fix = [
            f"{bind}  # docs/start/bootstrap.md creates the role",
            f"{add}  # if the deployer has the role already",
        ]
    if any(each in missing for each in google_permissions.of_type(google_permissions.CUSTOM_ROLE)):
        fix.append(f"# {project.without_role_rights}")
    if any(each in missing for each in google_permissions.of_type(google_permissions.PROJECT_MEMBER)):
        fix.append("pulumi --cwd bootstrap up  # grants deployers the role gpu_ci_deploy_grants")
    return problems_or_pass(missing, f"all {len(needed)} are granted on the project", missing, "missing: ", fix)


def _granted(project: Project, body: dict[str, Any]) -> dict[str, Any]:
    return ask(
        project.call, "cloudresourcemanager", "v3",
        lambda api: api.projects().testIamPermissions(resource=f"projects/{project.name}", body=body),
    )  # fmt: skip


def service_agent_has_roles(project: Project) -> Finding:
    """Check the roles of the Google APIs service agent, as which managed instance groups create VMs."""
    number = _read_project(project)["name"].rpartition("/")[2]
    agent = f"{number}@cloudservices.gserviceaccount.com"
    answer = ask(
        project.call, "cloudresourcemanager", "v3",
        lambda api: api.projects().getIamPolicy(resource=f"projects/{project.name}", body={}),
    )  # fmt: skip
    roles = sorted(
        binding["role"]
        for binding in answer.get("bindings", [])
        if f"serviceAccount:{agent}" in binding.get("members", []) and "condition" not in binding
    )
    if set(roles) & AGENT_ROLES:
        return Finding("pass", f"the Google APIs service agent has {', '.join(roles)}", roles)
    if AGENT_MACHINES in roles and AGENT_ACCOUNTS in roles:
        return Finding("pass", f"the Google APIs service agent has {AGENT_MACHINES} and {AGENT_ACCOUNTS}", roles)
    text = (
        f"the project's policy gives the Google APIs service agent {', '.join(roles) or 'no role'}; it needs "
        f"{AGENT_MACHINES}, and {AGENT_ACCOUNTS} on each pool's account, from the project, a folder or the organization"
    )
    bind = f"gcloud projects add-iam-policy-binding {project.name} --member serviceAccount:{agent}"
    fix = tuple(f"{bind} --role {role} --condition None" for role in (AGENT_MACHINES, AGENT_ACCOUNTS))
    return Finding("unknown", text, roles, fix)


def policies_allow(project: Project) -> Finding:
    required = _required_values(project)
    rules = {each: _effective_rules(project, each) for each in (*CONSTRAINTS, SHIELDED, *required)}
    problems, unknown, fix = [], [], []
    effects = dict(CONSTRAINTS)
    change = "gcloud resource-manager org-policies"
    if unsigned := sorted({pool.image for pool in project.pools.values() if not is_signed(pool.image)}):
        effects[SHIELDED] = f"{', '.join(unsigned)} boots without secure boot, as its driver may be unsigned"
    for name, effect in effects.items():
        enforced = {bool(rule.get("enforce")) for rule in rules[name]}
        if len(enforced) > 1 and any("condition" in rule for rule in rules[name]):
            unknown.append(f"whether {name} is enforced depends on tags ({effect})")
        elif True in enforced:
            problems.append(f"{name} is enforced: {effect}")
            fix.append(f"{change} disable-enforce {name} --project {project.name}")
    for name, values in required.items():
        answers = {value: refuses(rules[name], value) for value in values}
        if refused := [value for value, answer in answers.items() if answer]:
            problems.append(f"{name} refuses {', '.join(refused)}")
            # A zone becomes the group of its region.
            allowed = [each if "/" in each else f"in:{each.rpartition('-')[0]}-locations" for each in refused]
            fix.append(f"{change} allow {name} {' '.join(dict.fromkeys(allowed))} --project {project.name}")
        if unclear := [value for value, answer in answers.items() if answer is None]:
            unknown.append(f"{name} has values that this command cannot compare with {', '.join(unclear)}")
    if problems or unknown:
        return Finding("fail" if problems else "unknown", "; ".join([*problems, *unknown]), rules, tuple(fix))
    return Finding("pass", f"none of {len(rules)} policies stops a pool", rules)


def refuses(rules: Sequence[Mapping[str, Any]], value: str) -> bool | None:
    """Return True if the rules of a policy refuse a project or a zone, and None if that is not known.

    The values of all rules count together. If a value is both allowed and denied, it is denied.
    """
    if any("condition" in rule for rule in rules):  # which rules apply depends on tags of the resource
        each = {refuses([{key: rule[key] for key in rule if key != "condition"}], value) for rule in rules}
        return each.pop() if len(each) == 1 else None
    denied = _covered(rules, "deniedValues", value)
    if any(rule.get("denyAll") for rule in rules) or True in denied:
        return True
    allowed = {True} if any(rule.get("allowAll") for rule in rules) else _covered(rules, "allowedValues", value)
    if allowed == {False}:
        return True
    return None if None in denied or (allowed and True not in allowed) else False


def _covered(rules: Sequence[Mapping[str, Any]], name: str, value: str) -> set[bool | None]:
    return {_covers(each, value) for rule in rules for each in rule.get("values", {}).get(name, ())}


def _covers(given: str, value: str) -> bool | None:
    """Return True if a value of a policy includes a project or a zone, and None if that is not known.

    `in:` is before a group of locations, and `under:` before a project, folder or organization with all its projects.
    For a region, Google's pages differ on its zones (docs.cloud.google.com/organization-policy/restrict-locations).
    """
    prefix, _, name = given.rpartition(":")
    if prefix == "in":
        group = name.removesuffix("-locations")
        is_known = group in ("europe", "us") or _REGION.fullmatch(group)
        return True if value.startswith(f"{group}-") else False if is_known else None
    if name.startswith(("folders/", "organizations/")) or ("/" not in name and name == value.rpartition("-")[0]):
        return None
    return name == value


def _required_values(project: Project) -> dict[str, list[str]]:
    """Return the values that each policy with a list of values must allow for the pools."""
    images = {match["project"] for pool in project.pools.values() if (match := _IMAGE.search(pool.image))}
    # "Custom images in your local project" are exempt (cloud.google.com/compute/docs/images/
    # restricting-image-access, Limitations).
    images.discard(project.name)
    zones = {zone for pool in project.pools.values() for rung in pool.rungs for zone in rung.zones}
    return {
        "compute.trustedImageProjects": sorted(f"projects/{each}" for each in images),
        "gcp.resourceLocations": sorted(zones),
    }


def machines_offered(project: Project) -> Finding:
    missing, fix, requests = [], [], 0
    for pool, zone in ((machine, zone) for machine in project.machines for zone in machine.zones):
        requests += 1
        if not _exists(project, "machineTypes", zone=zone, machineType=pool.machine_type):
            missing.append(f"{pool.machine_type} in {zone}")
            fix.append(_places(project, "machine-types", pool.machine_type))
        if pool.guest_accelerator:
            requests += 1
            if not _exists(project, "acceleratorTypes", zone=zone, acceleratorType=pool.guest_accelerator.type):
                missing.append(f"{pool.guest_accelerator.type} in {zone}")
                fix.append(_places(project, "accelerator-types", pool.guest_accelerator.type))
    return problems_or_pass(missing, f"all {requests} are offered", missing, "not offered: ", fix)


def _places(project: Project, kind: str, name: str) -> str:
    return f"gcloud compute {kind} list --filter name={name} --project {project.name}  # the zones for `zones`"


def quotas_suffice(project: Project) -> Finding:
    answers = [_region(project, region) for region in project.regions]
    answers.append(_compute_request(project, lambda api: api.projects().get(project=project.name)))
    known_limits: limits.Limits = {}
    for answer in answers:
        known_limits |= limits.from_answer(answer, "")
    findings = quotas.findings(quotas.demands([*project.pools.items(), *project.nodes.items()]), known_limits)
    details = [{"region": key[0], "metric": key[1], "limit": limit.limit, "usage": limit.usage}
               for key, limit in known_limits.items() if "GPU" in key[1] or "SSD" in key[1]]  # fmt: skip
    short = {f"{each.need.name} ({each.need.region}): got {each.got}, expected {each.expected}": each
             for each in findings if each.is_short}  # fmt: skip
    if too_small := {text: each for text, each in short.items() if not each.only_for_checks}:
        metrics = " ".join(dict.fromkeys(each.need.metric for each in too_small.values()))
        address = f"https://console.cloud.google.com/iam-admin/quotas?project={project.name}"
        return Finding("fail", "; ".join(too_small), details, (f"# request more of {metrics} at {address}",))
    if unknown := [f"{each.need.name} ({each.need.region})" for each in findings if not each.is_short]:
        return Finding("unknown", f"Compute Engine's answer lacks {', '.join(unknown)}; see Cloud Quotas", details)
    if short:
        text = f"every quota suffices for `max`, but not for a check at the same time: {'; '.join(short)}"
        return Finding("pass", text, details)
    return Finding("pass", "every quota suffices for what the pools need", details)


def images_exist(project: Project) -> Finding:
    problems, fix, details = [], [], []
    for image in sorted({pool.image for pool in project.pools.values()}):
        users = {name: pool.disk_gib for name, pool in project.pools.items() if pool.image == image}
        match = _IMAGE.search(image)
        if match is None:
            raise NotAskedError(f"{image} names no image of a project")
        answer = _image(project, match)
        details.append(answer)
        state = answer.get("deprecated", {}).get("state", "")
        if answer.get("status") != "READY" or state in ("OBSOLETE", "DELETED"):
            problems.append(f"{image} is {state or answer.get('status') or 'missing'}")
            fix.append(f"gcloud compute images list --no-standard-images --project {match['project']}  # for `image`")
        size_gib = int(answer.get("diskSizeGb", 0))
        if small := [name for name, disk_gib in users.items() if disk_gib < size_gib]:
            problems.append(f"{image} has {size_gib} GiB, and the disk of {', '.join(small)} is smaller")
            fix.append(f"# write diskGib: {size_gib} or more in {', '.join(small)}")
    return problems_or_pass(problems, "every image of the pools is ready", details, fix=fix)


def networks_reach_internet(project: Project) -> Finding:
    existing = [region for region in project.regions if region in project.subnetworks]
    created = [region for region in project.regions if region not in project.subnetworks]
    details = [f"{region}: the stack creates the network" for region in created]
    good = [f"{', '.join(existing)} can reach the internet"] if existing else []
    good += [f"not asked for {', '.join(created)}, where the stack creates the network"] if created else []
    links = [project.subnetworks[region] for region in existing]
    return subnetworks_reach_internet(project, links, "; ".join(good), details)


def subnetworks_reach_internet(project: Project, links: Sequence[str], good: str, details: Sequence[Any]) -> Finding:
    """Return a Finding about Private Google Access and the Cloud NAT of each subnetwork."""
    problems: list[str] = []
    fix: list[str] = []
    found = [*details]
    for link in links:
        match = _SUBNETWORK.search(link)
        if match is None:
            raise NotAskedError(f"{link} names no subnetwork of a project")
        problems += _subnetwork_problems(project, match, found, fix)
    return problems_or_pass(problems, good, found, fix=fix)


def secrets_exist(project: Project) -> Finding:
    if not project.secrets:
        return Finding("pass", "the stack file names no secret")
    versions = {secret: _newest_version(project, secret) for secret in project.secrets}
    states = {name: version.get("state", "missing") for name, version in versions.items()}
    problems = [f"the latest version of {name} is {state}" for name, state in states.items() if state != "ENABLED"]
    fix = [_secret_fix(name, versions[name]) for name, state in states.items() if state != "ENABLED"]
    good = f"all {len(states)} have an enabled version; the value was not read"
    return problems_or_pass(problems, good, states, fix=fix)


def _secret_fix(secret: str, version: Mapping[str, Any]) -> str:
    _, host, _, name = secret.split("/")
    if version.get("state") == "DISABLED":
        number = version["name"].rpartition("/")[2]
        return f"gcloud secrets versions enable {number} --secret {name} --project {host}"
    return f"gpu-ci github-app store {secret} < KEY.pem"


def no_leftovers(project: Project) -> Finding:
    answer = _compute_request(
        project, lambda api: api.instances().aggregatedList(project=project.name, filter=f"labels.{GATE_LABEL}:*")
    )
    zones = {vm["name"]: place for place, zone in answer.get("items", {}).items() for vm in zone.get("instances", [])}
    names = list(zones)
    fix = [
        f"gcloud compute instances delete {name} --zone {place.rpartition('/')[2]} --project {project.name}"
        for name, place in zones.items()
    ]
    return problems_or_pass(names, "no VM of a smoke check exists", names, "VMs of a smoke check exist: ", fix)


def _read_project(project: Project) -> dict[str, Any]:
    return ask(
        project.call, "cloudresourcemanager", "v3", lambda api: api.projects().get(name=f"projects/{project.name}")
    )


def _compute_request(project: Project, request: Callable[[Any], Any]) -> dict[str, Any]:
    return ask(project.call, "compute", "v1", request)


def _effective_rules(project: Project, constraint: str) -> list[dict[str, Any]]:
    name = f"projects/{project.name}/policies/{constraint}"
    answer = ask(project.call, "orgpolicy", "v2", lambda api: api.projects().policies().getEffectivePolicy(name=name))
    rules: list[dict[str, Any]] = answer.get("spec", {}).get("rules", [])
    return rules


def _region(project: Project, region: str) -> dict[str, Any]:
    return _compute_request(project, lambda api: api.regions().get(project=project.name, region=region))


def _newest_version(project: Project, secret: str) -> dict[str, Any]:
    """Return the newest version of a secret without its value, or an empty map if there is none."""
    name = f"{secret}/versions/latest"
    return (
        find(project.call, "secretmanager", "v1", lambda api: api.projects().secrets().versions().get(name=name)) or {}
    )


def _exists(project: Project, collection: str, **name: str) -> bool:
    return find(
        project.call, "compute", "v1", lambda api: getattr(api, collection)().get(project=project.name, **name)
    ) is not None  # fmt: skip


def _image(project: Project, match: re.Match[str]) -> dict[str, Any]:
    def request(api: Any) -> Any:
        if match["family"]:
            return api.images().getFromFamily(project=match["project"], family=match["name"])
        return api.images().get(project=match["project"], image=match["name"])

    answer = find(project.call, "compute", "v1", request) or {"name": match["name"]}
    return {key: answer[key] for key in _IMAGE_FIELDS if key in answer}


def _subnetwork_problems(project: Project, match: re.Match[str], details: list[Any], fix: list[str]) -> list[str]:
    name, host, region = match["name"], match["project"], match["region"]
    subnetwork = find(
        project.call, "compute", "v1", lambda api: api.subnetworks().get(project=host, region=region, subnetwork=name)
    )
    if subnetwork is None:
        fix.append(f"gcloud compute networks subnets list --regions {region} --project {host}  # for `subnetworks`")
        return [f"{name} does not exist in {region} of {host}"]
    network = subnetwork.get("network", "").rpartition("/")[2]
    routers = _compute_request(project, lambda api: api.routers().list(project=host, region=region)).get("items", [])
    has_nat = any(router.get("nats") for router in routers if router.get("network", "").rpartition("/")[2] == network)
    has_google_access = bool(subnetwork.get("privateIpGoogleAccess"))
    details.append({"subnetwork": name, "privateIpGoogleAccess": has_google_access, "cloudNat": has_nat})
    problems, place = [], f"--region {region} --project {host}"
    if not has_google_access:
        problems.append(f"{name} lacks Private Google Access")
        fix.append(f"gcloud compute networks subnets update {name} {place} --enable-private-ip-google-access")
    if not has_nat:
        problems.append(f"no Cloud NAT on the network of {name} in {region}")
        router = f"{network}-{region}"
        fix.append(f"gcloud compute routers create {router} --network {network} {place}")
        addresses = "--auto-allocate-nat-external-ips --nat-all-subnet-ip-ranges"
        fix.append(f"gcloud compute routers nats create nat --router {router} {addresses} {place}")
    return problems


STEPS: tuple[Step[Project], ...] = (
    Step("project", "the project is ACTIVE", project_exists, "correct gcp:project, or wait for the project"),
    Step("quota project", "credentials of a user have the project as quota project", quota_project_is_set),
    Step("apis", "every API that the stack calls is enabled", apis_enabled),
    Step("permissions", "the deployer has every permission", permissions_granted),
    Step("service agent", "the Google APIs service agent may create VMs", service_agent_has_roles),
    Step("policies", "no organization policy stops a pool", policies_allow),
    Step("machines", "every zone offers the machine type and its GPU", machines_offered),
    Step("quotas", "the limits allow `max` VMs and one more", quotas_suffice),
    Step("images", "the image is READY, not deprecated, and fits on the disk", images_exist),
    Step("networks", "the subnetwork has Private Google Access, and its region a Cloud NAT", networks_reach_internet),
    Step("secrets", "the newest version is ENABLED", secrets_exist),
    Step("leftovers", "no VM of an interrupted smoke check exists", no_leftovers),
)
