"""What one cloud adds to the protocol: a class of hooks over plain Python values.

A provider is a subclass of `Cloud`. The protocol (protocol.py, lifecycle.py) speaks with the engine and keeps the
world; it calls the hooks below in this order:

    Check    shapes (the SDK's own) -> autoname -> rules
    Diff     same, forced, replaces, keeps_name
    Create   refusals -> faults -> identity -> computed -> the world's row -> created -> await_ready  (preview: planned)
    Update   refusals -> faults -> computed -> the world's row -> updated -> await_ready  (preview: planned)
    Delete   delete_blockers -> the world's row goes -> deleted
    Read     observed, stuck
    Invoke   invoke

All of them get plain values: dict, list, str, int, float, bool, None, `UNKNOWN` for what a preview cannot know, `Asset`
and `ResourceReference`. Secrets arrive unwrapped; their paths are in `Resource.secrets` and are marked again on the way
out, also where a computed output repeats a secret text. A hook refuses by raising `Refused` with the vendor's words.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from pulumi_sandbox.providers.resource import Context, Problem, PureFunction, Refused, Resource
from pulumi_sandbox.world.store import Fault, Record

if TYPE_CHECKING:
    from pulumi_sandbox.providers.diff import Change
    from pulumi_sandbox.providers.invokes import Lookups
    from pulumi_sandbox.providers.readiness import NotReady
    from pulumi_sandbox.providers.sdk.replace import Replacing
    from pulumi_sandbox.providers.sdk.shapes import Shapes


class Cloud:
    """The offline provider of one package. Hooks may be called from several threads at once."""

    package: ClassVar[str]
    # Bridged providers (gcp, aws, github) turn "5" into 5 and "true" into True and back, as the Terraform bridge does;
    # they record what they filled in under `__defaults`, and take an empty list or map for a missing one.
    coerces_scalars: ClassVar[bool] = True
    # Inputs of any type whose change makes a new resource, where no table knows the type.
    always_new: ClassVar[Collection[str]] = ()
    # Functions computed or answered by this class itself: token -> function(arguments, context) -> result.
    invokes: ClassVar[Mapping[str, Callable[[dict[str, Any], Context], dict[str, Any]]]] = {}

    # Functions of their arguments alone, computed as the real provider computes them: token -> function(arguments).
    pure: ClassVar[Mapping[str, PureFunction]] = {}

    context: Context

    # -- life ----------------------------------------

    def start(self, context: Context) -> None:
        """Once, before anything else: keep the context; start background services. Must be quick."""
        self.context = context

    def stop(self) -> None:
        """Once, when the engine ends the provider: stop what `start` started."""

    def check_config(self, config: dict[str, Any]) -> Iterable[Problem]:
        """What is wrong with the provider's configuration, beyond its shape."""
        return ()

    def configure(self, config: dict[str, Any]) -> None:
        """The configuration, before the first resource: complete `config` in place where the vendor would."""

    def config_replaces(self, old: Mapping[str, Any], new: Mapping[str, Any], name: str) -> bool:
        """Whether a change of this setting makes another provider, and with it all of its resources anew."""
        return False

    # -- Check ----------------------------------------

    def autoname(self, res: Resource) -> None:
        """Fill the inputs a real provider fills when the program leaves them open: see `Resource.default_name`."""

    def rules(self, res: Resource) -> Iterable[Problem]:
        """The vendor's own schema and the rules no schema states. Inputs may hold UNKNOWN anywhere."""
        return ()

    # -- Diff ----------------------------------------

    def replaces(self, token: str, path: str) -> bool | None:
        """Whether a change at `path` (`disks[0].sourceImage`) makes a new resource; None: no table for this type."""
        return None

    def documented(self, token: str, path: str) -> bool | None:
        """The same of a type that no table knows, as far as its SDK tells; None where it does not."""
        return self._sdk_replacing.replaces(token, path) if self.coerces_scalars else None

    def same(self, token: str, path: str, old: Any, new: Any) -> bool:
        """Whether two values that differ mean the same to the vendor (a name and its link, another order of a set)."""
        return False

    def forced(self, res: Resource) -> Iterable[Change]:
        """Changes beyond those of the inputs: what the vendor's provider sees in the resource as it is."""
        return ()

    def keeps_name(self, res: Resource) -> bool:
        """Whether a replacement would need the name its predecessor still has: then that one is deleted first.

        This is pulumi-terraform-bridge's nameRequiresDeleteBeforeReplace (v3.137.0, pkg/tfbridge/schema.go).
        """
        if not self.coerces_scalars or not isinstance(res.inputs.get("name"), str) or res.autonamed():
            return False
        return bool(res.inputs["name"] == (res.old_inputs or {}).get("name"))

    # -- Create, Update, Delete, Read ----------------------------------------

    def refusals(self, res: Resource) -> Iterable[str]:
        """Why the vendor would refuse, in its words: what it refers to is not there, the name is taken, quota ...

        Asked at Create (`res.old_inputs` is None) and Update, never in a preview. The first one is the error.
        """
        return ()

    def fault_kinds(self, token: str) -> tuple[str, ...]:
        """The planted faults of a type, beyond those that concern all (slow, refuse, busy, crash): quota, stockout."""
        return ("quota",)

    def fault_text(self, fault: Fault, res: Resource) -> str:
        """The vendor's words for a planted fault; a message given with it comes before these."""
        return {
            "quota": "quota exceeded (a planted fault)",
            "stockout": "no capacity is left (a planted fault)",
            "busy": "still in use (a planted fault)",
        }.get(fault.kind, "refused (a planted fault)")

    def planned(self, res: Resource) -> dict[str, Any]:
        """Outputs already known in a preview (and, with UNKNOWN, those an update may change).

        Without this, a preview of a create knows the inputs alone, and one of an update keeps the old outputs too.
        """
        return {}

    def taken(self, res: Resource) -> str:
        """The vendor's words for a create of what is there already; `res.id` is set."""
        return f"{res.token}: {res.id} already exists"

    def overwrites(self, token: str) -> bool:
        """Whether creating what is there already is no mistake to the vendor, and takes its place."""
        return False

    def identity(self, res: Resource) -> str:
        """The id of a new resource, as the vendor forms it."""
        return res.suffix(20)

    def computed(self, res: Resource) -> dict[str, Any]:
        """Outputs beyond the inputs, at Create and Update; `res.id` is set. At Update `res.outputs` are the old ones,
        which stay unless this names them again. A key set to None goes."""
        return {}

    def created(self, res: Resource) -> None:
        """After the row is written: side effects on other rows."""

    def updated(self, res: Resource) -> None:
        """After the row is changed: side effects on other rows."""

    def await_ready(self, res: Resource) -> dict[str, Any]:
        """After Create and Update are done and others can see it: wait as the vendor's provider does, for minutes if
        need be, and answer the outputs that changed meanwhile. Raises `NotReady` for what stays as it is."""
        return {}

    def drain(self, res: Resource) -> None:
        """What a deletion waits for, in no transaction; raises `Refused` when it has waited in vain."""

    def delete_blockers(self, res: Resource) -> Iterable[str]:
        """Why the vendor would refuse to delete it (deletion protection, still in use), in its words."""
        return ()

    def deleted(self, res: Resource) -> None:
        """After the row is gone: side effects on other rows."""

    def locate(self, token: str, given: str) -> Record | None:
        """The row for an id that a person gave to `import`: other spellings the vendor's provider takes too."""
        return self.context.world.get(token, given)

    def write_only(self, token: str) -> Collection[str]:
        """Inputs that the vendor takes and never gives back: Read answers what the engine knows of them, if it does."""
        return ()

    def observed(self, record: Record) -> Record:
        """A row as Read should answer it: outputs that move by themselves, inputs of what no stack made."""
        return record

    def stuck(self, record: Record) -> NotReady | None:
        """Why Read finds a row that never became ready (see `await_ready`); None for any other."""
        return None

    # -- Lookups ----------------------------------------

    @cached_property
    def shapes(self) -> Shapes:
        from pulumi_sandbox.providers.sdk.shapes import Shapes

        return Shapes.for_package(self.package, self.context.workspace.cache)

    @cached_property
    def _sdk_replacing(self) -> Replacing:
        from pulumi_sandbox.providers.sdk.replace import Replacing

        return Replacing(self.shapes.reader, self.shapes.tokens, self.always_new)

    @cached_property
    def lookups(self) -> Lookups:
        from pulumi_sandbox.providers.invokes import Lookups
        from pulumi_sandbox.providers.rsa_key import GeneratedValues

        made = GeneratedValues(self.context.world)
        return Lookups(self.shapes, self.context.workspace.settings_file, self.pure, made)

    def invoke(self, token: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        """The answer of a function and which of its keys are secret; raises `Refused` for one it does not know."""
        if token in self.invokes:
            return self.invokes[token](arguments, self.context), ()
        from pulumi_sandbox.providers.lookup_template import LookupRefusedError

        try:
            return self.lookups.answer(token, arguments, self.context.config)
        except LookupRefusedError as refused:
            raise Refused(str(refused)) from None
