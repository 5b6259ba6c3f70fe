"""The roots of a workspace's tree."""

import os
from collections.abc import Mapping

import msgspec

from halo.errors import StartError
from halo.files.tree import DiskTree
from halo.workspace.ids import USER_SHELVES
from halo.workspace.locate import HALO_DIR, find_workspace, halo_home, templates_folder, user_home


class Places(msgspec.Struct, frozen=True):
    """Absolute paths of the roots that sources come from. `user` is the user's home, `home` Halo's."""

    workspace: str
    home: str
    templates: str
    user: str

    @property
    def roots(self) -> dict[str, str]:
        """The roots of the tree, by name.

        `secrets` holds the global settings. They are a root of their own so that nothing that
        shows the global folder shows them. Of the user's home only folders of skills are roots: what else
        other programs keep there is out of reach, through links too.
        """
        return {
            "workspace": self.workspace,
            "global": os.path.join(self.home, "global"),
            "secrets": os.path.join(self.home, "secrets"),
            "builtin": self.templates,
            **{
                shelf.removesuffix(":"): os.path.join(self.user, *folder.split("/"))
                for folder, shelf in USER_SHELVES.items()
            },
        }

    def tree(self) -> DiskTree:
        """Open the roots for reading."""
        return DiskTree(self.roots)

    def shared_tree(self) -> DiskTree:
        """Open what is the same on every machine: the workspace and the templates."""
        roots = self.roots
        return DiskTree({name: roots[name] for name in ("workspace", "builtin")})

    @property
    def halo(self) -> str:
        """The workspace's `.halo/` folder."""
        return os.path.join(self.workspace, HALO_DIR)


def refuse_home_inside(workspace: str, home: str) -> None:
    """Raise `StartError` where Halo's home lies in the workspace.

    Tools may read and write what lies there, and in the home are keys, and what the user allowed. Of a folder
    that is called `.halo` tools keep away.
    """
    own, root = os.path.realpath(home), os.path.realpath(workspace)
    if os.path.basename(own) != HALO_DIR and own.startswith(root.rstrip(os.sep) + os.sep):
        raise StartError(
            f"Halo's home {home} lies in the workspace {workspace}: its agents could read your keys there, "
            "and allow themselves anything",
            hint="set HALO_HOME to a folder elsewhere",
        )


def find_places(start: str, environ: Mapping[str, str]) -> Places:
    """Find the workspace at or above `start`, and the rest from the environment.

    Raises as `refuse_home_inside` does.
    """
    home = halo_home(environ)
    workspace = find_workspace(start, home)
    refuse_home_inside(workspace, home)
    return Places(
        workspace=workspace,
        home=home,
        templates=templates_folder(),
        user=user_home(environ),
    )
