"""The process that runs a model's regular expression; started by `search`, which tells why.

It is run as a file, isolated and without site-packages, and imports nothing of Halo. Argument: JSON with
`path` (folder of the `regex` package), `memory` (bytes) and `seconds` (of processor time).

    in:   the pattern as JSON, a line; then for each file `<bytes> <most matches>`, a line, and its bytes
    out:  null when it is ready; an answer for the pattern and one for each file. Before a file's answer
          stand its matches, [line number, start of the line, characters of the line], each a line.
    answer: null, {"wrong": message} for what is no regular expression, {"failed": type of the exception}
"""

import json
import sys
from typing import Any

_SHOWN = 500  # characters of a line that are sent back


def _limit(memory: int, seconds: int) -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    # The processor time is for the case that nobody is left to keep the deadline. macOS takes no RLIMIT_AS.
    for limit, value in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, seconds)):
        try:
            resource.setrlimit(limit, (value, value))
        except (ValueError, OSError):  # not supported, or a lower one holds already
            continue


def _say(answer: Any) -> None:
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
    sys.stdout.buffer.flush()  # what was found must outlive a kill


def _search(pattern: Any, text: str, most: int) -> None:
    start, number = 0, 0
    while start < len(text) and most > 0:
        number += 1
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        line = text[start:end]
        if pattern.search(line):
            _say([number, line[:_SHOWN], len(line)])
            most -= 1
        start = end + 1


def main() -> None:
    """Serve until the other end closes."""
    options = json.loads(sys.argv[1])
    _limit(options["memory"], options["seconds"])
    sys.path.append(options["path"])
    import regex

    _say(None)
    source = sys.stdin.buffer
    try:
        pattern = regex.compile(json.loads(source.readline()))
        _say(None)
        while header := source.readline().split():
            data = source.read(int(header[0]))
            _search(pattern, data.decode("utf-8", "replace"), int(header[1]))
            _say(None)
    except regex.error as error:
        _say({"wrong": str(error)})
    except Exception as error:  # noqa: BLE001  # MemoryError, RecursionError: whatever the pattern drives it to
        _say({"failed": type(error).__name__})


if __name__ == "__main__":
    main()
