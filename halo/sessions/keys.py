"""Where a provider's key comes from: settings, the workspace's over the global ones, then the environment."""

from collections.abc import Mapping

from halo.errors import MissingKeyError
from halo.files.tree import Tree
from halo.models.opening import KEY_VARIABLES
from halo.workspace.settings import expand, find_setting


def provider_key(provider: str, tree: Tree, environ: Mapping[str, str]) -> str | None:
    """Return the key of `provider`, None where none is set.

    Raises `MissingKeyError`, with file and line, when a setting names a variable that is not set.
    """
    setting = find_setting(tree, f"{provider}.secrets.api_key")
    if setting is not None and setting.text:
        key, unset = expand(setting.text, environ)
        if unset:
            raise MissingKeyError(
                f"{provider}.secrets.api_key names {unset[0]}, which is not set",
                file=setting.source,
                line=setting.line,
                hint=f"export {unset[0]}=…",
            )
        return key
    return environ.get(KEY_VARIABLES.get(provider, "")) or None
