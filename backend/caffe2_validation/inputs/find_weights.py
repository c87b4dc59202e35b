"""Say where the weights of a net come from that were found by the contents of the files in its folder."""

from __future__ import annotations

import dataclasses

from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.files import init_search
from caffe2_bridge.files.loader import load_init_net
from caffe2_bridge.model import Model


def find_weights(model: Model, *, required: bool = True) -> tuple[Model, list[str]]:
    """Return the model with an init net from its folder, if it has none, lacks weights, and one file has all of them.

    ``caffe2_bridge.load`` has found it already, unless several files have the weights.

    Args:
        model: the net.
        required: whether an ambiguous choice is an error; else no file is used, and a note names them.

    Returns:
        The model, unchanged where no file has the weights; and a note that names the file.

    Raises RunError if several files have them and the choice is ``required``.
    """
    found = init_search.init_nets_by_content(model, load_init_net)
    if len(found) > 1:
        names = ", ".join(file.name for file, _ in found)
        reason = f"several files have the weights of {model.source}: {names}; name one with --init"
        if required:
            raise RunError(reason)
        return model, [reason]
    whole = init_search.with_init_net(model, *found[0]) if found else model
    others = tuple(finding for finding in whole.init.findings if finding.code != init_search.FOUND)
    if len(others) == len(whole.init.findings):
        return whole, []
    notes = [finding.reason for finding in whole.init.findings if finding.code == init_search.FOUND]
    return dataclasses.replace(whole, init=dataclasses.replace(whole.init, findings=others)), notes
