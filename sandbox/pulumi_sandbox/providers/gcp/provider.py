"""The emulated Google Cloud provider. It also starts the emulated Compute Engine API and the services of its VMs."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar

from pulumi_sandbox.providers import bridged, sandbox_file
from pulumi_sandbox.providers.bridged import Naming
from pulumi_sandbox.providers.cloud import Cloud
from pulumi_sandbox.providers.diff import Change
from pulumi_sandbox.providers.gcp import (
    discovery,
    errors,
    gke,
    kms,
    machine_services,
    object_storage,
    outputs,
    permissions,
    references,
    types,
)
from pulumi_sandbox.providers.gcp import replace as replacing
from pulumi_sandbox.providers.gcp.compute.instances_api import Instances
from pulumi_sandbox.providers.gcp.compute.operations import Operations
from pulumi_sandbox.providers.gcp.compute.server import ComputeApi, compute_server
from pulumi_sandbox.providers.gcp.compute.templates import Templates
from pulumi_sandbox.providers.gcp.compute.vm_store import VirtualMachines
from pulumi_sandbox.providers.gcp.names import last, part, region_of, relative, service_account_email
from pulumi_sandbox.providers.gcp.site import Located, Site, labels
from pulumi_sandbox.providers.gcp.world import KINDS, ExistingResources, soft_deleted
from pulumi_sandbox.providers.invokes import LookupRefusedError
from pulumi_sandbox.providers.machines import settings as guest_settings
from pulumi_sandbox.providers.machines.local_server import LocalServer
from pulumi_sandbox.providers.machines.local_services import LocalServices
from pulumi_sandbox.providers.machines.vm_processes import VmProcesses
from pulumi_sandbox.providers.resource import Problem, PureFunction, Refused, Resource
from pulumi_sandbox.providers.sandbox_file import SettingsError
from pulumi_sandbox.providers.sdk.reader import snake
from pulumi_sandbox.providers.sdk.replace import LOCATION_INPUTS
from pulumi_sandbox.providers.values import UNKNOWN
from pulumi_sandbox.world.store import Fault, Record

# pulumi-gcp's autonaming, with the maximum lengths of names, account ids and secret ids (discovery documents).
AUTONAMED = {types.ACCOUNT: ("accountId", 30), types.SECRET: ("secretId", 255)}
MAX_NAME_LENGTH = 63
# A name made from a prefix ends with a timestamp and a counter (terraform-plugin-sdk helper/id).
PREFIX_DIGITS = 26


class Gcp(Cloud):
    package: ClassVar[str] = "gcp"
    always_new: ClassVar[Collection[str]] = LOCATION_INPUTS
    pure: ClassVar[Mapping[str, PureFunction]] = {permissions.GET_POLICY: permissions.policy_document}

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._machines: VirtualMachines | None = None
        self._server: LocalServer | None = None
        self._services: LocalServices | None = None

    # -- lifecycle ----------------------------------------------------------------------------------------------------

    def configure(self, config: dict[str, Any]) -> None:
        zone = config.get("zone")
        if not config.get("region") and isinstance(zone, str) and zone:
            config["region"] = last(zone).rpartition("-")[0]
        self.serve(str(config.get("project") or ""))

    def serve(self, project: str, port: int | None = None) -> LocalServices:
        """Start the Compute Engine API once and return the other services that its VMs call.

        Without `port`, the API listens on the shared port of the environment.
        """
        with self._lock:
            if self._server and self._services:
                return self._services
            workspace = self.context.workspace
            try:
                settings = guest_settings.guest(workspace.settings_file, workspace.project)
                existing, services = self.existing, machine_services.local_services(self)
            except SettingsError as error:
                raise Refused(str(error)) from None
            guests = VmProcesses(settings, services)
            operations = Operations(self.context.world)
            machines = VirtualMachines(self.context.world, guests, operations, workspace.disks)
            instances = Instances(
                self.context.world, machines, operations, Templates(self.context.world), existing.account_exists
            )
            api = ComputeApi(instances, operations, self.context.engine_gone, self.caller)
            shared = port is None
            port = port or workspace.endpoint_port
            try:
                self._server = compute_server(port, api, project or "sandbox-project", shared=shared)
            except OSError as error:
                raise Refused(
                    f"gcp: the sandbox's Compute Engine API cannot listen on 127.0.0.1:{port}\n"
                    f"  got: {error.strerror}\n"
                    "  hint: another program uses the port; run the command again, or, for plain pulumi, remove "
                    f"{workspace.root.name}/ports.json to choose another port"
                ) from None
            self._machines, self._services = machines, services
            return services

    def stop(self) -> None:
        with self._lock:
            if self._server:
                self._server.close()
            if self._machines:
                self._machines.close()

    @cached_property
    def existing(self) -> ExistingResources:
        file = self.context.workspace.settings_file
        patterns = sandbox_file.existing_patterns(file, "gcp")
        return ExistingResources(self.context.world, patterns)

    @cached_property
    def clusters(self) -> gke.Clusters:
        """The clusters of GKE. A cluster that no stack created has the values of its lookup."""
        return gke.Clusters(self.existing, lambda arguments: self._answer(gke.GET_CLUSTER, arguments)[0])

    @cached_property
    def caller(self) -> permissions.Caller:
        return permissions.Caller.of_environment(self.context.world)

    def _not_permitted(self, res: Resource, operation: str) -> Iterator[str]:
        """Yield the errors of permissions that the account of the run lacks."""
        if not self.caller.email:
            return
        site = self.site(res)
        kind = res.token.rpartition(":")[2]
        if not self.caller.knows(res.token):
            res.log(f"{res.token}: its permissions are not known, so {self.caller.email} may change it", "info")
        named = res.token in types.TARGETS and res.token != types.SECRET_VERSION
        path = permissions.path_of(res.token, res.inputs) or res.id
        path = path or (outputs.identity(res.token, res.inputs, site) if named else res.name)
        doing = {"create": "creating", "update": "updating", "delete": "deleting"}[operation]
        key = str(res.inputs.get("cryptoKeyId") or "")
        role = str(res.inputs.get("role") or "")
        for error in self.caller.operation(res.token, operation, site.place(res.inputs)[0], path, key, role):
            yield f"Error {doing} {kind}: {error.with_hint()}"

    def site(self, res: Resource | None = None) -> Site:
        """Return the place of a resource, or that of the provider's configuration."""
        try:
            values = self.lookups.values
        except LookupRefusedError as error:
            raise Refused(str(error)) from None
        config = res.config if res else self.context.config
        return Site.of(config, str(values.get("projectNumber", "0")), values.get("zones"))

    # -- Check --------------------------------------------------------------------------------------------------------

    def autoname(self, res: Resource) -> None:
        key, max_length = AUTONAMED.get(res.token, ("name", MAX_NAME_LENGTH))
        bridged.autoname(res, self.shapes.shape(res.token), Naming(key, max_length, lower=True))

    def rules(self, res: Resource) -> Iterable[Problem]:
        yield from discovery.check(res.token, res.inputs)
        yield from self._place(res)

    def _place(self, res: Resource) -> Iterator[Problem]:
        """Yield the provider's errors for a missing project or region (tpgresource/utils.go)."""
        if res.token not in types.TARGETS or not types.TARGETS[res.token].project:
            return
        site = self.site(res)
        is_placed = res.inputs.get("location") is UNKNOWN or gke.location(res.inputs, site)
        if types.placed(res.token) == "region or zone" and not is_placed:
            text = "Unable to determine location: region/zone not configured in resource/provider config"
            yield Problem("location", text, "set gcp:region, or location on the resource")
        needed = ["project"] * (res.token != types.PROJECT_MEMBER)
        needed += ["region"] * (types.placed(res.token) == "region")
        for name, value in zip(("project", "region"), site.place(res.inputs), strict=False):
            if name in needed and not value and res.inputs.get(name) is not UNKNOWN:
                yield Problem(name, f"{name}: required field is not set", f"set gcp:{name}, or {name} on the resource")

    # -- Diff ---------------------------------------------------------------------------------------------------------

    def replaces(self, token: str, path: str) -> bool | None:
        answer = replacing.replaces(token, path)
        # types.toml and the documentation know all properties that replace these types, except for a cluster.
        if answer is None and token in types.TARGETS and token != types.CLUSTER:
            return bool(self.documented.replaces(token, path))
        return answer

    def forced_changes(self, res: Resource) -> Iterable[Change]:
        return replacing.forced_changes(res, self.site(res))

    def same(self, token: str, path: str, old: Any, new: Any) -> bool:
        return token in types.TARGETS and replacing.same_value(path, old, new)

    # -- Create, Update, Delete ---------------------------------------------------------------------------------------

    def refusals(self, res: Resource) -> Iterable[str]:
        yield from self._not_permitted(res, "update" if res.old_inputs is not None else "create")
        site = self.site(res)
        if res.token in types.TARGETS and res.old_inputs is None:
            yield from self.existing.deleted_id(res.token, outputs.identity(res.token, res.inputs, site))
        yield from references.missing_references(self.existing, res.token, res.inputs, site)

    def delete_blockers(self, res: Resource) -> Iterable[str]:
        yield from self._not_permitted(res, "delete")
        for group in self.existing.groups_of(res.id) if res.token in types.TEMPLATES else ():
            yield f"Error deleting instance template: {errors.in_use('instance_template', res.id, group)}"

    def overwrites(self, token: str) -> bool:
        return token.endswith(("IamMember", "IAMMember"))  # a second grant of a role to a member changes nothing

    def remains(self, token: str) -> bool:
        return token in kms.NEVER_DELETED

    def deleted(self, res: Resource) -> None:
        if res.token in (types.POOL, types.POOL_PROVIDER):
            self.context.world.set_setting(soft_deleted(res.id), "deleted")
        elif res.token in kms.NEVER_DELETED:
            kms.deleted(res)
        elif res.token == types.BUCKET and res.outputs.get("forceDestroy") is True:
            # The provider deletes the objects first, also those that no stack has any more.
            object_storage.delete_objects(self.context.world, str(res.outputs.get("name")))

    def already_exists(self, res: Resource) -> str:
        if res.token in kms.NEVER_DELETED:
            return kms.already_exists(res)
        return f"Error creating {res.token.rpartition(':')[2]}: {errors.already_exists(res.id)}"

    def fault_kinds(self, token: str) -> tuple[str, ...]:
        # The Compute Engine API checks a GPU quota when it creates a VM; templates and groups have no quota fault.
        # A project may have no quota for private pools (cloud.google.com/build/quotas).
        return () if token in types.TARGETS and token != types.WORKER_POOL else ("quota",)

    def fault_text(self, fault: Fault, res: Resource) -> str:
        kind = res.token.rsplit(":", 1)[-1]
        if fault.kind == "quota" and res.token == types.WORKER_POOL:
            return f"Error creating {kind}: {errors.private_pool_quota(self.site(res).number)}"
        if fault.kind == "quota":
            text = f"Quota '{kind.upper()}S' exceeded.  Limit: 0.0 globally."
            return f"Error creating {kind}: {errors.GoogleError(403, 'quotaExceeded', text)}"
        if fault.kind == "busy":
            return f"Error deleting {kind}: {errors.in_use(kind, res.id, 'something (a planted fault)')}"
        return f"Error creating {kind}: {errors.GoogleError(400, 'badRequest', 'Refused (a planted fault).')}"

    def preview_outputs(self, res: Resource) -> dict[str, Any]:
        """Return the outputs that the upstream plan fills in (CustomizeDiff), such as project, region and labels."""
        if res.token not in types.TARGETS:
            return {}
        site = self.site(res)
        project, region, _ = site.place(res.inputs)
        row = types.TARGETS[res.token]
        known: dict[str, Any] = {"project": res.inputs.get("project") or project} if row.project else {}
        if row.place in ("region", "location"):
            known[row.place] = res.inputs.get(row.place) or region
        elif row.place:
            known["location"] = res.inputs.get("location") or gke.location(res.inputs, site)
        if row.labels and res.inputs.get("labels") is not UNKNOWN:
            known |= labels(res.inputs, site)
        account = res.inputs.get("accountId")
        if res.token == types.ACCOUNT and isinstance(account, str) and isinstance(known["project"], str):
            email = service_account_email(account, known["project"])
            known |= {"email": email, "member": f"serviceAccount:{email}"}
        return known

    def identity(self, res: Resource) -> str:
        if res.token not in types.TARGETS:
            form, inputs = self.documented.import_form(res.token), self.shapes.shape(res.token).inputs.properties
            return outputs.plain_identity(res, self.site(res), form, inputs)
        site = self.site(res)
        if res.token == types.SECRET_VERSION:
            secret = f"projects/{site.number}/secrets/{last(str(res.inputs.get('secret')))}"
            return f"{secret}/versions/{self.existing.next_version(secret)}"
        prefix = res.inputs.get("namePrefix")
        if prefix and not res.inputs.get("name"):
            suffix = res.suffix(min(PREFIX_DIGITS, MAX_NAME_LENGTH - len(prefix)), "0123456789")
            return outputs.identity(res.token, {**res.inputs, "name": prefix + suffix}, site)
        return outputs.identity(res.token, res.inputs, site)

    def computed(self, res: Resource) -> dict[str, Any]:
        site = self.site(res)
        if res.token not in types.TARGETS:
            plain_outputs, shape = {**outputs.plain(res, site), **kms.outputs(res)}, self.shapes.shape(res.token)
            plain_outputs |= self._default_place(res, site)
            return {name: value for name, value in plain_outputs.items() if name in shape.outputs}
        if types.placed(res.token) == "region or zone":
            return self._container(res, site)
        outputs_of_type = outputs.computed(res.token, res.inputs, res.outputs, site, res.id)
        if res.token in types.TEMPLATES and not res.inputs.get("name"):
            outputs_of_type["name"] = last(res.id)
        return outputs_of_type

    def _container(self, res: Resource, site: Site) -> dict[str, Any]:
        """Return the outputs of a cluster, or of a node pool in its cluster."""
        path = res.id or outputs.identity(res.token, res.inputs, site)
        at = Located(res.inputs, res.outputs, site, path, site.region)
        place = part(path, "locations")
        if res.token == types.CLUSTER:
            region = place if place in dict(site.zones) else region_of(place)
            return gke.cluster(at, list(dict(site.zones).get(region, ())), str(self.lookups.values["gkeVersion"]))
        facts = self.clusters.facts(gke.cluster_path(res.inputs, site))
        return gke.node_pool(at, facts) if facts else {}

    def _default_place(self, res: Resource, site: Site) -> dict[str, str]:
        """Return the region and the zone of the provider's configuration, for a type that is always in one."""
        _, region, zone = site.place(res.inputs)
        never_empty = self.placeholders.never_empty(res.token)
        return {
            name: value
            for name, value in (("region", region), ("zone", zone))
            if value and name in never_empty and name not in res.inputs
        }

    def emulates(self, token: str) -> bool:
        return False

    def locate(self, token: str, import_id: str) -> Record | None:
        """Find a resource by any id that upstream imports: a path, a self link, or part of a path.

        Examples of parts of a path: project/region/name, region/name, name.
        """
        exact = super().locate(token, import_id) or super().locate(token, relative(import_id))
        if exact or token not in types.TARGETS:
            return exact
        parts = relative(import_id).split("/")
        matching = [
            record
            for record in self.context.world.find(token)
            if record.id.split("/")[-1:] == parts[-1:] and set(parts) <= set(record.id.split("/"))
        ]
        return matching[0] if len(matching) == 1 else None

    def listed(self, token: str, import_id: str) -> tuple[str, dict[str, Any]] | None:
        if token not in KINDS.values() or token == types.CLUSTER:
            return None
        found = outputs.imported(import_id, self.documented.import_form(token), self.site())
        if found is None or not self.existing.exists(found[0]):
            return None
        path, fields = found
        return path, {name: fields[snake(name)] for name in self.shapes.shape(token).inputs.properties
                      if snake(name) in fields}  # fmt: skip

    def observed(self, record: Record) -> Record:
        project = str(record.inputs.get("project") or self.context.config.get("project") or "")
        key = str(record.inputs.get("cryptoKeyId") or "")
        path = permissions.path_of(record.type, record.inputs) or record.id
        for error in self.caller.operation(record.type, "read", project, path, key):
            kind = record.type.rpartition(":")[2]
            raise Refused(f"Error when reading or editing {kind} {record.id!r}: {error.with_hint()}")
        return super().observed(record)

    def invoke(self, token: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        project = str(arguments.get("project") or self.context.config.get("project") or "")
        for error in self.caller.lookup(token, project, str(arguments.get("secret") or arguments.get("name") or "")):
            raise Refused(f"Error calling {token.rpartition(':')[2]}: {error.with_hint()}")
        result, secret = self._answer(token, arguments)
        for key in ("id", "selfLink", "name"):
            value = result.get(key)
            if isinstance(value, str) and part(value, "projects"):
                self.existing.looked_up.add(relative(value))
        return result, secret

    def _answer(self, token: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        if token not in (gke.GET_CLUSTER, *references.SECRET_LOOKUPS):
            return super().invoke(token, arguments)
        answered = self.lookups.answered_by_user(token, arguments, self.context.config)
        refusal = (
            self.clusters.refusal(arguments, self.site())
            if token == gke.GET_CLUSTER
            else references.secret_refusal(self.existing, token, arguments, self.site())
        )
        if refusal and not answered:
            raise Refused(refusal)
        result, secret = super().invoke(token, arguments)
        if token == gke.GET_CLUSTER and not answered:
            result |= self.clusters.from_world(arguments, self.site(), result)
        return result, secret
