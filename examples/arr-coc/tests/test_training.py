"""The textures, the training and the files of a model."""

from pathlib import Path

import torch
from arr_coc.model import load, save
from arr_coc.textures import LABELS, SIZE, batch
from arr_coc.train import train


def test_equal_seeds_give_equal_textures_of_all_labels() -> None:
    images, labels = batch(100, seed=1)
    assert images.shape == (100, 1, SIZE, SIZE)
    assert 0 <= images.min() <= images.max() <= 1
    assert set(labels.tolist()) == set(range(len(LABELS)))
    assert torch.equal(images, batch(100, seed=1)[0])
    assert not torch.equal(images, batch(100, seed=2)[0])


def test_the_model_learns_and_its_files_have_it(device: str, tmp_path: Path) -> None:
    model, accuracy = train(steps=100, seed=0, device=device)
    assert accuracy > 0.95
    save(tmp_path, model, accuracy, LABELS)
    loaded, labels = load(tmp_path)  # on the CPU
    assert labels == list(LABELS)
    images, expected = batch(500, seed=7)
    with torch.inference_mode():
        assert (loaded(images).argmax(1) == expected).float().mean() > 0.95
        # cuDNN may use TF32, which rounds its inputs to 11 bits.
        torch.testing.assert_close(model(images.to(device)).cpu(), loaded(images), rtol=2e-2, atol=2e-2)
