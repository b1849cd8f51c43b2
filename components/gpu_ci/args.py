"""The base of every component's arguments: one pydantic model, whose wiring may still be an Output."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias, TypeVar

import pulumi
from pulumi.output import Unknown
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, GetCoreSchemaHandler, PrivateAttr, TypeAdapter
from pydantic import ValidationError as Invalid
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from .errors import ArgsError, Problem, invalid
from .validation_errors import Loc, explain


class Late:
    """A value that is not there yet; it becomes a checked Output once its whole model is known to be in order."""

    def __init__(self, output: pulumi.Output[Any], marker: Marker) -> None:
        self.output = output
        self.marker = marker

    def checked(self, at: Loc, owner: Args) -> pulumi.Output[Any]:
        """The same Output, failing with the field's own message when it resolves to something else."""
        source = self.output

        async def check(value: Any) -> Any:
            secret = await source.is_secret()
            try:
                if self.marker.secrecy not in (None, secret):
                    wrong = InitErrorDetails(type=_secrecy_problem(wanted=not secret), input=None)
                    raise Invalid.from_exception_data("", [wrong])
                return _adapter(self.marker.item).validate_python(value)
            except Invalid as error:
                raise owner.wrong(explain(error, type(owner), under=at, show=not secret)) from None

        return source.apply(check)


class Marker:
    """Annotation behind `Input[T]`. It keeps `T` whole, because pydantic flattens nested Annotated types.

    `secrecy` is true where only a secret Output will do, false where none may come, and None where either may.
    """

    def __init__(self, item: Any, secrecy: bool | None = None) -> None:
        self.item = item
        self.secrecy = secrecy

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def check(value: Any, inner: Callable[[Any], Any]) -> Any:
            if is_late(value):
                return Late(pulumi.Output.from_input(value), self)
            if self.secrecy:
                raise _secrecy_problem(wanted=True)
            return inner(value)

        return core_schema.no_info_wrap_validator_function(check, handler.generate_schema(self.item))


class Redacted:
    """Annotation of a field whose wrong values are not shown, because they may be secrets."""

    secrecy = "redacted"


if TYPE_CHECKING:
    T = TypeVar("T")
    Input: TypeAlias = pulumi.Input[T]
    In: TypeAlias = pulumi.Input[T]
    SecretInput: TypeAlias = pulumi.Input[T]
    PlainInput: TypeAlias = pulumi.Input[T]
else:

    class Input:
        """`Input[T]`: a `T`, checked at once, or an Output of one, checked with the same message when it resolves.

        Constraints belong inside: `Input[Annotated[int, Field(ge=1)]]`.
        """

        def __class_getitem__(cls, item: Any) -> Any:
            return Annotated[Any, Marker(item)]

    class SecretInput:
        """`SecretInput[T]`: an Output of a `T` that is marked as secret. Errors of such a field never show its value.

        Whether an Output is secret can be unknown in a preview, as its value is; it is asked when the value is there.
        """

        def __class_getitem__(cls, item: Any) -> Any:
            return Annotated[Any, Marker(item, secrecy=True)]

    class PlainInput:
        """`PlainInput[T]`: as `Input[T]`, but a secret Output is refused, because the value will be readable."""

        def __class_getitem__(cls, item: Any) -> Any:
            return Annotated[Any, Marker(item, secrecy=False)]

    In = Input  # its name in the first releases


def _secrecy_problem(*, wanted: bool) -> PydanticCustomError:
    """What is told of a value that is plain where it must be secret, or secret where it may not be."""
    if wanted:
        hint = "pulumi.Output.secret(...), config.require_secret(...), or what get_secret_version_output(...) answers"
        return invalid("must be a secret Output, so that neither state nor logs have it in plain text", safe_hint=hint)
    return invalid("is a secret, and would be readable here", safe_hint="put it under secrets")


def _whole(value: Any) -> Any:
    """Engine and YAML alike hand over 2.0 for 2; text and booleans are mistakes, though Python would convert them."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise invalid("must be a whole number")
    return value


Integer = Annotated[int, BeforeValidator(_whole)]
"""A whole number, also when it arrives as a float."""

StrictBool = Annotated[bool, Field(strict=True)]
"""True or false, and no text that could be taken for one."""


class Args(BaseModel):
    """Arguments of a component, or of a part of it. Frozen, in camelCase outside and snake_case inside."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=True,
    )

    WIRING: ClassVar[frozenset[str]] = frozenset()
    """Fields another resource provides; the others are choices a person makes in a stack file."""

    DECIDED: ClassVar[Mapping[str, str]] = {}
    """What people look for among the fields and is decided here, with the reason."""

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

    # Pydantic then builds nested models itself, without this constructor, so that their mistakes join the same report.
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
        """What an error about these arguments is about."""
        return self._file or self._subject or type(self).__name__

    def about(self, subject: str) -> None:
        """Name what the arguments belong to, for the errors of values that come later."""
        self._subject = subject

    def set_source(self, file: str, place: str) -> None:
        """Name where a person wrote the arguments: an error that comes later is told there, whatever they belong to."""
        self._file, self._place = file, place

    def wrong(self, problems: Sequence[Problem]) -> ArgsError:
        """The error of these problems, each at its place in the arguments."""
        return ArgsError(self.subject, [each.under(self._place) if self._place else each for each in problems])

    @classmethod
    def choice_problems(cls, choices: Mapping[str, Any], known: Mapping[str, Any] | None = None) -> list[Problem]:
        """What is wrong with the choices of a stack file, whose wiring the program fills in afterwards: all but what of
        it is `known`, by which the choices are judged."""
        wiring = {to_camel(name) for name in cls.WIRING}
        problems = [
            Problem(name, "is filled in by the program, not by the stack file", hint="remove it")
            for name in choices
            if name in wiring or name in cls.WIRING
        ]
        taken = {problem.path for problem in problems}
        given = {key: value for key, value in choices.items() if key not in taken}
        try:
            cls.__pydantic_validator__.validate_python({**(known or {}), **given})
        except Invalid as error:
            found = explain(error, cls, hidden=wiring)
            problems += [each for each in found if re.split(r"[.\[]", each.path)[0] not in wiring]
        return problems

    @classmethod
    def choice_names(cls) -> tuple[str, ...]:
        """The keys a stack file may use, in the order of the model."""
        return tuple(to_camel(name) for name in cls.model_fields if name not in cls.WIRING)

    @classmethod
    def stand_in_wiring(cls, region: str, choices: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG003 - some need them
        """Wiring in good order, for looking at choices where no surroundings are at hand."""
        return {}

    async def settle(self) -> None:
        """Wait for every value that was late; one ArgsError tells all that is wrong with them."""
        problems: list[Problem] = []
        for output in self._late:
            try:
                await output.future()
            except ArgsError as error:
                problems += error.problems
        if problems:
            raise ArgsError(self.subject, problems)


def is_late(value: Any) -> bool:
    """Whether some of the value is still an Output, an awaitable or unknown."""
    if isinstance(value, pulumi.Output | Unknown) or inspect.isawaitable(value):
        return True
    if isinstance(value, Mapping):
        return any(map(is_late, value.values()))
    return isinstance(value, list | tuple) and any(map(is_late, value))


def marker_of(metadata: list[Any]) -> Marker | None:
    """The `Input[...]` among a field's annotations, if it has one."""
    return next((mark for mark in metadata if isinstance(mark, Marker)), None)


@cache
def _adapter(item: Any) -> TypeAdapter[Any]:
    return TypeAdapter(item)


def _bind(value: Any, at: Loc, owner: Args) -> Any:
    """Turn every late value below `value` into a checked Output that knows its full path."""
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
    """Where in the program the arguments were made, such as ` (pools.py:12)`."""
    frame = sys._getframe(1)
    here = str(Path(__file__).parent)
    while frame.f_back and (frame.f_code.co_filename.startswith(here) or "pydantic" in frame.f_code.co_filename):
        frame = frame.f_back
    return f" ({Path(frame.f_code.co_filename).name}:{frame.f_lineno})"
