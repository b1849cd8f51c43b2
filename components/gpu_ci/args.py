"""The base model of the arguments of every component, and the types of fields that accept Pulumi Outputs.

A late value is an Output whose value is not known yet. Pydantic first validates the model, and a `Late` takes the place
of the Output. Then `_bind` replaces the `Late` with an Output that checks the value when the value is known.

Users write some of the arguments in a stack file. The other arguments are the wiring: values that the program gets from
other resources, such as a network.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Self, TypeAlias, TypeVar

import pulumi
from pulumi.output import Unknown
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    PrivateAttr,
    TypeAdapter,
    WrapValidator,
)
from pydantic import ValidationError as Invalid
from pydantic.alias_generators import to_camel
from pydantic.json_schema import WithJsonSchema
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from .errors import ArgsError, Problem, invalid
from .validation_errors import Loc, explain


class Open(Enum):
    """The type of `OPEN`."""

    OPEN = "open"


OPEN: Final = Open.OPEN
"""A late input of arguments that were read from a stack file. The deployment gets the value from another resource."""


MayBeOpen = WrapValidator(lambda value, check: value if value is OPEN else check(value))
"""The annotation of a wiring field that accepts OPEN, but no Output. An `Input[T]` accepts both."""


class Late:
    """The placeholder of a late value in a model. `_bind` replaces it after the whole model has been validated."""

    def __init__(self, output: pulumi.Output[Any], marker: Marker) -> None:
        self.output = output
        self.marker = marker

    def checked(self, at: Loc, owner: Args) -> pulumi.Output[Any]:
        """Return an Output with the same value, which fails with the field's message if the value is invalid.

        `at` is the path of the field in `owner`, the whole model.
        """
        source = self.output

        async def check(value: Any) -> Any:
            is_secret = await source.is_secret()
            try:
                if self.marker.secrecy not in (None, is_secret):
                    problem = InitErrorDetails(type=_secrecy_problem(must_be_secret=not is_secret), input=None)
                    raise Invalid.from_exception_data("", [problem])
                return _adapter(self.marker.item).validate_python(value)
            except Invalid as error:
                raise owner.wrong(explain(error, type(owner), under=at, show=not is_secret)) from None

        return source.apply(check)


class Marker:
    """The annotation that `Input[T]` adds to a field. It stores `T`, because pydantic flattens nested Annotated types.

    `secrecy` is True if the value must be a secret Output, False if the value must not be secret, and None otherwise.
    """

    def __init__(self, item: Any, secrecy: bool | None = None) -> None:
        self.item = item
        self.secrecy = secrecy

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def check(value: Any, inner: Callable[[Any], Any]) -> Any:
            if value is OPEN:
                return OPEN
            if is_late(value):
                return Late(pulumi.Output.from_input(value), self)
            if self.secrecy:
                raise _secrecy_problem(must_be_secret=True)
            return inner(value)

        return core_schema.no_info_wrap_validator_function(check, handler.generate_schema(self.item))


class Redacted:
    """The annotation of a field whose invalid values are not shown, because they may be secrets."""

    secrecy = "redacted"


if TYPE_CHECKING:
    T = TypeVar("T")
    Input: TypeAlias = pulumi.Input[T]
    In: TypeAlias = pulumi.Input[T]
    SecretInput: TypeAlias = pulumi.Input[T]
    PlainInput: TypeAlias = pulumi.Input[T]
else:

    class Input:
        """A `T`, or an Output of a `T`. An Output is checked when it resolves, with the same message.

        Write constraints inside the brackets: `Input[Annotated[int, Field(ge=1)]]`.
        """

        def __class_getitem__(cls, item: Any) -> Any:
            return Annotated[Any, Marker(item)]

    class SecretInput:
        """An Output of a `T` that is marked as secret. Errors of such a field never show its value.

        In a preview, it may be unknown whether an Output is secret. This is checked when the Output resolves.
        """

        def __class_getitem__(cls, item: Any) -> Any:
            return Annotated[Any, Marker(item, secrecy=True)]

    class PlainInput:
        """An `Input[T]` that refuses secret Outputs, because the value is stored in plain text."""

        def __class_getitem__(cls, item: Any) -> Any:
            return Annotated[Any, Marker(item, secrecy=False)]

    In = Input  # the name in the first releases


def _secrecy_problem(*, must_be_secret: bool) -> PydanticCustomError:
    """Return the error for a plain value that must be secret, or for a secret value that must be plain."""
    if must_be_secret:
        hint = "pulumi.Output.secret(...), config.require_secret(...), or what get_secret_version_output(...) returns"
        return invalid(
            "must be a secret Output, so that neither state nor logs have it in plain text",
            "plain-secret",
            safe_hint=hint,
        )
    return invalid(
        "is a secret, but this field is stored in plain text", "secret-in-plain-field", safe_hint="put it under secrets"
    )


def _whole_number(value: Any) -> Any:
    """Accept 2.0 for 2, as the engine and YAML may pass it. Refuse text and booleans, which Python would convert."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise invalid("must be a whole number", "wrong-type")
    return value


Integer = Annotated[int, BeforeValidator(_whole_number)]
"""A whole number. A float without a fraction is accepted."""

StrictBool = Annotated[bool, Field(strict=True)]
"""True or false. Text such as "yes" is refused."""


class Args(BaseModel):
    """The arguments of a component, or one object among them. Frozen; users write camelCase, Python snake_case."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=True,
    )

    WIRING: ClassVar[frozenset[str]] = frozenset()
    """The fields that the program fills in from other resources. Users set the other fields in a stack file."""

    _late: list[pulumi.Output[Any]] = PrivateAttr(default_factory=list)
    _subject: str = PrivateAttr(default="")
    _file: str = PrivateAttr(default="")
    _place: str = PrivateAttr(default="")

    def __init__(self, **data: Any) -> None:
        try:
            super().__init__(**data)
        except Invalid as error:
            raise ArgsError(f"{type(self).__name__}{_caller()}", explain(error, type(self))) from None
        _bind(self, (), self)

    # With this attribute, pydantic creates nested models without calling this constructor. One error then lists the
    # problems of all nested models.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        for name, field in cls.model_fields.items():
            if any(isinstance(mark, Marker) for mark in field.metadata) and len(field.metadata) > 1:
                raise TypeError(
                    f"{cls.__name__}.{name}: put the constraint inside Input[...], or no Output can pass it"
                )

    @property
    def subject(self) -> str:
        """The file or resource that an error about these arguments names first."""
        return self._file or self._subject or type(self).__name__

    def set_subject(self, subject: str) -> None:
        """Set the resource that the arguments belong to. Errors of late values name this resource."""
        self._subject = subject

    def set_source(self, file: str, place: str) -> None:
        """Set the file and the path where the user wrote the arguments. Errors of late values then name the file."""
        self._file, self._place = file, place

    def wrong(self, problems: Sequence[Problem]) -> ArgsError:
        """Return an error with these problems, each with its full path."""
        return ArgsError(self.subject, [each.under(self._place) if self._place else each for each in problems])

    @classmethod
    def choice_problems(cls, choices: Mapping[str, Any]) -> list[Problem]:
        """Return the problems of the fields in a stack file."""
        return cls.parse(choices)[1]

    @classmethod
    def parse(
        cls, choices: Mapping[str, Any], known: Mapping[str, Any] | None = None
    ) -> tuple[Self | None, list[Problem]]:
        """Return the arguments that a stack file describes, and the problems of its fields.

        Wiring that is not known yet is OPEN. The arguments are None if a field or the known wiring has a problem.
        Problems of the wiring are not in the list: they have their cause elsewhere in the stack file.

        Args:
            choices: The fields in the stack file, by their camelCase names.
            known: The wiring that is known before the deployment. The fields are checked against it.
        """
        wiring = {to_camel(name) for name in cls.model_fields} - {*cls.choice_names()}
        problems = [
            Problem(name, "is set by gpu-ci, not in a stack file", hint="remove it", rule="set-by-gpu-ci")
            for name in choices
            if to_camel(name) in wiring
        ]
        rejected = {problem.path for problem in problems}
        fields = {key: value for key, value in choices.items() if key not in rejected}
        given = {to_camel(name): value for name, value in (cls.open_wiring() | dict(known or {})).items()}
        try:
            # Python's spelling of a field, such as disk_gib, is not a key of a stack file.
            found = cls.__pydantic_validator__.validate_python({**given, **fields}, by_alias=True, by_name=False)
        except Invalid as error:
            wrong = explain(error, cls, hidden=wiring)
            return None, problems + [each for each in wrong if re.split(r"[.\[]", each.path)[0] not in wiring]
        return (None if problems else found), problems

    @classmethod
    def open_wiring(cls) -> dict[str, Any]:
        """Return OPEN for each part of the wiring that must have a value."""
        return {
            name: _open(field.annotation)
            for name, field in cls.model_fields.items()
            if name in cls.WIRING and (field.is_required() or field.validate_default)
        }

    @classmethod
    def choice_names(cls) -> tuple[str, ...]:
        """Return the keys that a stack file can use, in the order of the model."""
        return tuple(to_camel(name) for name in cls.model_fields if name not in cls.WIRING)

    @classmethod
    def wiring_of(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return those of the values that the program fills in for these arguments."""
        return {name: value for name, value in values.items() if name in cls.WIRING}

    async def settle(self) -> None:
        """Wait until the values of all late arguments are known. Raise one ArgsError with all their problems."""
        problems: list[Problem] = []
        for output in self._late:
            try:
                await output.future()
            except ArgsError as error:
                problems += error.problems
        if problems:
            raise ArgsError(self.subject, problems)


def _map_or_function(value: Any) -> Any:
    if not isinstance(value, Mapping) and not callable(value):
        raise invalid("must be a map of properties, or a function in Python", "wrong-type")
    return value


if TYPE_CHECKING:
    Changed: TypeAlias = tuple[Mapping[str, Any], pulumi.ResourceOptions]
    Transform: TypeAlias = Mapping[str, Any] | Callable[[dict[str, Any], pulumi.ResourceOptions], Changed]
else:
    Transform = Annotated[Any, BeforeValidator(_map_or_function), WithJsonSchema({"type": "object"})]


class ComponentArgs(Args):
    """The arguments of a component, or of an entry of a stack file."""

    # It is left out of dumps if it is empty, because the checks of nodes depend on dumps of the device plugin.
    transform: dict[str, Transform] = Field(
        default={},
        exclude_if=lambda value: not value,
        description="changes of its resources, by their role (docs/guides/transform.md)",
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        fields = cls.__pydantic_fields__
        fields["transform"] = fields.pop("transform")  # the last one in every list of the fields


def _open(annotation: Any) -> Any:
    """Return OPEN, or for a model a map with OPEN for each of its required fields."""
    if not (isinstance(annotation, type) and issubclass(annotation, Args)):
        return OPEN
    return {str(each.alias): _open(each.annotation) for each in annotation.model_fields.values() if each.is_required()}


def is_late(value: Any) -> bool:
    """Return True if the value is or contains an Output, an awaitable or an unknown value."""
    if isinstance(value, pulumi.Output | Unknown) or inspect.isawaitable(value):
        return True
    if isinstance(value, Mapping):
        return any(map(is_late, value.values()))
    return isinstance(value, list | tuple) and any(map(is_late, value))


def marker_of(metadata: list[Any]) -> Marker | None:
    """Return the marker that `Input[...]` added to the annotations of a field, or None."""
    return next((mark for mark in metadata if isinstance(mark, Marker)), None)


@cache
def _adapter(item: Any) -> TypeAdapter[Any]:
    return TypeAdapter(item)


def _bind(value: Any, at: Loc, owner: Args) -> Any:
    """Replace every Late in `value`, at any depth, with a checked Output whose errors name the full path."""
    if isinstance(value, Late):
        output = value.checked(at, owner)
        owner._late.append(output)
        return output
    if isinstance(value, Args):
        if value is not owner:
            owner._late.extend(value._late)
        for name in type(value).model_fields:
            value.__dict__[name] = _bind(value.__dict__[name], (*at, name), owner)
    elif isinstance(value, list):
        value[:] = [_bind(item, (*at, index), owner) for index, item in enumerate(value)]
    elif isinstance(value, dict):
        value.update({key: _bind(item, (*at, key), owner) for key, item in value.items()})
    return value


def _caller() -> str:
    """Return the place in the program that created the arguments, such as ` (pools.py:12)`."""
    frame = sys._getframe(1)
    here = str(Path(__file__).parent)
    while frame.f_back and (frame.f_code.co_filename.startswith(here) or "pydantic" in frame.f_code.co_filename):
        frame = frame.f_back
    return f" ({Path(frame.f_code.co_filename).name}:{frame.f_lineno})"
