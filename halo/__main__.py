"""Where `halo` starts."""

import sys


def main() -> None:
    """Run the command line and exit with its code."""
    from halo.cli.quick import answer, flushed, open_streams

    open_streams()
    arguments = sys.argv[1:]
    code = answer(arguments)
    if code is None:
        from halo.cli.main import run

        code = run(arguments)
    sys.exit(flushed(code))


if __name__ == "__main__":
    main()
