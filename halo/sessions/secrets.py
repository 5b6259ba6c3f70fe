"""Secret values: those that commands of a turn may be given, and all that nobody may read."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from halo.errors import HaloError
from halo.files.tree import Tree
from halo.models.opening import KEY_VARIABLES
from halo.records.artifacts import PROVIDERS
from halo.tools.secrets import masker
from halo.workspace.ids import is_id
from halo.workspace.settings.delivery import connects
from halo.workspace.settings.files import (
    GLOBAL_SETTINGS,
    WORKSPACE_SETTINGS,
    Setting,
    dotted_keys,
    expand,
    lookup,
    read_settings,
)
from halo.workspace.settings.general import read_general_of
from halo.workspace.settings.params import Params, read_params
from halo.workspace.tool_demands import counts_as_secret, secrets_of
from halo.workspace.trust import Grants

_FILES = (WORKSPACE_SETTINGS, GLOBAL_SETTINGS)
_KEYS = frozenset(f"{provider}.secrets.api_key" for provider in PROVIDERS)


class Secrets(NamedTuple):
    """Values by the name of their placeholder, and why others are missing."""

    values: dict[str, str]
    warnings: tuple[str, ...] = ()


def command_secrets(tree: Tree, owners: Iterable[str], environ: Mapping[str, str], grants: Grants) -> Secrets:
    """Gather the secrets of an agent and its visible skills; the workspace's settings come first."""
    values: dict[str, str] = {}
    warnings: list[str] = []
    for owner in dict.fromkeys(owners):
        seen: set[str] = set()
        for name, setting in (found for source in _FILES for found in secrets_of(tree, source, owner)):
            if name in seen or not setting.text:
                continue
            seen.add(name)
            if not grants.secret(tree, name, setting):
                warnings.append(
                    f"commands get no {{{{{name}}}}}: halo trust shows what this workspace asks for"
                )
                continue
            value, unset = expand(setting.text, environ)
            if unset:
                warnings.append(
                    f"commands get no {{{{{name}}}}}: the environment variable {unset[0]} is not set"
                )
            else:
                values[name] = value
    return Secrets(values, tuple(warnings))


def known_secrets(tree: Tree, environ: Mapping[str, str], grants: Grants) -> Iterator[tuple[str, str]]:
    """Yield name and value of every secret that Halo can know of, whoever may use it.

    Keys of providers in the environment, all `secrets:` of both settings files, and secret parameters. A
    variable that only the workspace names counts when it may use it: else it could find out what is in any,
    by offering values and looking which one is masked.
    """
    yield from ((variable, environ[variable]) for variable in KEY_VARIABLES.values() if variable in environ)
    for source in _FILES:
        for name, setting in _all(tree, source):
            value, unset = expand(setting.text, environ)
            if not unset and _may_use(tree, name, setting, grants):
                yield name, value


def secret_mask(tree: Tree, environ: Mapping[str, str], grants: Grants) -> Callable[[str], str]:
    """Return what masks every secret that Halo can know of, for texts that leave for another place."""
    return masker(known_secrets(tree, environ, grants))


def settings_hold_secrets(tree: Tree) -> bool:
    """Tell whether the workspace's settings hold a secret literally, or might: then no command sees them."""
    try:
        general = read_general_of(tree, WORKSPACE_SETTINGS)
        servers = general.mcp.servers.values()
        given = [value for server in servers for value in (*server.env.values(), *server.headers.values())]
        given += [c.params["secret"] for _, c in connects(general.delivery) if "secret" in c.params]
        return any("<<" not in value for value in given) or any(
            not setting.is_reference for _, setting in _all(tree, WORKSPACE_SETTINGS)
        )
    except HaloError:
        return True


def _may_use(tree: Tree, name: str, setting: Setting, grants: Grants) -> bool:
    """Tell whether something may use a value; all but variables that the workspace names."""
    if setting.source != WORKSPACE_SETTINGS or not setting.names:
        return True
    # A variable as a key needs no trust.
    is_key = name in _KEYS and (setting.is_reference or grants.key(name.partition(".")[0]))
    return is_key or grants.secret(tree, name, setting) or grants.environment(name, setting.names)


def _all(tree: Tree, source: str) -> Iterator[tuple[str, Setting]]:
    document = read_settings(tree, source)
    for owner, block in document.value.items():
        if not is_id(owner) or owner == "general" or not isinstance(block, dict):
            continue
        params = _params(tree, owner)
        for part in ("params", "secrets"):
            for key in dotted_keys(block.get(part)):
                setting = lookup(document, f"{owner}.{part}.{key}")
                if setting is None or not setting.text:
                    continue
                if part == "secrets" or params is None or counts_as_secret(params, key, setting):
                    yield f"{owner}.{part}.{key}", setting


def _params(tree: Tree, owner: str) -> Params | None:
    """Return what is declared; None where a declaration cannot be read: then everything may be secret."""
    try:
        return read_params(tree, owner)
    except HaloError:
        return None
