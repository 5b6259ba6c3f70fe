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
FILES = (_MANIFEST, _PROMPT)

# Where the system can, a link in the place of an artifact is not followed.
_FOLLOWS = os.supports_follow_symlinks


def artifact_id(prompt: bytes, manifest: bytes) -> str:
    """Name an artifact by both of its files: 40 hex digits of SHA-256 over their digests."""
    return id_of(sha256(prompt), sha256(manifest))


def id_of(prompt: str, manifest: str) -> str:
    """Return the same from the digests of the files."""
    return sha256(f"{prompt} {manifest}".encode())[:40]


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
        identity = self.adopt(prompt.encode(), readable_json(manifest))
        return Artifact(identity, prompt, manifest)

    def adopt(self, prompt: bytes, manifest: bytes) -> str:
        """Put the two files of an artifact there as they are, in the same way; return its id."""
        from halo.files.atomic import publish_folder

        identity = artifact_id(prompt, manifest)
        folder = os.path.join(self.folder, identity)
        files = {_PROMPT: prompt, _MANIFEST: manifest}
        if not publish_folder(folder, files) and not self._is_whole(identity):
            self._discard(folder)
            publish_folder(folder, files)
        return identity

    def keep(self, identity: str) -> bool:
        """Mark an artifact as used just now, which keeps it from `halo gc`; False when it is not there.

        Whoever is about to refer to an artifact, in a pointer or a session, says so here first.
        """
        try:
            os.utime(os.path.join(self.folder, identity), follow_symlinks=os.utime not in _FOLLOWS)
        except FileNotFoundError:
            return False
        except OSError:
            return True  # a workspace that cannot be written: nothing is removed there either
        return True

    def _is_whole(self, identity: str) -> bool:
        if not self.keep(identity):
            return False
        try:
            self.load(identity)
        except ArtifactError:
            return False
        return True

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
