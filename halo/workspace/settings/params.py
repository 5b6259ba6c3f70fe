"""The parameters that config.yaml declares: types, defaults, and what is secret.

A skill or an agent may be defined in several scopes. The folder that serves it gives types and defaults; what
is secret is the sum of all of them, so that a folder that comes with a workspace cannot open what the user's
own declares secret.
"""

import re
from typing import Literal, NamedTuple

import msgspec

from halo.files.canonical import canonical_text
from halo.files.tree import NotFound, Tree
from halo.workspace.conversion import convert
from halo.workspace.ids import folders_of
from halo.workspace.settings.files import Setting
from halo.workspace.yamldoc import YamlDocument, load_yaml

# What a placeholder must look like to name a parameter: `<id>.params.<key>`.
PARAM = re.compile(r"([\w-]+)\.params\.([\w-][\w.-]*)\Z")


class ParamDeclaration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of `params:` or `secrets:` in config.yaml.

    `secret: true` keeps a value out of every text; `secret: false` lets one that holds `<<ENV>>` in.
    """

    key: str
    type: Literal["string", "int", "float", "boolean", "enum"] = "string"
    description: str = ""
    options: tuple[str, ...] = ()
    default: str | int | float | bool | None = None
    secret: bool | None = None


class ParamConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """config.yaml of a skill or an agent."""

    description: str = ""
    params: tuple[ParamDeclaration, ...] = ()
    secrets: tuple[ParamDeclaration, ...] = ()


class Declared(NamedTuple):
    """A declaration and where it stands."""

    param: ParamDeclaration
    source: str
    line: int


class Params(NamedTuple):
    """What is declared for one id.

    `secret` and `opened` hold keys; `opened` those with `secret: false` in the serving folder,
    `opened_by_user` those with it in the global folder or the templates, `declared_by_user` all that these
    declare.
    """

    declared: dict[str, Declared]
    secret: frozenset[str]
    opened: frozenset[str]
    opened_by_user: frozenset[str]
    declared_by_user: frozenset[str]

    def is_secret(self, key: str) -> bool:
        """Tell whether the dotted `key`, or a map that holds it, is declared a secret anywhere.

        That is `secret: true` among the params, or any entry of `secrets:`, wherever its value stands.
        """
        parts = key.split(".")
        return any(".".join(parts[: i + 1]) in self.secret for i in range(len(parts)))


def read_params(tree: Tree, owner: str) -> Params:
    """Collect the declarations for the id `owner`, as a skill and as an agent, in every scope."""
    declared: dict[str, Declared] = {}
    secret: set[str] = set()
    opened: set[str] = set()
    opened_by_user: set[str] = set()
    declared_by_user: set[str] = set()
    for kind in ("skills", "agents"):
        serving = True
        for folder, scope in folders_of(tree, kind, owner):
            config, document = _read_config(tree, f"{folder}/config.yaml")
            secret.update(p.key for p in config.params if p.secret)
            secret.update(p.key for p in config.secrets)
            free = {p.key for p in config.params if p.secret is False}
            if scope != "workspace":
                opened_by_user |= free
                declared_by_user.update(p.key for p in config.params)
            if serving:
                opened |= free
                for i, param in enumerate(config.params):
                    line = document.line("params", i, "default")
                    declared.setdefault(param.key, Declared(param, document.source, line))
            serving = False
    return Params(
        declared,
        frozenset(secret),
        frozenset(opened),
        frozenset(opened_by_user),
        frozenset(declared_by_user),
    )


_NOTHING = ParamConfig()


def _read_config(tree: Tree, source: str) -> tuple[ParamConfig, YamlDocument]:
    try:
        text = canonical_text(tree.read(source), source)
    except NotFound:
        return _NOTHING, YamlDocument(None, {}, source)
    document = load_yaml(text, source)
    config = convert(document, ParamConfig, empty=_NOTHING)
    seen: set[str] = set()
    for i, param in enumerate(config.params):
        if param.key in seen:
            raise document.error(f"the parameter {param.key!r} is declared twice", "params", i)
        seen.add(param.key)
        if param.default is not None and (wrong := misfit(param, Setting(param.default, source, 0))):
            raise document.error(f"the default of {param.key!r} {wrong}", "params", i, "default")
    return config, document


_KINDS: dict[str, type | tuple[type, ...]] = {
    "string": (str, int, float, bool),
    "int": int,
    "float": (int, float),
    "boolean": bool,
}


_WORDS = {"string": "text", "int": "a whole number", "float": "a number", "boolean": "true or false"}


def misfit(param: ParamDeclaration, setting: Setting) -> str:
    """Say how a value does not fit its declaration; empty when it does. `<<ENV>>` fits everything.

    The value is not repeated: it may be a secret, or belong to this machine, and what is said ends up in
    pointers and reports.
    """
    if setting.names:
        return ""
    if param.type == "enum":
        return "" if setting.text in param.options else f"is none of: {', '.join(param.options)}"
    fits = isinstance(setting.value, _KINDS[param.type])
    if isinstance(setting.value, bool) and param.type in ("int", "float"):
        fits = False
    return "" if fits else f"is not {_WORDS[param.type]}"
