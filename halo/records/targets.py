"""What can be compiled: an agent in a role and place, a skill's body, a directory's rules."""

import hashlib
from typing import Literal

import msgspec

from halo.files.visible import visible

Role = Literal["root", "sub"]
Mode = Literal["full", "minimal", "none"]
Platform = Literal["posix", "windows"]
Access = Literal["full", "workspace", "readonly"]

_RANK: dict[Access, int] = {"readonly": 0, "workspace": 1, "full": 2}


def permits(access: Access, needed: Access) -> bool:
    """Tell whether `access` includes what needs the access `needed`: full above workspace above readonly."""
    return _RANK[access] >= _RANK[needed]


# Lower case only: `Src` and `src` must not share a file where names ignore case.
_SAFE = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-")
# Devices on Windows, whatever ending they have.
_PORTS = (f"{device}{i}" for device in ("com", "lpt") for i in range(1, 10))
_RESERVED = frozenset({"con", "prn", "aux", "nul", *_PORTS})
_LONGEST = 160  # of an encoded directory; file names may have 255 bytes on common file systems


def encode_directory(directory: str) -> str:
    """Percent-encode a workspace-relative posix path so that it is one safe file name everywhere.

    Long ones are cut and end in `~` and 16 hex digits of their SHA-256.
    """
    encoded = "".join(
        c if c in _SAFE else "".join(f"%{b:02x}" for b in c.encode("utf-8", "surrogatepass"))
        for c in directory
    )
    if encoded.partition(".")[0] in _RESERVED:
        encoded = f"%{ord(encoded[0]):02x}{encoded[1:]}"
    if len(encoded) > _LONGEST:
        digest = hashlib.sha256(directory.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        return f"{encoded[:_LONGEST]}~{digest}"
    return encoded


class AgentTarget(msgspec.Struct, frozen=True, order=True, tag_field="kind", tag="agent"):
    """The prompt of `agent` in a role, directory, mode, platform and access level.

    `directory` is workspace-relative and posix, empty for none; `profile` names a set of models
    (`general.models.profiles`), empty for those of the agents themselves.
    """

    agent: str
    role: Role = "root"
    directory: str = ""
    mode: Mode = "full"
    platform: Platform = "posix"
    access: Access = "full"
    profile: str = ""

    @property
    def variant(self) -> str:
        """`role[@dir][+mode][+platform][+access][+profile-<name>]`, defaults left out, a safe name."""
        name: str = self.role
        if self.directory:
            name += "@" + encode_directory(self.directory)
        if self.mode != "full":
            name += f"+{self.mode}"
        if self.platform != "posix":
            name += f"+{self.platform}"
        if self.access != "full":
            name += f"+{self.access}"
        if self.profile:
            name += f"+profile-{encode_directory(self.profile)}"
        return name

    @property
    def name(self) -> str:
        """The pointer's path below `build/`, without `.json`."""
        return f"{self.agent}/{self.variant}"

    @property
    def label(self) -> str:
        """For people."""
        where = f" · {visible(self.directory)}" if self.directory else ""
        rest = self.variant.partition("+")[2]
        return f"{self.agent} · {self.role}{where}" + (f" · {rest.replace('+', ' · ')}" if rest else "")


class SkillTarget(msgspec.Struct, frozen=True, order=True, tag_field="kind", tag="skill"):
    """The body of a skill, as `activate_skill` hands it to a model."""

    id: str

    @property
    def name(self) -> str:
        """The pointer's path below `build/`, without `.json`."""
        return f"skills/{self.id}"

    @property
    def label(self) -> str:
        """For people."""
        return f"skill {self.id}"


class ScopeTarget(msgspec.Struct, frozen=True, order=True, tag_field="kind", tag="scope"):
    """The rules of a directory: every `.halo/INSTRUCTIONS.md` from below the root down to it."""

    directory: str

    @property
    def name(self) -> str:
        """The pointer's path below `build/`, without `.json`."""
        return f"scopes/{encode_directory(self.directory)}"

    @property
    def label(self) -> str:
        """For people."""
        return f"rules of {visible(self.directory)}/"


Target = AgentTarget | SkillTarget | ScopeTarget

# `build/<agent>/` lies beside these folders.
RESERVED_AGENT_IDS = frozenset({"skills", "scopes"})
