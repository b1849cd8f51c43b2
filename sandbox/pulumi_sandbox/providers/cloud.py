"""The base class of the sandbox providers, with hooks over plain Python values.

A *cloud* is the emulation of one vendor, such as Google Cloud or a Kubernetes API server. It is a subclass of `Cloud`
that implements hooks. server.py receives the calls of the engine. lifecycle.py stores resources as rows of the world,
the emulated cloud state. For each call of the engine they call these hooks, in this order:

    Check    shapes (the SDK's own) -> autoname -> rules
    Diff     same, forced_changes, replaces, replaces_by_documentation, deletes_old_first
    Create   refusals -> faults -> identity -> computed, emulates -> row written -> created -> await_ready
    Update   refusals -> faults -> computed, emulates -> row written -> await_ready
    Delete   delete_blockers -> remains -> row deleted -> deleted
    Read     locate, observed, write_only, not_ready
    Invoke   invoke

In a preview, Create and Update call only preview_outputs.

Values are plain: dict, list, str, int, float, bool, None, `Asset`, and `UNKNOWN` for values that a preview cannot
know. Secrets arrive unwrapped, with their paths in `Resource.secrets`. They are marked again in the
answer, also if a computed output repeats a secret. A hook refuses a call with `Refused` and the vendor's message.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from pulumi_sandbox.providers.resource import Context, Problem, PureFunction, Refused, Resource
from pulumi_sandbox.world.store import Fault, Record

if TYPE_CHECKING:
    from pulumi_sandbox.providers.diff import Change
    from pulumi_sandbox.providers.invokes import Lookups
    from pulumi_sandbox.providers.placeholders import Placeholders
    from pulumi_sandbox.providers.readiness import NotReady
    from pulumi_sandbox.providers.sdk.replace import DocumentedReplacements
    from pulumi_sandbox.providers.sdk.shapes import Shapes


class Cloud:
    """The sandbox provider of one package. Hooks may be called from several threads at the same time."""

    package: ClassVar[str]
    # True for bridged providers (gcp, aws, github). Like the Terraform bridge, they convert between texts, numbers and
    # booleans, record default values under `__defaults`, and treat an empty list or map as missing.
    coerces_scalars: ClassVar[bool] = True
    # Inputs whose change replaces a resource, for all types without a table of replacing changes.
    always_new: ClassVar[Collection[str]] = ()
    # Pure functions, computed in the same way as by the real provider: token -> function(arguments).
    pure: ClassVar[Mapping[str, PureFunction]] = {}

    context: Context

    # -- start and configuration ----------------------

    def start(self, context: Context) -> None:
        """Called once, first: store the context and start background services. Must be fast."""
        self.context = context

    def stop(self) -> None:
        """Called once, when the engine stops the provider: stop the background services."""

    def configure(self, config: dict[str, Any]) -> None:
        """Called before the first resource: add the vendor's default values to `config` in place."""

    def config_replaces(self, old: Mapping[str, Any], new: Mapping[str, Any], name: str) -> bool:
        """Return True if a change of this setting replaces the provider and therefore all its resources."""
        return False

    # -- Check ----------------------------------------

    def autoname(self, res: Resource) -> None:
        """Set the inputs that the real provider sets if the program does not: see `Resource.default_name`."""

    def rules(self, res: Resource) -> Iterable[Problem]:
        """Check the inputs by the vendor's schema and further rules. Inputs may contain UNKNOWN anywhere."""
        return ()

    # -- Diff ----------------------------------------

    def replaces(self, token: str, path: str) -> bool | None:
        """Return True if a change at `path` (`disks[0].sourceImage`) replaces the resource.

        Return None if the cloud has no table of replacing changes for the type.
        """
        return None

    def replaces_by_documentation(self, token: str, path: str) -> bool | None:
        """Return True if the SDK's documentation says that a change at `path` replaces. None if it does not say so.

        Used for types without a table.
        """
        return self.documented.replaces(token, path) if self.coerces_scalars else None

    def same(self, token: str, path: str, old: Any, new: Any) -> bool:
        """Return True if the vendor treats two different values as equal: a name and its link, or a reordered set."""
        return False

    def forced_changes(self, res: Resource) -> Iterable[Change]:
        """Return further changes, which the vendor's provider finds by other means than a comparison of the inputs."""
        return ()

    def deletes_old_first(self, res: Resource) -> bool:
        """Return True if a replacement needs the name of the old resource. The old resource is then deleted first.

        This is pulumi-terraform-bridge's nameRequiresDeleteBeforeReplace (v3.137.0, pkg/tfbridge/schema.go).
        """
        if not self.coerces_scalars or not isinstance(res.inputs.get("name"), str) or res.autonamed():
            return False
        return bool(res.inputs["name"] == (res.old_inputs or {}).get("name"))

    # -- Create, Update, Delete, Read ----------------------------------------

    def refusals(self, res: Resource) -> Iterable[str]:
        """Return the messages with which the vendor refuses: a reference is missing, the name is taken, quota ...

        Called at Create (`res.old_inputs` is None) and Update, never in a preview. The first message is the error.
        """
        return ()

    def fault_kinds(self, token: str) -> tuple[str, ...]:
        """Return the kinds of planted faults that apply to a type, in addition to slow, refuse, busy and crash."""
        return ("quota",)

    def fault_text(self, fault: Fault, res: Resource) -> str:
        """Return the vendor's message for a planted fault. A message of the fault itself takes precedence."""
        return {
            "quota": "quota exceeded (a planted fault)",
            "stockout": "no capacity is left (a planted fault)",
            "busy": "still in use (a planted fault)",
        }.get(fault.kind, "refused (a planted fault)")

    def preview_outputs(self, res: Resource) -> dict[str, Any]:
        """Return the outputs that are known in a preview, and UNKNOWN for outputs that an update may change.

        By default a preview of a create has only the inputs, and a preview of an update also keeps the old outputs.
        """
        return {}

    def already_exists(self, res: Resource) -> str:
        """Return the vendor's message for a create of a resource that exists. `res.id` is set."""
        return f"{res.token}: {res.id} already exists"

    def overwrites(self, token: str) -> bool:
        """Return True if the vendor lets a create replace an existing resource."""
        return False

    def identity(self, res: Resource) -> str:
        """Return the id of a new resource, in the vendor's form."""
        return res.suffix(20)

    def computed(self, res: Resource) -> dict[str, Any]:
        """Return the outputs beyond the inputs, at Create and Update. `res.id` is set.

        At Update, `res.outputs` has the old outputs. They stay unless the result replaces them. None removes an output.
        """
        return {}

    def emulates(self, token: str) -> bool:
        """Return True if `computed` returns all outputs of a type. Other types get placeholders (placeholders.py)."""
        return True

    def created(self, res: Resource) -> None:
        """Called after the row was written, for side effects on other rows."""

    def updated(self, res: Resource) -> None:
        """Called after the row was changed, for side effects on other rows."""

    def await_ready(self, res: Resource) -> dict[str, Any]:
        """Wait after a Create or Update as the vendor's provider does, for minutes if needed.

        Other processes can already see the resource. Return the outputs that changed in the meantime. Raise `NotReady`
        if the resource does not become ready.
        """
        return {}

    def delete_blockers(self, res: Resource) -> Iterable[str]:
        """Return the messages with which the vendor refuses a delete: deletion protection, still in use."""
        return ()

    def remains(self, token: str) -> bool:
        """Return True if the vendor keeps a resource that the provider deletes. Its row then belongs to no stack."""
        return False

    def deleted(self, res: Resource) -> None:
        """Called after the row was deleted, for side effects on other rows. See `remains`."""

    def locate(self, token: str, import_id: str) -> Record | None:
        """Return the row of an id that the user passed to `import`, in any form that the vendor's provider accepts."""
        return self.context.world.get(token, import_id)

    def listed(self, token: str, import_id: str) -> tuple[str, dict[str, Any]] | None:
        """Return the id and the known inputs of a resource that sandbox.yaml lists under `exists`."""
        return None

    def write_only(self, token: str) -> Collection[str]:
        """Return the inputs that the vendor never returns. Read returns the engine's value of them, if any."""
        return ()

    def observed(self, record: Record) -> Record:
        """Return a row in the form of Read: with outputs that change over time, and inputs if no stack created it."""
        return record

    def not_ready(self, record: Record) -> NotReady | None:
        """Return the error for a row that never became ready (see `await_ready`), or None."""
        return None

    # -- Lookups ----------------------------------------

    @cached_property
    def shapes(self) -> Shapes:
        from pulumi_sandbox.providers.sdk.shapes import Shapes

        return Shapes(self.package)

    @cached_property
    def placeholders(self) -> Placeholders:
        from pulumi_sandbox.providers.placeholders import Placeholders

        return Placeholders(self.shapes)

    @cached_property
    def documented(self) -> DocumentedReplacements:
        from pulumi_sandbox.providers.sdk.replace import DocumentedReplacements

        return DocumentedReplacements(self.shapes.reader, self.always_new)

    @cached_property
    def lookups(self) -> Lookups:
        from pulumi_sandbox.providers.invokes import Lookups
        from pulumi_sandbox.providers.rsa_key import GeneratedValues

        generated = GeneratedValues(self.context.world)
        return Lookups(self.package, lambda: self.shapes, self.context.workspace.settings_file, self.pure, generated)

    def invoke(self, token: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Return the result of a function and its secret keys. Raise `Refused` without an answer."""
        from pulumi_sandbox.providers.invokes import LookupRefusedError

        try:
            return self.lookups.answer(token, arguments, self.context.config)
        except LookupRefusedError as error:
            raise Refused(str(error)) from None
