"""Where a provider's key comes from: settings, the workspace's over the global ones, then the environment."""

from collections.abc import Callable, Mapping

from halo.errors import MissingKeyError
from halo.files.tree import Tree
from halo.models.opening import KEY_VARIABLES
from halo.workspace.settings.files import WORKSPACE_SETTINGS, expand, find_setting
from halo.workspace.trust import Grants


def provider_key(
    provider: str, tree: Tree, environ: Mapping[str, str], grants: Callable[[], Grants] = Grants
) -> str | None:
    """Return the key of `provider`, None where none is set.

    A key that stands literally in the workspace's settings is used only where the user allowed it: whoever's
    it is could read the prompts that are sent with it.

    White space around it is taken off. Raises `MissingKeyError`, with file and line where it has them, when
    a setting names a variable that is not set, and for what cannot be a key: a client would repeat it in
    an error.
    """
    setting = find_setting(tree, f"{provider}.secrets.api_key")
    if setting is not None and setting.text:
        if setting.source == WORKSPACE_SETTINGS and not setting.is_reference and not grants().key(provider):
            raise MissingKeyError(
                f"{provider}.secrets.api_key stands literally in the workspace's settings: whoever's it is "
                "could read your prompts",
                file=setting.source,
                line=setting.line,
                hint="write <<NAME>> there, or allow it: halo trust",
            )
        key, unset = expand(setting.text, environ)
        if unset:
            raise MissingKeyError(
                f"{provider}.secrets.api_key names {unset[0]}, which is not set",
                file=setting.source,
                line=setting.line,
                hint=f"export {unset[0]}=…",
            )
        return _checked(key, f"{provider}.secrets.api_key", setting.source, setting.line)
    variable = KEY_VARIABLES.get(provider, "")
    return _checked(environ.get(variable, ""), variable, None, None)


def _checked(key: str, name: str, file: str | None, line: int | None) -> str | None:
    key = key.strip()
    if any(not "!" <= char <= "~" for char in key):
        raise MissingKeyError(
            f"{name} holds a character that no key has: a space, a line break or a letter beyond ASCII",
            file=file,
            line=line,
            hint="set it anew, without quotes or line breaks inside",
        )
    return key or None
