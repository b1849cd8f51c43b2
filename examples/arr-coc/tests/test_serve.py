"""The requests and answers of the server."""

import json

import pytest
from arr_coc.model import TextureNet
from arr_coc.serve import InvalidError, predict, read_instances
from arr_coc.textures import LABELS, SIZE, batch

IMAGE = [[0.5] * SIZE] * SIZE


def test_a_prediction_has_a_label_and_a_probability() -> None:
    images, _ = batch(3, seed=0)
    read = read_instances(json.dumps({"instances": images[:, 0].tolist()}).encode())
    found = predict(TextureNet(len(LABELS)).eval(), list(LABELS), read)
    assert [each["label"] in LABELS and 0.25 <= each["probability"] <= 1 for each in found] == [True] * 3


@pytest.mark.parametrize("value", [1, [], [IMAGE], IMAGE[1:], [*IMAGE[1:], IMAGE[0][1:]], [[1.5] * SIZE] * SIZE])
def test_invalid_instances_are_named(value: object) -> None:
    with pytest.raises(InvalidError, match=r"^instances\[1\]: expected 32 rows"):
        read_instances(json.dumps({"instances": [IMAGE, value]}).encode())


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"instances": []}', b'{"instances": 1}', b"[" * 100_000])
def test_a_body_without_instances_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidError, match="one instance or more"):
        read_instances(body)
