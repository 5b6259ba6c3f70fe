"""First turn against restored turn: what a saved model state is worth across processes.

    python benchmarks/kv_restore.py [--model ID_OR_PATH] [--keep-cache DIR]

Runs the same turn (a system prompt of about 1,200 tokens, one question, temperature 0) through Halo's own
local adapter in two processes: the first begins with no saved state, the second finds what the first saved.
Times are wall seconds from the request to the last token, with the model loaded in both and the same
threads. Exits 1 when the answers differ. Floor: the ratio should be above 10.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time

from halo.models.adapter import Finished, Request
from halo.models.catalogue import cache_dir
from halo.models.llama import default_threads
from halo.models.opening import open_local
from halo.models.prefix import Prefix
from halo.models.pull import pull
from halo.records.artifacts import Binding
from halo.records.messages import user

MODEL = "smollm2-135m-instruct"
QUESTION = "What is the capital of France?"

RULES = (
    "Answer in one short sentence.",
    "Name the file that you looked into when the answer came from one.",
    "Give the value first, then its unit, then the day on which it was measured.",
    "Two readings that disagree are both shown; a correction outweighs what it corrects.",
    "Dates are written year first, times in the zone of the station.",
    "Change nothing that you were not asked to change.",
    "A missing reading is written as a dash and never guessed.",
    "Say so when a question cannot be answered from the notes.",
)


def system_prompt() -> tuple[str, str]:
    """Return the whole system text and its static prefix, about 1,200 tokens of plausible rules."""
    lines = ["You are a helpful assistant for the keepers of a weather station.\n"]
    for chapter in range(1, 10):
        lines.append(f"\n## Chapter {chapter}\n")
        lines += [f"- {rule}\n" for rule in RULES]
    static = "".join(lines)
    return static + "\n## Environment\n\n- Workspace: /srv/station\n- Time zone: UTC\n", static


async def measure(model: str, cache: str) -> dict[str, object]:
    """Run the turn once in this process and report what it took."""
    system, static = system_prompt()
    binding = Binding("local", model, max_tokens=32, temperature=0.0, seed=1)
    threads = default_threads(os.environ)
    local = open_local(binding, context_tokens=8192, cache=cache, base_dir=os.getcwd(), threads=threads)
    try:
        # Loading is not what is measured: a call without a static prefix does it.
        warm_up = Binding("local", model, max_tokens=1, temperature=0.0)
        async for _ in local.stream(Request(Prefix("", ""), (user("Hi"),), warm_up)):
            pass
        request = Request(Prefix(system, static), (user(QUESTION),), binding)
        finished = None
        began = time.perf_counter()
        async for event in local.stream(request):
            if isinstance(event, Finished):
                finished = event
        seconds = time.perf_counter() - began
    finally:
        await local.close()
    if finished is None:
        raise SystemExit("the stream ended without a result")
    return {
        "seconds": seconds,
        "threads": threads,
        "prompt": finished.usage.prompt,
        "read": finished.usage.read,
        "restored": finished.restored,
        "answer": finished.message.text,
    }


def in_new_process(model: str, cache: str) -> dict[str, object]:
    """Run `measure` in a process of its own."""
    command = [
        sys.executable,
        os.path.abspath(__file__),
        "--measure",
        "--model",
        model,
        "--keep-cache",
        cache,
    ]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    result: dict[str, object] = json.loads(done.stdout)
    return result


def compare(model: str, cache: str) -> int:
    """Print the table; return the exit code."""
    first, again = in_new_process(model, cache), in_new_process(model, cache)
    print(f"{os.path.basename(model)}, {first['threads']} thread(s), {first['prompt']} prompt tokens\n")
    print(f"{'':16}{'seconds':>9}{'restored':>10}{'read':>7}  answer")
    for name, run in (("first turn", first), ("restored turn", again)):
        print(f"{name:16}{run['seconds']:9.2f}{run['restored']:10}{run['read']:7}  {run['answer']!r}")
    print(f"\nratio  {float(str(first['seconds'])) / float(str(again['seconds'])):.1f} x  (floor: 10 x)")
    if first["answer"] != again["answer"]:
        print("the answers DIFFER")
        return 1
    print("the answers are equal")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--model", default=MODEL, help="name of the catalogue or path of a .gguf file")
    parser.add_argument("--keep-cache", metavar="DIR", help="use and keep this cache")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    model = options.model
    if model == MODEL:
        # The model comes from the user's cache, the states from a fresh one.
        model = pull(MODEL, cache_dir(os.environ), lambda _done, _total: None)
    if options.measure:
        print(json.dumps(asyncio.run(measure(model, options.keep_cache))))
        return 0
    if options.keep_cache:
        return compare(model, options.keep_cache)
    with tempfile.TemporaryDirectory(prefix="halo-benchmark-") as cache:
        return compare(model, cache)


if __name__ == "__main__":
    sys.exit(main())
