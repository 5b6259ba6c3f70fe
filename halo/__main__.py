"""Where `halo` starts: what needs no library is answered before one is imported."""

import sys


def main() -> None:
    """Run the command line and exit with its code."""
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        from halo import __version__

        print(f"halo {__version__}")  # noqa: T201  # click is not imported yet
        return
    if arguments[:1] == ["build"] and _nothing_to_build(arguments[1:]):
        return
    from halo.cli.main import run

    sys.exit(run(arguments))


def _nothing_to_build(options: list[str]) -> bool:
    """Answer `halo build [-w WS]` when the gate says that everything is fresh."""
    import os

    from halo.build import gate
    from halo.compiler.version import COMPILER
    from halo.errors import HaloError
    from halo.workspace.locate import find_workspace, halo_home, templates_folder

    if options and not (len(options) == 2 and options[0] in ("-w", "--workspace")):
        return False
    try:
        home = halo_home(os.environ)
        workspace = find_workspace(options[1] if options else os.getcwd(), home)
        fresh = gate.passes(workspace, home, templates_folder(), COMPILER)
    except (HaloError, OSError):
        return False  # the command itself will say what is wrong
    if fresh is None:
        return False
    print(f"{fresh} targets: all fresh")  # noqa: T201
    return True


if __name__ == "__main__":
    main()
