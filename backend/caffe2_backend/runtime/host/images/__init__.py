"""ImageInput: batches of images from a database."""

from typing import Final

from caffe2_backend.runtime.host.images import image_input

FAMILIES: Final = (image_input.family,)
