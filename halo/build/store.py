"""The artifacts of a workspace: immutable folders of `prompt.md` and `manifest.json`."""

import os

import msgspec

from halo.errors import ArtifactError
from halo.files.canonical import readable_json
from halo.files.digests import sha256
from halo.files.regular import read_regular
from halo.records.artifacts import FORMAT, Artifact, Manifest

_LARGEST = 1 << 30  # bytes of a file of an artifact

_PROMPT = "prompt.md"
_MANIFEST = "manifest.json"


def artifact_id(prompt: bytes, manifest: bytes) -> str:
    """Name an artifact by both of its files: 40 hex digits of SHA-256 over their digests."""
    return sha256(f"{sha256(prompt)} {sha256(manifest)}".encode())[:40]


class Store:
    """`.halo/artifacts/` of one workspace; `halo` is the absolute path of the `.halo/` folder."""

    def __init__(self, halo: str) -> None:
        self.folder = os.path.join(halo, "artifacts")

    def files(self, identity: str) -> tuple[str, str]:
        """Return the absolute paths of an artifact's two files."""
        folder = os.path.join(self.folder, identity)
        return os.path.join(folder, _PROMPT), os.path.join(folder, _MANIFEST)

    def add(self, prompt: str, manifest: Manifest) -> Artifact:
        """Put an artifact there, whole or not at all; one that is there already is kept.

        A damaged one under the same id is moved out of the way first.
        """
        from halo.files.atomic import publish_folder

        data, record = prompt.encode(), readable_json(manifest)
        identity = artifact_id(data, record)
        folder = os.path.join(self.folder, identity)
        files = {_PROMPT: data, _MANIFEST: record}
        if not publish_folder(folder, files):
            try:
                return self.load(identity)
            except ArtifactError:
                self._discard(folder)
                publish_folder(folder, files)
        return Artifact(identity, prompt, manifest)

    def load(self, identity: str) -> Artifact:
        """Load an artifact and verify it against its id.

        Raises `ArtifactError` when it is absent, was changed by hand, or has an unknown format.
        """
        prompt_path, manifest_path = self.files(identity)
        try:
            prompt = read_regular(prompt_path, _LARGEST)
            record = read_regular(manifest_path, _LARGEST)
        except OSError as error:
            raise ArtifactError(
                f"artifact {identity[:12]} cannot be read: {error.strerror}",
                file=str(error.filename),
                hint="halo build makes it anew",
            ) from error
        if artifact_id(prompt, record) != identity:
            raise ArtifactError(
                f"artifact {identity[:12]} was changed after it was built",
                file=os.path.dirname(prompt_path),
                hint="change the layers instead; halo build makes it anew",
            )
        try:
            manifest = msgspec.json.decode(record, type=Manifest)
        except (msgspec.MsgspecError, RecursionError):
            manifest = None
        if manifest is None or manifest.format != FORMAT:
            raise ArtifactError(
                f"artifact {identity[:12]} was made by another version of Halo",
                hint="halo build makes it anew",
            )
        return Artifact(identity, prompt.decode(), manifest)

    def _discard(self, folder: str) -> None:
        import shutil

        aside = f"{folder}.damaged.{os.getpid()}"
        try:
            os.rename(folder, aside)
        except FileNotFoundError:
            return  # another process was faster
        shutil.rmtree(aside)
