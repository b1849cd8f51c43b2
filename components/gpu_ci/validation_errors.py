"""Converts pydantic's validation errors to problems with paths, expected values and hints.

A choice of models is a union of models, such as the ways to share a GPU. One field, the discriminator, selects the
model. It has a different fixed value in each model. An example is `kind`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, get_args, get_origin

import pulumi
from pulumi.output import Unknown
from pydantic import BaseModel
from pydantic import ValidationError as Invalid
from pydantic.dataclasses import is_pydantic_dataclass
from pydantic.fields import FieldInfo

from .errors import Problem, did_you_mean, in_yaml, nearest, unknown_field

Loc: TypeAlias = tuple[str | int, ...]

# For pydantic's types of errors: the id of the rule, and the text.
_RULES = {
    "missing": ("missing", "is missing"),
    "string_type": ("wrong-type", "must be text"),
    "list_type": ("wrong-type", "must be a list"),
    "tuple_type": ("wrong-type", "must be a list"),
    "frozen_set_type": ("wrong-type", "must be a list"),
    "dict_type": ("wrong-type", "must be a map"),
    "model_type": ("wrong-type", "must be a map"),
    "model_attributes_type": ("wrong-type", "must be a map"),
    "dataclass_type": ("wrong-type", "must be a map"),
    "float_type": ("wrong-type", "must be a number"),
    "float_parsing": ("wrong-type", "must be a number"),
    "bool_type": ("wrong-type", "must be true or false"),
    "bool_parsing": ("wrong-type", "must be true or false"),
    "too_short": ("too-few", "must have at least {min_length} entries"),
    "too_long": ("too-many", "must have at most {max_length} entries"),
    "string_too_short": ("too-short", "must have at least {min_length} characters"),
    "string_too_long": ("too-long", "must have at most {max_length} characters"),
    "greater_than_equal": ("out-of-range", "must be at least {ge}"),
    "greater_than": ("out-of-range", "must be more than {gt}"),
    "less_than_equal": ("out-of-range", "must be at most {le}"),
    "less_than": ("out-of-range", "must be less than {lt}"),
    "literal_error": ("not-a-choice", "must be one of {expected}"),
    "string_pattern_mismatch": ("wrong-form", "has a form that is not accepted"),
}
_SAME_WORD = 0.85
"""The similarity of a word with one wrong letter (difflib's ratio). That of enabled and disabled is 0.8."""
_HIDDEN = "a value that is not shown, because it may be a secret"
_NOT_A_MAP = ("dict_type", "model_type", "model_attributes_type", "dataclass_type")
_UNKNOWN_KEY = ("extra_forbidden", "unexpected_keyword_argument")
_AT_LEAST_ONE = {"too_short": "needs at least one", "string_too_short": "must not be empty"}
"""Texts for a minimum length of one."""


class Place(NamedTuple):
    """A place in a model, with the information that a report needs."""

    path: str
    description: str
    """The description of the nearest field."""
    choices: list[str]
    """The keys of the model at this place. For a choice of models, the values of the discriminator."""
    tag: str
    """The name of the discriminator if this place is a choice of models; empty otherwise."""
    redacted: bool
    """True if the value may be a secret."""
    example: str
    """A hint with the example of the field; empty if it has none."""
    models: Sequence[type[BaseModel]] = ()  # of a choice of models


def explain(
    error: Invalid,
    model: type[BaseModel],
    *,
    under: Loc = (),
    show: bool = True,
    hidden: Collection[str] = (),
) -> list[Problem]:
    """Return every problem of a failed validation. Paths have the form of a stack file.

    Args:
        error: The errors of pydantic.
        model: The model of the whole value.
        under: The place of the validated value in the model.
        show: False for secrets. Their values are not shown.
        hidden: Keys that are not suggested for an unknown key.
    """
    return [_explain(dict(line), model, under, show, hidden) for line in error.errors(include_url=False)]


def _explain(line: dict[str, Any], model: type[BaseModel], under: Loc, show: bool, hidden: Collection[str]) -> Problem:
    kind, value, context = line["type"], line["input"], line.get("ctx", {})
    if kind in _UNKNOWN_KEY:
        *steps, key = line["loc"]
        place = _locate((*under, *steps), model)
        return unknown_field(join(place.path, key), str(key), [each for each in place.choices if each not in hidden])
    path, description, keys, tag, redacted, example, models = _locate((*under, *line["loc"]), model)
    show = show and not redacted
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        return _unknown_choice(kind, path, context, keys, show)
    if isinstance(value, pulumi.Output | Unknown):
        text = "must be known before anything is created, so it cannot be an Output"
        return Problem(path, text, expected=description, rule="must-be-known")
    own = context if "rule" in context else {}
    show = show or bool(own.get("harmless"))
    if tag and kind in _NOT_A_MAP:
        meant = models[keys.index(value) if show and value in keys else 0]
        description, example = (
            f"{description}; {tag} is one of {', '.join(keys)}",
            f"such as {in_yaml(_example(meant))}",
        )
    suggestion = _same_word(value, context["expected"]) if kind == "literal_error" and show else ""
    rule, form = _RULES.get(kind, (kind.replace("_", "-"), ""))
    text = _AT_LEAST_ONE.get(kind, "") if context.get("min_length") == 1 else own.get("text", "")
    return Problem(
        path,
        text or form.format(**context) or _pydantic_text(line["msg"]),
        got="nothing" if kind == "missing" else _got(value) if show or value == [] else _HIDDEN,
        expected=own.get("expected") or description,
        hint=own.get("safe_hint") or (own.get("hint", "") if show else "") or suggestion or example,
        rule=rule,
    )


def _same_word(value: Any, expected: str) -> str:
    """Return a hint if the value is a choice with one wrong letter, or with other upper and lower case.

    Less similar values get no hint, because they may mean the opposite: enabled resembles disabled.
    """
    near = nearest(str(value), re.findall(r"'([^']*)'", expected), _SAME_WORD)  # pydantic quotes each choice
    return f"did you mean {near}" if near else ""


def _unknown_choice(kind: str, path: str, context: Mapping[str, Any], choices: list[str], show: bool) -> Problem:
    """Return the problem of a choice of models whose discriminator is missing or has an unknown value."""
    expected = f"one of {', '.join(choices)}"
    tag = context["discriminator"].strip("'")
    path, hint = join(path, tag), f"such as {tag}: {choices[0]}"
    if kind == "union_tag_not_found":
        return Problem(path, "is missing", "nothing", expected, hint, "missing")
    got, near = (repr(context["tag"]), did_you_mean(str(context["tag"]), choices)) if show else (_HIDDEN, "")
    return Problem(path, "is not one of the choices", got, expected, near or hint, "not-a-choice")


def _locate(loc: Loc, model: type[BaseModel]) -> Place:
    """Return the information about a place in a model."""
    path, description, redacted, example = "", "", False, ""
    at: list[type[BaseModel]] = [model]  # the models that the value at the path may have
    by_name = False  # True if the next step is the key of a map, which may equal the name of a field
    for step in loc:
        if step == "[key]":  # pydantic adds this step if the key is wrong, not its value
            continue
        if by_name:
            path, by_name, example = join(path, step), False, ""
            continue
        # For a choice of models, pydantic adds the discriminator's value as a step.
        if len(at) > 1 and (chosen := [each for each in at if tag_of(each)[1] == step]):
            at = chosen
            continue
        fields = fields_of(at[0]) if at else {}
        name, field = next(((name, f) for name, f in fields.items() if step in (name, f.alias)), ("", None))
        path = join(path, str(field.alias) if field and field.alias else step)
        example = f"such as {field.alias}: {in_yaml(field.examples[0])}" if field and field.examples else ""
        if field:
            description = _description(at[0], name)
            at = list(nested_models(field.annotation, *field.metadata))
            by_name = get_origin(field.annotation) is dict and bool(at)
            redacted = redacted or _takes_secrets(field.annotation, *field.metadata)
    if len(at) > 1:
        return Place(path, description, [tag_of(each)[1] for each in at], tag_of(at[0])[0], redacted, example, at)
    keys = [str(field.alias or name) for each in at for name, field in fields_of(each).items()]
    return Place(path, description, keys, "", redacted, example)


def _example(model: Any) -> dict[str, Any]:
    """Return the fields that a model of a choice needs: the discriminator, and the examples of the required fields."""
    needed = {str(each.alias): each for each in fields_of(model).values() if each.is_required()}
    return dict([tag_of(model)]) | {name: each.examples[0] for name, each in needed.items() if each.examples}


def _takes_secrets(*annotations: Any) -> bool:
    """Return True if a field takes secrets.

    Messages then do not show its invalid values, because they may be secrets.
    """
    return any(
        getattr(annotation, "secrecy", None) or _takes_secrets(*get_args(annotation)) for annotation in annotations
    )


def nested_models(*annotations: Any) -> Iterator[type[Any]]:
    """Yield the models and dataclasses of pydantic in an annotation, at any depth in lists, unions and In[...]."""
    for annotation in annotations:
        if is_pydantic_dataclass(annotation) or (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            yield annotation
        else:
            item = getattr(annotation, "item", None)
            yield from nested_models(*get_args(annotation), *([item] if item else []))


def fields_of(model: Any) -> dict[str, FieldInfo]:
    """Return the fields of a model or of a dataclass of pydantic, by name."""
    fields: dict[str, FieldInfo] = model.__pydantic_fields__
    return fields


def _description(model: Any, name: str) -> str:
    """Return the description of a field. Dataclasses of pydantic do not inherit those of their bases."""
    fields = (fields_of(each).get(name) for each in model.__mro__ if "__pydantic_fields__" in vars(each))
    return next((field.description for field in fields if field and field.description), "")


def tag_of(model: type[BaseModel]) -> tuple[str, str]:
    """Return the discriminator of a model in a choice: the field with one fixed value, and that value.

    Raise LookupError if the model has no such field. The model then cannot be part of a choice.
    """
    for name, field in fields_of(model).items():
        choices = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
        if len(choices) == 1:
            return str(field.alias or name), str(choices[0])
    raise LookupError(f"{model.__name__} has no field with one fixed value")


def join(path: str, step: str | int) -> str:
    """Add a step to a property path in Pulumi's format: `zones[1]`, `smoke.deadlineSec`, `labels["a.b"]`."""
    if isinstance(step, int):
        return f"{path}[{step}]"
    if not step.replace("_", "a").replace("-", "a").isalnum():
        return f'{path}["{step}"]'
    return f"{path}.{step}" if path else step


def _got(value: Any) -> str:
    if isinstance(value, Mapping | BaseModel):
        return "a map"
    if isinstance(value, list | tuple):
        return "a list"
    return "nothing" if value is None else repr(value) if len(repr(value)) <= 120 else f"{repr(value)[:120]}…"


def _pydantic_text(message: str) -> str:
    """Return pydantic's own message in the form of this package: lower case, no full stop."""
    message = message.removeprefix("Value error, ").rstrip(".")
    return message[:1].lower() + message[1:]
