"""Unpacks a bundle into a folder where only what is in it can be used (`halo.build.bundled`)."""

import os

from halo.build.bundle import open_bundle, read_artifacts, read_list
from halo.build.bundled import Bundle, sealed
from halo.build.garbage import leftover_of
from halo.build.store import Store
from halo.errors import UsageError
from halo.files.atomic import publish_folder, replace_file
from halo.files.regular import refuse_links
from halo.workspace.locate import BUNDLE, HALO_DIR

_GITIGNORE = b"# Unpacked by `halo bundle`: nothing here is a source.\n*\n"


def unpack(packed: str, directory: str, home: str) -> Bundle:
    """Unpack the file `packed` into `directory`, in the place of what was unpacked there before.

    All of it is verified before anything is written; what is used changes at once, with the last step.
    Artifacts of an earlier bundle and sessions stay. `home` is Halo's home, whose key seals the result.
    Raises `ArtifactError` for what is no bundle, `UsageError` for a folder that has layers, OSError.
    """
    halo = os.path.join(os.path.abspath(directory), HALO_DIR)
    with open_bundle(packed) as file:
        bundle = read_list(file, packed)
        for _ in read_artifacts(file, packed, bundle):
            pass
        _check_free(halo, home, directory)
        path = os.path.join(halo, BUNDLE)
        if not os.path.lexists(path):
            # Killed from here on, this is a folder with an empty bundle, not a workspace without layers.
            nothing = sealed(Bundle(bundle.format, bundle.compiler, ()), home)
            if not publish_folder(halo, {BUNDLE: nothing, ".gitignore": _GITIGNORE}):
                replace_file(path, nothing)
        store = Store(halo)
        read_list(file, packed)
        for artifact in read_artifacts(file, packed, bundle):
            store.adopt(artifact.prompt, artifact.manifest)
        replace_file(path, sealed(bundle, home))
    return bundle


def _check_free(halo: str, home: str, directory: str) -> None:
    """Refuse a folder with layers: what is in a bundle and what is compiled must not be mixed."""
    for path in (directory, halo):
        if os.path.lexists(path) and not os.path.isdir(path):
            raise UsageError(f"{path} is not a folder")
    if os.path.realpath(halo) == os.path.realpath(home):
        raise UsageError(f"{directory} is where Halo's own home lies", hint="choose another folder")
    refuse_links(halo, "artifacts")
    names = {name for name in _names(halo) if leftover_of(name) is None}
    if names and BUNDLE not in names:
        raise UsageError(
            f"{halo} belongs to a workspace with layers", hint="unpack the bundle into another folder"
        )


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []
