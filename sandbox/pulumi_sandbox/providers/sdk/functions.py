"""Read the arguments and results of a function from the source of a Pulumi SDK."""

from __future__ import annotations

import ast
import re

from pulumi_sandbox.providers.sdk.reader import SdkReader, SdkReadError, class_of, getters, snake, text_of
from pulumi_sandbox.providers.sdk.types import ANY, ObjectShape, Property, Shape, Type

CALL = re.compile(r"pulumi\.runtime\.invoke(?:_single)?\('([^']+)', __args__, opts=opts(?:, typ=(\w+))?\)")
ARGUMENT = re.compile(r"__args__\['(\w+)'\] = (\w+)")
# In `get_x_output` every argument is Optional. An argument that is not required is Optional twice.
REQUIRED = re.compile(r"(\w+): pulumi\.Input\[Optional\[(?!Optional\[)")


def read_function(reader: SdkReader, token: str) -> Shape | None:
    """Return the arguments and results of a function, or None if the SDK does not have it."""
    _, _, rest = token.partition(":")
    module, _, name = rest.partition(":")
    folder = "" if module.startswith("index") else module.split("/")[0]
    if not (reader.folder / folder).is_dir():
        # `lambda` is a keyword in Python, so its folder has a trailing underscore. Some folders are in lower case.
        folder = next((p.name for p in reader.folder.iterdir() if p.name.rstrip("_") == folder.lower()), "")
    module_folder = reader.folder / folder
    for path in (module_folder / f"{snake(name)}.py", *sorted(module_folder.glob("*.py"))):
        text = text_of(path) if path.is_file() and not path.name.startswith("_") else ""
        match = next((one for one in CALL.finditer(text) if one.group(1) == token), None)
        if match:
            return _function(reader, token, folder, text, match)
    return None


def _function(reader: SdkReader, token: str, folder: str, text: str, match: re.Match[str]) -> Shape:
    function_start = text.rfind("\ndef ", 0, match.start()) + 1
    function = ast.parse(text[function_start : text.find("\n", match.end())]).body[0]
    if not isinstance(function, ast.FunctionDef):
        raise SdkReadError(f"{reader.module}: {token} is not a function")
    wire = {python: on_the_wire for on_the_wire, python in ARGUMENT.findall(text[function_start : match.start()])}
    start = text.find(f"\ndef {function.name}_output(")
    required = set(REQUIRED.findall(text[start : text.find('"""', start)])) if start >= 0 else set()
    inputs = {
        wire[one.arg]: Property(
            reader.type_of(one.annotation, folder, text) if one.annotation else ANY, one.arg in required
        )
        for one in function.args.args
        if one.arg in wire
    }
    result = class_of(text, match.group(2)) if match.group(2) else None
    # A function without a result class returns one value under any name.
    outputs = {"result": Type("any")}
    if result is not None:
        outputs = {w: reader.type_of(kind, folder, text) for _, w, kind in getters(result) if kind is not None}
    return Shape(token, ObjectShape(inputs), outputs)
