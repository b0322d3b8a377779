"""Where models run."""

from typing import Any

from tour_pyserini.errors import TourError, first_line


def on_device(model: Any, device: str, *, name: object = "the model") -> Any:
    """The torch module, moved to a device: `cpu`, `cuda:0`, ...

    Raises:
        TourError: if this machine, or this build of torch, has no such device.
    """
    try:
        return model.to(device)
    except Exception as error:  # torch has several for this
        raise TourError(f"{name} cannot run on the device {device!r} ({first_line(error)}); use cpu.") from error
