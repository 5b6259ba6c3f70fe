"""What Halo adds to a turn: in a cold process, at long histories, in many turns at once, in memory.

Everything runs against a server on loopback (`loopback.py`). Prints four tables:

1. wall time from the start of a process to its first request. The floor is the import of the provider's
   client alone, the peer a script that makes the same request with the bare client. For `local`, where all of
   it is one process, the floor includes loading the model, and the first request is the first evaluation.
2. time that a turn takes beyond the provider's adapter's client, at 10, 1,000 and 10,000 messages of history.
   Aim: below 5 ms, and flat. Beside it: what the bare client itself takes to send as much.
3. 256 turns at once against a latency of 50 ms. Aim: 90 % of the ideal, which is the bare client with the
   same requests, one client for all of them; the physical floor is the latency.
4. memory of an agent that waits.
"""

import asyncio
import contextlib
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import local_start
from loopback import TEXT, Loopback

REPEATS = 5
TURNS = 3
AT_ONCE = 256
LATENCY = 0.05

PROVIDERS = {
    "openai, chat": ("openai", {}, "/v1"),
    "openai, responses": ("openai", {"api": "responses"}, "/v1"),
    "anthropic": ("anthropic", {}, ""),
    "deepseek": ("deepseek", {}, ""),
    "gemini": ("gemini", {}, ""),
}

IMPORTS = {
    "openai": "import openai",
    "deepseek": "import openai",
    "anthropic": "import anthropic",
    "gemini": "from google import genai",
}

BARE = {
    "openai, chat": (
        "import openai; c = openai.OpenAI(api_key='k', base_url='{url}/v1', max_retries=0)\n"
        "m = [{{'role': 'user', 'content': 'x'}}]\n"
        "for _ in c.chat.completions.create(model='m', messages=m, stream=True): pass"
    ),
    "openai, responses": (
        "import openai; c = openai.OpenAI(api_key='k', base_url='{url}/v1', max_retries=0)\n"
        "for _ in c.responses.create(model='m', input='x', stream=True): pass"
    ),
    "anthropic": (
        "import anthropic; c = anthropic.Anthropic(api_key='k', base_url='{url}', max_retries=0)\n"
        "m = [{{'role': 'user', 'content': 'x'}}]\n"
        "with c.messages.stream(model='m', max_tokens=9, messages=m) as s:\n"
        "    for _ in s: pass"
    ),
    "gemini": (
        "from google import genai; c = genai.Client(api_key='k', http_options={{'base_url': '{url}'}})\n"
        "for _ in c.models.generate_content_stream(model='m', contents='x'): pass"
    ),
}
BARE["deepseek"] = BARE["openai, chat"]


def make_workspace(folder, url):
    """Make a workspace with one agent for each provider, bound to the server."""
    root = Path(folder) / "ws"
    for name, (provider, more, path) in PROVIDERS.items():
        agent = root / ".halo" / "agents" / slug(name)
        agent.mkdir(parents=True)
        model = {"provider": provider, "id": "m", "endpoint": url + path, "max_tokens": 100, **more}
        settings = {"model": model, "tools": ["file_read", "grep"]}
        (agent / "agent.yaml").write_text(json.dumps(settings))
        (agent / "AGENT.md").write_text("You look after the harbour.\n\n" + "Answer in one sentence.\n" * 50)
    (root / ".halo" / "USER.md").write_text("Mira.\n")
    local = root / ".halo" / "agents" / "local"
    local.mkdir()
    model = {"provider": "local", "id": local_start.MODEL, "max_tokens": 1}
    settings = {"model": model, "tools": [], "context": {"max_tokens": local_start.CONTEXT}}
    (local / "agent.yaml").write_text(json.dumps(settings))
    (local / "AGENT.md").write_text("You look after the harbour.\n")
    return root


def slug(name):
    return name.replace(", ", "-")


def environ_of(folder):
    keys = {f"{p.upper()}_API_KEY": "k" for p in ("openai", "anthropic", "deepseek", "gemini")}
    own = {"HALO_HOME": os.path.join(folder, "home"), "HALO_CACHE": os.path.join(folder, "cache")}
    return {**os.environ, **keys, **own, "PYTHONDONTWRITEBYTECODE": "1"}


# 1. A cold process.


def until_request(server, command, cwd, environ):
    """Return the milliseconds from the start of a process to its first request; None when it makes none."""
    server.arrived.clear()
    began = time.perf_counter()
    done = subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, check=False)
    if not server.arrived:
        print(f"  {' '.join(map(str, command[:4]))}: {done.stderr.strip()[-300:]}", file=sys.stderr)
        return None
    return (server.arrived[0] - began) * 1000


def import_then_mark(statement, url):
    """Return a program that imports a client and then touches the server by a bare socket."""
    host, port = url.removeprefix("http://").split(":")
    return (
        f"{statement}\nimport socket\ns = socket.create_connection(('{host}', {port}))\n"
        "s.sendall(b'GET / HTTP/1.1\\r\\ncontent-length: 0\\r\\n\\r\\n'); s.recv(1)"
    )


def programs_of(name, provider, url):
    """Return the commands of a provider: the floor, the peer, and Halo."""
    python = [sys.executable, "-c"]
    return {
        "import": [*python, import_then_mark(IMPORTS[provider], url)],
        "bare": [*python, BARE[name].format(url=url)],
        "halo": [sys.executable, "-m", "halo", "run", "-n", "-a", slug(name), "How is it?"],
    }


def local_programs(environ, url):
    """Return those of the provider `local`, whose model has been read once and whose state is there."""
    local_start.link_model(environ["HALO_CACHE"])
    texts = local_start.programs(environ["HALO_CACHE"], url)
    return {kind: [sys.executable, "-c", text] for kind, text in texts.items()}


def cold_starts(folder, server):
    root, environ = make_workspace(folder, server.url), environ_of(folder)
    subprocess.run(
        [sys.executable, "-m", "halo", "build"], cwd=root, env=environ, check=True, capture_output=True
    )
    print(f"\n1. From the start of a process to its first request, ms (median of {REPEATS})\n")
    print("| provider | client's import | bare client | `halo run` | of import | of bare client |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, (provider, _, _) in PROVIDERS.items():
        print(cold_row(name, programs_of(name, provider, server.url), server, root, environ))
    local = local_programs(environ, server.url)
    until_request(
        server, local["halo"], root, environ
    )  # the digest of the model, and the state of the prompt
    print(cold_row("local, import and model", local, server, root, environ))
    return root


def cold_row(name, programs, server, root, environ):
    """Time the programs, and return their row."""
    times = {kind: [] for kind in programs}
    for _ in range(REPEATS):
        for kind, command in programs.items():  # in turn, so that a busy minute hits all of them
            took = until_request(server, command, root, environ)
            if took is not None:
                times[kind].append(took)
    if not all(times.values()):
        return f"| {name} | not measured |"
    imported, bare, halo = (statistics.median(times[k]) for k in ("import", "bare", "halo"))
    return (
        f"| {name} | {imported:.0f} | {bare:.0f} | {halo:.0f} | {halo / imported:.2f} | {halo / bare:.2f} |"
    )


# 2. A long history.


def grown(number):
    """Return a history of so many messages of usual length."""
    from halo.records.messages import Message, Text

    text = "The tide comes in at half past four and goes out again at eleven. " * 4
    return [Message(("user", "assistant")[i % 2], (Text(f"{i}: {text}"),)) for i in range(number)]


def added(root, environ):
    """Time turns whose client costs nothing: what is left is Halo's."""
    print("\n2. Time added to a turn beyond the provider's own, ms (median of 15 turns after the first)\n")
    print("| messages | first turn | later turns | the bare client sends as much in | aim |")
    print("|---:|---:|---:|---:|---|")
    for number in (10, 1_000, 10_000):
        first, later, client = asyncio.run(_added(root, environ, number))
        aim = "below 5" + ("" if later < 5 else ", **missed**")
        print(f"| {number:,} | {first:.2f} | {later:.2f} | {client:.1f} | {aim} |")


async def _added(root, environ, number):
    from halo import Agent, Workspace
    from halo.models import openai_chat

    chunks = [json.loads(line[6:]) for line in _chat_lines()]
    bodies = []

    async def costless(_client, _path, body):
        """Stand in for a client that takes no time and says a few words."""
        bodies.append(body)
        for chunk in chunks:
            yield chunk

    openai_chat.events_of, theirs = costless, openai_chat.events_of
    adapter = openai_chat.OpenAIChat("http://127.0.0.1:9/v1", "k")
    agent = Agent.load(Workspace(root, environ=environ), slug("openai, chat"), adapter=adapter)
    agent.take_history(grown(number))
    times = []
    for i in range(16):
        began = time.perf_counter()
        result = await agent.generate_text(f"And at {i}?")
        times.append((time.perf_counter() - began) * 1000)
        assert result.text == TEXT
    openai_chat.events_of = theirs
    return times[0], statistics.median(times[1:]), await _bare_send(bodies[-1])


def _chat_lines():
    from loopback import CHAT

    return [line for line in CHAT.decode().split("\n\n") if line.startswith("data: {")]


async def _bare_send(body):
    """Return the milliseconds in which the bare client sends a body and reads the answer."""
    import openai

    server = Loopback()
    client = openai.AsyncOpenAI(api_key="k", base_url=f"{server.url}/v1", max_retries=0)
    times = []
    for _ in range(6):
        began = time.perf_counter()
        async for _chunk in await client.chat.completions.create(**body):
            pass
        times.append((time.perf_counter() - began) * 1000)
    await client.close()
    server.close()
    return statistics.median(times[1:])


# 3. Many turns at once.


def at_once(root, environ):
    server = Loopback(LATENCY)
    try:
        each = asyncio.run(_bare_at_once(server.url, shared=False))
        bare = asyncio.run(_bare_at_once(server.url, shared=True))
        halo = asyncio.run(_halo_at_once(root, environ, server.url))
    finally:
        server.close()
    calls = AT_ONCE * TURNS
    print(f"\n3. {AT_ONCE} conversations of {TURNS} turns at once, latency {LATENCY * 1000:.0f} ms\n")
    print("| | seconds | turns a second | of one bare client |")
    print("|---|---:|---:|---:|")
    print(f"| latency alone | {LATENCY * TURNS:.2f} | {calls / (LATENCY * TURNS):,.0f} | |")
    print(f"| a bare client for each | {each:.2f} | {calls / each:,.0f} | {bare / each * 100:.0f} % |")
    print(f"| one bare client for all | {bare:.2f} | {calls / bare:,.0f} | 100 % |")
    share = bare / halo * 100
    aim = "" if share >= 90 else " (aim 90, **missed**)"
    print(f"| Halo | {halo:.2f} | {calls / halo:,.0f} | {share:.0f} %{aim} |")


async def _bare_at_once(url, *, shared):
    import openai

    def make():
        return openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0)

    one = make()

    async def talk():
        client = one if shared else make()
        messages = [{"role": "system", "content": "You look after the harbour. " * 40}]
        for i in range(TURNS):
            messages.append({"role": "user", "content": f"{i}?"})
            async for _ in await client.chat.completions.create(model="m", messages=messages, stream=True):
                pass
            messages.append({"role": "assistant", "content": TEXT})
        if not shared:
            await client.close()

    await talk()
    began = time.perf_counter()
    await asyncio.gather(*(talk() for _ in range(AT_ONCE)))
    took = time.perf_counter() - began
    await one.close()
    return took


async def _halo_at_once(root, environ, url):
    from halo import Agent, Workspace
    from halo.models.openai_chat import OpenAIChat

    workspace = Workspace(root, environ=environ)
    agents = [
        Agent.load(workspace, slug("openai, chat"), adapter=OpenAIChat(f"{url}/v1", "k"))
        for _ in range(AT_ONCE + 1)
    ]

    async def talk(agent):
        for i in range(TURNS):
            await agent.generate_text(f"{i}?")

    await talk(agents.pop())
    began = time.perf_counter()
    await asyncio.gather(*map(talk, agents))
    return time.perf_counter() - began


# 4. Memory.


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def memory(root, environ):
    """In a process of its own: this one has memory to spare, in which agents would not show."""
    program = (
        f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r}); import os, runner; "
        f"runner.waiting({str(root)!r}, os.environ)"
    )
    subprocess.run([sys.executable, "-c", program], env=environ, check=True)


def waiting(root, environ):
    """Print what agents take that have run a turn and wait for the next one."""
    from halo import Agent, Workspace
    from halo.models.openai_chat import OpenAIChat

    server = Loopback()
    workspace = Workspace(root, environ=environ)

    def load():
        return Agent.load(workspace, slug("openai, chat"), adapter=OpenAIChat(f"{server.url}/v1", "k"))

    async def talk(agents):
        for agent in agents:
            await agent.generate_text("How is it?")

    kept = [load() for _ in range(10)]
    asyncio.run(talk(kept))
    gc.collect()
    before = resident()
    began = time.perf_counter()
    kept += [load() for _ in range(200)]
    took = (time.perf_counter() - began) / 200 * 1000
    loaded = resident()
    asyncio.run(talk(kept[10:]))
    gc.collect()
    print("\n4. An agent that waits (mean of 200)\n")
    print("| | KiB | ms to load |")
    print("|---|---:|---:|")
    print(f"| loaded | {(loaded - before) / 200 / 1024:.0f} | {took:.1f} |")
    print(f"| after a turn, with its client | {(resident() - before) / 200 / 1024:.0f} | |", flush=True)
    server.close()


def main():
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(Loopback()) as server:
        environ = environ_of(folder)
        root = cold_starts(folder, server)
        added(root, environ)
        at_once(root, environ)
        sys.stdout.flush()
        memory(root, environ)


if __name__ == "__main__":
    main()
