"""Read the shapes of resources and functions from the source of a Pulumi SDK, without importing the SDK.

A *shape* is the declaration of one resource or function: its inputs with their types, and its outputs (types.py).

The SDKs are generated, so their source is as regular as a schema. To import one module of a large SDK takes seconds
(pulumi_gcp.compute: 2 s). To find one class in its text takes milliseconds.
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import json
import re
from collections.abc import Iterator
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

from pulumi_sandbox.providers.sdk.types import ANY, ObjectShape, Property, Shape, Type

REGISTRATION = re.compile(r'resource_modules="""(.*?)"""', re.DOTALL)
PROVIDER_REGISTRATION = re.compile(r'resource_packages="""(.*?)"""', re.DOTALL)
ARGS_CLASS = re.compile(r"__props__ = (\w+)\.__new__\(")
SECRET_INPUT = re.compile(r'__props__\.__dict__\["(\w+)"\] = .*pulumi\.Output\.secret\(')
SECRET_OUTPUTS = re.compile(r"additional_secret_outputs=\[(.*?)\]")
# The prefix of the name of an object of outputs.
OUTPUTS = "outputs."
# A deprecated property has a further decorator.
GETTER = re.compile(
    r"""^    @pulumi\.getter(?:\(name="([^"]+)"\))?\n(?:    @_utilities.*?\n)??    def (\w+)\(self\) -> (.*?):\n"""
    r'''(?:        """\n(.*?)\n        """\n)?''',
    re.MULTILINE | re.DOTALL,
)
CONSTRUCTOR = re.compile(r"^    def __init__\(__self__(?:, \*,\n(.*?))?\):\n", re.MULTILINE | re.DOTALL)
PARAMETER = re.compile(r"^ +(\w+): (.*?)( = None)?,?$", re.MULTILINE)
IMPORT = re.compile(r"^from (\.+)(\S*) import (\w+)(?: as (\w+))?$", re.MULTILINE)

SCALAR_NAMES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "Any": "any"}
PULUMI_NAMES = {"Asset": "asset", "Archive": "archive"}
# Wrappers that do not change the value's type. The engine resolves an Input before a provider receives it.
TRANSPARENT = frozenset({"Input", "Optional", "Output", "Awaitable", "InputType"})


class SdkReadError(Exception):
    """The source of the installed SDK does not have the expected form of generated code."""


@lru_cache(maxsize=4)
def text_of(path: Path) -> str:
    # pulumi_gcp/compute/_inputs.py alone has 5 MB, and one check reads several of its classes.
    return path.read_bytes().decode()


def class_source(text: str, name: str) -> str | None:
    """Return the source of one top-level class without its decorators."""
    for header in (f"\nclass {name}:", f"\nclass {name}("):
        start = text.find(header)
        if start >= 0:
            end = re.compile(r"\n(?=[^\s#)])").search(text, start + 1)
            return text[start + 1 : end.start() if end else len(text)]
    return None


def class_of(text: str, name: str) -> str:
    if source := class_source(text, name):
        return source
    raise SdkReadError(f"the SDK has no class {name} where its generated code has it")


class Getter(NamedTuple):
    """One property of a class."""

    python: str
    """The name in Python."""
    wire: str
    annotation: str
    text: str
    """The documentation."""


def getters(source: str) -> Iterator[Getter]:
    for wire, python, annotation, text in GETTER.findall(source):
        yield Getter(python, wire or python, annotation, text)


def snake(name: str) -> str:
    """Return the module name that the SDK generators give a class: `IAMBinding` gives iam_binding."""
    with_underscores = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    return re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", with_underscores).lower()


class SdkReader:
    """One installed SDK."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.module = f"pulumi_{package}"
        found = importlib.util.find_spec(self.module)
        if found is None or not found.submodule_search_locations:
            raise SdkReadError(f"{self.module} is not installed; install it to use {package} resources")
        self.folder = Path(found.submodule_search_locations[0])
        self.version = importlib.metadata.version(self.module)

    @cached_property
    def tokens(self) -> dict[str, tuple[str, str]]:
        """The place of each resource type: token -> (folder inside the SDK, class)."""
        text = (self.folder / "__init__.py").read_text(encoding="utf-8")
        found = REGISTRATION.search(text)
        if not found:
            raise SdkReadError(f"{self.module}/__init__.py registers no resources")
        tokens: dict[str, tuple[str, str]] = {}
        for module in json.loads(found.group(1)):
            folder = module["fqn"].removeprefix(self.module).lstrip(".").replace(".", "/")
            tokens.update({token: (folder, name) for token, name in module["classes"].items()})
        provider = PROVIDER_REGISTRATION.search(text)
        for one in json.loads(provider.group(1)) if provider else []:
            tokens[one["token"]] = ("", one["class"])
        return tokens

    def resource(self, token: str) -> Shape:
        folder, name = self.tokens[token]
        text = self.text_with(folder, name)
        source = class_of(text, name)
        args = ARGS_CLASS.search(source)
        if not args:
            raise SdkReadError(f"{self.module}: {name} has no class of arguments")
        body = class_of(text, args.group(1))
        wire = {each.python: each.wire for each in getters(body)}
        secret_outputs = SECRET_OUTPUTS.search(source)
        outputs = {each.wire: each.annotation for each in getters(source)}
        return Shape(
            inputs=self.fields_of(body, folder, text),
            outputs={one: self.type_of(annotation, folder, text) for one, annotation in outputs.items()},
            never_empty=frozenset(
                one for one, annotation in outputs.items() if not annotation.startswith("pulumi.Output[Optional[")
            ),
            secret_inputs=frozenset(wire[one] for one in SECRET_INPUT.findall(source) if one in wire),
            secret_outputs=frozenset(re.findall(r'"(\w+)"', secret_outputs.group(1)) if secret_outputs else ()),
        )

    def object(self, key: str) -> ObjectShape:
        """Return the fields of a nested object of inputs or outputs. `key` is the name of its type."""
        folder, name = key.rsplit(":", 1)
        text = text_of(self.folder / folder / ("outputs.py" if name.startswith(OUTPUTS) else "_inputs.py"))
        return self.fields_of(class_of(text, name.removeprefix(OUTPUTS)), folder, text)

    def enum(self, key: str) -> tuple[str | float, ...]:
        folder, name = key.rsplit(":", 1)
        return tuple(
            item.value.value
            for item in ast.walk(ast.parse(class_of(text_of(self.folder / folder / "_enums.py"), name)))
            if isinstance(item, ast.Assign)
            and isinstance(item.value, ast.Constant)
            and isinstance(item.value.value, str | int | float)
        )

    def text_with(self, folder: str, name: str) -> str:
        """Return the text of the file that declares a class."""
        module_folder = self.folder / folder
        for path in (module_folder / f"{snake(name)}.py", module_folder / f"{name}.py"):
            if path.is_file() and f"\nclass {name}(" in (text := text_of(path)):
                return text
        for path in sorted(module_folder.glob("*.py")):
            if not path.name.startswith("_") and f"\nclass {name}(" in (text := path.read_text(encoding="utf-8")):
                return text
        raise SdkReadError(f"{self.module}: no class {name} in {folder or 'the root'}")

    def fields_of(self, source: str, folder: str, text: str) -> ObjectShape:
        """Return the fields of a class: the parameters of its constructor."""
        constructor = CONSTRUCTOR.search(source)
        if constructor is None:
            raise SdkReadError(f"{self.module}/{folder}: a class has no constructor: {source[:80]}")
        wire = {each.python: each.wire for each in getters(source)}
        return ObjectShape(
            {
                wire.get(name, name): Property(self.type_of(annotation, folder, text), not default)
                for name, annotation, default in PARAMETER.findall(constructor[1] or "")
            }
        )

    def type_of(self, annotation: str, folder: str, text: str) -> Type:
        return self.type_of_node(ast.parse(annotation, mode="eval").body, folder, text)

    def type_of_node(self, node: ast.expr, folder: str, text: str) -> Type:
        match node:
            case ast.Constant(value=str() as quoted):
                return self.type_of(quoted, folder, text)
            case ast.Name(id=name) if name in SCALAR_NAMES:
                return Type(SCALAR_NAMES[name])
            case ast.Attribute(value=ast.Name(id="_builtins" | "builtins"), attr=name) if name in SCALAR_NAMES:
                return Type(SCALAR_NAMES[name])
            case ast.Attribute(value=ast.Name(id="pulumi"), attr=name) if name in PULUMI_NAMES:
                return Type(PULUMI_NAMES[name])
            case ast.Attribute(value=ast.Name(id="pulumi"), attr="AssetOrArchive" | "ArchiveOrAsset"):
                return Type("union", (Type("asset"), Type("archive")))
            case ast.Name() | ast.Attribute():
                return self._reference(ast.unparse(node), folder, text)
            case ast.Subscript(value=wrapper, slice=inner):
                return self._generic(ast.unparse(wrapper).rsplit(".", 1)[-1], inner, folder, text)
        raise SdkReadError(f"{self.module}/{folder}: cannot read the type {ast.unparse(node)}")

    def _generic(self, wrapper: str, inner: ast.expr, folder: str, text: str) -> Type:
        parts = list(inner.elts) if isinstance(inner, ast.Tuple) else [inner]
        if wrapper in TRANSPARENT:
            return self.type_of_node(parts[0], folder, text)
        if wrapper in ("Sequence", "List", "list"):
            return Type("list", (self.type_of_node(parts[0], folder, text),))
        if wrapper in ("Mapping", "Dict", "dict"):
            return Type("map", (self.type_of_node(parts[1], folder, text),))
        if wrapper == "Literal":
            return Type("const", name=str(ast.literal_eval(parts[0])))
        if wrapper == "Union":
            # A union lists each object three times: as Args, as its TypedDict and as the output type.
            kinds = [self.type_of_node(one, folder, text) for one in parts if not _repeats_object(one)]
            distinct = tuple(dict.fromkeys(kinds))
            return distinct[0] if len(distinct) == 1 else Type("union", distinct)
        raise SdkReadError(f"{self.module}/{folder}: cannot read the type {wrapper}[...]")

    def _reference(self, dotted: str, folder: str, text: str) -> Type:
        if dotted.startswith(OUTPUTS):
            return Type("object", name=f"{folder}:{dotted}")
        *modules, name = dotted.split(".")
        if "outputs" in modules:
            return ANY
        module = folder
        if modules:
            module = "/".join([self._imported(modules[0], folder, text), *modules[1:]])
        if name.endswith("Args"):
            return Type("object", name=f"{module}:{name}")
        enums = self.folder / module / "_enums.py"
        if enums.is_file() and class_source(text_of(enums), name):
            return Type("enum", name=f"{module}:{name}")
        return ANY

    def _imported(self, alias: str, folder: str, text: str) -> str:
        for dots, path, name, renamed in IMPORT.findall(text):
            if alias == (renamed or name):
                folders = folder.split("/") if folder else []
                base = folders[: len(folders) - (len(dots) - 1)]
                return "/".join([*base, *(path.split(".") if path else []), name])
        raise SdkReadError(f"{self.module}/{folder}: {alias} is not imported")


def _repeats_object(node: ast.expr) -> bool:
    quoted = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
    return quoted.endswith("Dict") or quoted.startswith(OUTPUTS)


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
            reader.type_of_node(one.annotation, folder, text) if one.annotation else ANY, one.arg in required
        )
        for one in function.args.args
        if one.arg in wire
    }
    # A function without a result class returns one value under any name.
    outputs = {"result": ANY}
    if match.group(2):
        result = getters(class_of(text, match.group(2)))
        outputs = {each.wire: reader.type_of(each.annotation, folder, text) for each in result}
    return Shape(ObjectShape(inputs), outputs)
