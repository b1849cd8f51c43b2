"""The base class of the components that build images for pools."""

from __future__ import annotations

from typing import ClassVar

from .component import Component


class ImagePipeline(Component):
    """Builds images and checks them. An image that passed its check is a candidate, which no pool uses by itself."""

    IMAGE_KIND: ClassVar[str]
    """The `kind` of the pipeline under gpu-ci:images in a stack file."""

    PINS: ClassVar[tuple[tuple[str, ...], ...]]
    """The fields of pools that can name an image of this pipeline, each by the keys below the pool."""
