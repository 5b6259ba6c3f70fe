"""What was unpacked from a bundle: `.halo/bundle.json` takes the place of layers and pointers.

It maps targets to artifacts and carries the seal of this machine, as a pointer does: somebody here chose to
unpack it. In such a folder nothing is compiled, whatever else lies in it, so that no prompt comes from the
templates where the bundle lacks one.
"""

import os

import msgspec

from halo.errors import ArtifactError, StartError
from halo.files.canonical import canonical_json, readable_json
from halo.files.regular import read_regular
from halo.files.seal import machine_key, seal
from halo.records.targets import AgentTarget, ScopeTarget, Target
from halo.workspace.locate import BUNDLE

FORMAT = 1
LARGEST = 1 << 26  # bytes of bundle.json


class Bundled(msgspec.Struct, frozen=True):
    """A target of a bundle, its artifact, and the fingerprint of that."""

    target: Target
    artifact: str
    fingerprint: str


class Bundle(msgspec.Struct, frozen=True, omit_defaults=True):
    """`bundle.json`: in a bundle without a seal, in `.halo/` with that of the machine it was unpacked on.

    `compiler` is the version of the rules that its prompts were composed by; `targets` are sorted by name.
    """

    format: int
    compiler: str
    targets: tuple[Bundled, ...]
    seal: str = ""

    def artifact(self, target: Target) -> str | None:
        """Return the id of a target's artifact; None when the bundle has no such target."""
        return next((known.artifact for known in self.targets if known.target == target), None)

    @property
    def agents(self) -> frozenset[str]:
        """The ids of the agents in the bundle."""
        return frozenset(k.target.agent for k in self.targets if isinstance(k.target, AgentTarget))

    @property
    def ruled(self) -> frozenset[str]:
        """The directories whose rules are in the bundle."""
        return frozenset(k.target.directory for k in self.targets if isinstance(k.target, ScopeTarget))


def read_bundle(halo: str, home: str) -> Bundle | None:
    """Return what was unpacked into the `.halo/` folder; None where layers are compiled as usual.

    Raises `ArtifactError` for a `bundle.json` that was not written on this machine: it came with the folder.
    """
    path = os.path.join(halo, BUNDLE)
    try:
        data = read_regular(path, LARGEST)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _not_from_here(path) from error
    try:
        bundle = msgspec.json.decode(data, type=Bundle)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _not_from_here(path) from error
    key = machine_key(home)
    if bundle.format != FORMAT or key is None or bundle.seal != _seal(key, bundle):
        raise _not_from_here(path)
    return bundle


def sealed(bundle: Bundle, home: str) -> bytes:
    """Return `bundle.json` as it stands where `bundle` was unpacked. Raises `StartError`."""
    key = machine_key(home, make=True)
    if key is None:
        raise StartError(
            "Halo's home cannot be written, so nothing can be sealed there",
            file=home,
            hint="set HALO_HOME to a folder that can be written, for `halo bundle` and `halo run` alike",
        )
    return readable_json(msgspec.structs.replace(bundle, seal=_seal(key, bundle)))


def _seal(key: bytes, bundle: Bundle) -> str:
    return seal(key, b"bundle " + canonical_json(msgspec.structs.replace(bundle, seal="")))


def _not_from_here(path: str) -> ArtifactError:
    return ArtifactError(
        "this was not unpacked by you on this machine",
        file=path,
        hint="unpack the bundle here: halo bundle --unpack FILE; or remove this file and compile layers",
    )
