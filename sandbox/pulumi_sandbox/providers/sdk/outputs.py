"""Read from an SDK which outputs of a resource are never empty, and the types of their nested objects."""

from __future__ import annotations

import ast
import threading

from pulumi_sandbox.providers.sdk.reader import SdkReader, SdkReadError, class_of, getters, text_of
from pulumi_sandbox.providers.sdk.types import ANY, ObjectShape, Type


class OutputReader(SdkReader):
    """The outputs of one installed SDK. Each type is read on first use. Safe to use from several threads."""

    def __init__(self, package: str) -> None:
        super().__init__(package)
        self._never_empty: dict[str, dict[str, Type]] = {}
        self._objects: dict[str, ObjectShape] = {}
        self._lock = threading.RLock()

    def never_empty(self, token: str, folder: str, name: str) -> dict[str, Type]:
        """Return the type of each output of a resource that the SDK does not declare as Optional."""
        with self._lock:
            if token not in self._never_empty:
                path, text = self.file_of(folder, name)
                declared = class_of(text, name)
                if declared is None:
                    raise SdkReadError(f"{path.name}: {name} is missing")
                self._never_empty[token] = {
                    wire: self.type_of(kind, folder, text)
                    for _, wire, kind in getters(declared)
                    if kind is not None and not _is_optional(kind)
                }
            return self._never_empty[token]

    def object(self, key: str) -> ObjectShape:
        """Return the fields of a nested object of outputs."""
        with self._lock:
            if key not in self._objects:
                folder, name = key.rsplit(":", 1)
                text = text_of(self.folder / folder / "outputs.py")
                body = class_of(text, name)
                if body is None:
                    raise SdkReadError(f"{self.module}: no output type {key}")
                self._objects[key] = self.inputs_of(body, folder, text)
            return self._objects[key]

    def _reference(self, dotted: str, folder: str, text: str) -> Type:
        if dotted.startswith("outputs."):
            return Type("object", name=f"{folder}:{dotted.removeprefix('outputs.')}")
        found = super()._reference(dotted, folder, text)
        return ANY if found.kind == "object" else found


def _is_optional(annotation: ast.expr) -> bool:
    """Return True for `pulumi.Output[Optional[...]]`."""
    return (
        isinstance(annotation, ast.Subscript)
        and isinstance(annotation.slice, ast.Subscript)
        and ast.unparse(annotation.slice.value) == "Optional"
    )
