"""A manifest of the models under a folder: written anew, or brought up to date."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from caffe2_bridge.diagnostics import OptionError
from caffe2_bridge.storage import AnyPath, locate
from caffe2_fleet.models.discovery import Skipped, discover, files_of, name_of, text_of
from caffe2_fleet.models.manifest import read_manifest
from caffe2_fleet.models.write_manifest import append_models, write_manifest
from caffe2_fleet.task import ModelTask


@dataclass(frozen=True)
class ManifestUpdate:
    """What became of a manifest: the models that were added, those whose files are gone, and the files skipped."""

    added: Sequence[ModelTask]
    gone: Sequence[ModelTask]
    skipped: Sequence[Skipped]


def discover_manifest(folder: AnyPath, manifest: AnyPath, *, update: bool = False) -> ManifestUpdate:
    """Write the models under a folder to a manifest, each with the init net that is found by its name.

    Args:
        folder: where models are.
        manifest: a .toml, .json or .parquet file. One that exists is not replaced.
        update: add the models that an existing manifest lacks, and keep what it has.

    Raises:
        OptionError: the manifest exists and is not to be updated, or is not valid.
        NetFormatError, RunError: the manifest cannot be read, or PyArrow is not installed.
        OSError: the folder cannot be read, or the manifest cannot be written.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} must be a folder with models")
    exists = manifest.exists()
    if exists and not update:
        raise OptionError(f"{manifest} exists: add new models to it with --update, or name another file")
    found = discover(folder)
    tasks = [_task(path, folder) for path in found.models]
    if not exists:
        write_manifest(tasks, manifest)
        return ManifestUpdate(tasks, (), found.skipped)
    listed = read_manifest(manifest)
    known = {locate(task.path).resolve() for task in listed}
    added = [task for task in tasks if locate(task.path).resolve() not in known]
    if added and manifest.suffix == ".toml":
        append_models(added, manifest)
        read_manifest(manifest)  # so that a name that occurs twice is reported now
    elif added:
        write_manifest([*listed, *added], manifest)
    return ManifestUpdate(added, [task for task in listed if not locate(task.path).exists()], found.skipped)


def _task(path: AnyPath, folder: AnyPath) -> ModelTask:
    init = files_of(path)[1:] if path.is_file() else []
    return ModelTask(name_of(path, folder), text_of(path), text_of(init[0]) if init else "")
