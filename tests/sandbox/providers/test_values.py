"""Values of the engine come back unchanged: unknowns, secrets and assets, at any depth."""

from __future__ import annotations

from typing import Any

from google.protobuf import json_format, struct_pb2
from gpu_common.pulumi_wire import ARCHIVE, ASSET, SIGNATURE
from hypothesis import given
from hypothesis import strategies as st
from pulumi_sandbox.providers import paths
from pulumi_sandbox.providers.secret_digests import (
    CHANGED,
    digest,
    hash_secrets,
    is_digest,
    redact,
    restore_secrets,
    secret_paths,
)
from pulumi_sandbox.providers.values import UNKNOWN, Asset, Decoded, at, drop_nested, leaves
from pulumi_sandbox.providers.wire import decode, encode

KEY = b"k" * 32
names = st.text(min_size=1, max_size=6).filter(lambda name: name != SIGNATURE)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False, width=32).filter(lambda value: not value.is_integer())
    | st.text(max_size=8)
    | st.just(UNKNOWN)
    | st.builds(lambda text: Asset({SIGNATURE: ASSET, "text": text, "hash": text}), st.text(max_size=4))
)
trees = st.dictionaries(
    names,
    st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=8
    ),
    max_size=4,
)


def every_path(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [*([path] if path else []), *(one for step, inner in items for one in every_path(inner, (*path, step)))]


@st.composite
def marked(draw: st.DrawFn) -> Decoded:
    values = draw(trees)
    possible = every_path(values)
    chosen = draw(st.sets(st.sampled_from(possible), max_size=3)) if possible else set()
    return Decoded(values, drop_nested(chosen))


def kinds(values: dict[str, Any]) -> dict[Any, type]:
    return {path: type(value) for path, value in leaves(values)}


def wire(tree: dict[str, Any]) -> struct_pb2.Struct:
    return json_format.ParseDict(tree, struct_pb2.Struct())


@given(marked())
def test_values_and_their_secrets_survive_the_way_to_the_engine_and_back(sent: Decoded) -> None:
    back = decode(encode(sent.values, sent.secrets))
    assert back == sent
    assert kinds(back.values) == kinds(sent.values)  # 1 == 1.0 == True


@given(marked())
def test_sealed_values_open_again_for_who_knows_them(kept: Decoded) -> None:
    stored = hash_secrets(kept.values, kept.secrets, KEY)
    known = any(value is UNKNOWN for path in kept.secrets for _, value in leaves(at(kept.values, path)))
    if not known:
        assert restore_secrets(stored, [kept], KEY) == kept
    for path in kept.secrets:
        assert is_digest(at(stored, path))


@given(st.text(min_size=1, alphabet='ab.[]"\\* ü0').map(lambda key: (key, 3, "plain", key)))
def test_every_path_reads_back_from_its_text(path: tuple[str | int, ...]) -> None:
    assert paths.parse(paths.text(path)) == path


def test_assets_are_kept_as_they_are_and_equal_by_their_hash() -> None:
    sent = {
        "file": {SIGNATURE: ASSET, "path": "./a", "hash": "1"},
        "folder": {SIGNATURE: ARCHIVE, "assets": {"x": {SIGNATURE: ASSET, "text": "t"}}, "hash": "2"},
    }
    decoded = decode(wire(sent))
    assert json_format.MessageToDict(encode(decoded.values)) == sent
    assert decoded.values["file"] == Asset({SIGNATURE: ASSET, "path": "./moved", "hash": "1"})
    assert decoded.values["file"] != Asset({SIGNATURE: ASSET, "path": "./a", "hash": "9"})
    assert decoded.values["folder"].is_archive
    assert Asset({SIGNATURE: ASSET, "hash": "2"}) != decoded.values["folder"]


def test_a_sealed_secret_does_not_hold_its_text_and_is_shown_as_secret() -> None:
    stored = hash_secrets({"user": "ada", "password": "hunter22"}, frozenset({("password",)}), KEY)
    assert "hunter22" not in str(stored)
    assert stored == {"user": "ada", "password": {"secret": digest("hunter22", KEY)}}
    assert digest("hunter22", b"other") != digest("hunter22", KEY)
    assert redact({"list": [stored]}) == {"list": [{"user": "ada", "password": "[secret]"}]}


def test_a_secret_nobody_knows_any_more_becomes_a_marked_placeholder() -> None:
    stored = hash_secrets({"password": "hunter22"}, frozenset({("password",)}), KEY)
    other = Decoded({"password": "other"}, frozenset({("password",)}))
    assert restore_secrets(stored, [other], KEY) == Decoded({"password": CHANGED}, frozenset({("password",)}))


def test_a_users_own_map_named_secret_is_no_sealed_value() -> None:
    values = {"volume": {"secret": "tls"}, "other": {"secret": {"secretName": "x"}}}
    assert restore_secrets(hash_secrets(values, frozenset(), KEY), [], KEY) == Decoded(values)


def test_outputs_are_secret_where_the_input_is_and_where_they_repeat_it() -> None:
    inputs = {"password": "hunter22", "short": "on", "tags": {"a": "b"}}
    outputs = {**inputs, "url": "https://x:hunter22@host", "copy": ["y", "hunter22"], "named": 1, "on": "on"}
    hidden = secret_paths(outputs, inputs, frozenset({("password",), ("short",), ("gone",)}), ["named", "missing"])
    assert hidden == {("password",), ("short",), ("url",), ("copy", 1), ("named",)}
