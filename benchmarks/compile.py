"""What compiling costs: full build, nothing to do, one edit, a load with its freshness check, memory.

Workspaces of N agents and N skills are generated; the agent `default` has all of them on its team and in its
list. Floors: a bare interpreter, `stat` of the same inputs. Peer: composing anew without artifacts, which is
what a system without a compiler does on every turn. Then the watcher (`benchmarks/watching.py`). Times are
CPU, user and system, and medians, unless said otherwise; a missed aim is marked (a loaded machine is noisy).

    python benchmarks/compile.py [N ...]        by default 10 33 200 333 2000 3333: the last takes minutes
    python benchmarks/compile.py --quick        10 and 200, without the watcher
"""

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time

import watching

PARAGRAPH = "Say what you did, and what you left undone; name files by their path in the workspace.\n"

# N agents and N skills are 3 N + 7 artifacts: about 100, 1,000 and 10,000 at 33, 333 and 3,333.
SIZES = (10, 33, 200, 333, 2000, 3333)
QUICK = (10, 200)

# Aims: by N, milliseconds of a load with its check; by artifacts, those of a build with nothing to do.
LOAD = {10: 1.5, 200: 8.0}
NOOP = ((110, 60.0), (1_010, 100.0), (10_010, 300.0))


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def generate(folder, n):
    """Make a workspace of `n` agents and `n` skills; return the number of its layers."""
    halo = os.path.join(folder, ".halo")
    agents, skills = [f"agent-{i}" for i in range(1, n)], [f"skill-{i}" for i in range(n)]
    for i, name in enumerate(["default", *agents]):
        team = agents if name == "default" else agents[i : i + 3]
        listed = skills if name == "default" else skills[i : i + 5]
        config = (
            f"name: {name}\ndescription: Does part {i} of the work and says so.\n"
            "model: {provider: local, id: smollm2-135m-instruct}\ntools: [file_read, grep]\n"
            f"skills: [{', '.join(listed)}]\nteam: [{', '.join(team)}]\n"
        )
        write(f"{halo}/agents/{name}/agent.yaml", config)
        write(f"{halo}/agents/{name}/AGENT.md", f"# {name}\n\n{PARAGRAPH * 20}")
    for name in skills:
        front = f"---\nname: {name}\ndescription: What {name} does, and when to use it.\n---\n"
        write(f"{halo}/skills/{name}/SKILL.md", f"{front}\n{PARAGRAPH * 20}")
    write(f"{halo}/USER.md", "Mira.\n")
    write(f"{halo}/INSTRUCTIONS.md", PARAGRAPH * 10)


def run(command, folder, environ):
    """CPU and wall milliseconds of one run, and its peak memory in MiB."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=folder, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command} ended with {process.returncode}")
    wall = (time.perf_counter() - began) * 1000
    return (used.ru_utime + used.ru_stime) * 1000, wall, used.ru_maxrss / 1024


def median_run(rounds, *arguments):
    """Median CPU milliseconds of several runs."""
    return statistics.median(run(*arguments)[0] for _ in range(rounds))


def median_call(rounds, action):
    """Median CPU milliseconds of `action` in this process."""
    taken = []
    for _ in range(rounds):
        began = time.process_time()
        action()
        taken.append((time.process_time() - began) * 1000)
    return statistics.median(taken)


def measure_load(folder, environ):
    """Milliseconds of a load with its check and of a stat of the same inputs; and the number of inputs."""
    from halo.build.builder import Builder
    from halo.records.targets import AgentTarget
    from halo.workspace.places import find_places

    places = find_places(folder, environ)
    target = AgentTarget("default")
    builder = Builder(places)
    for _ in range(2):
        assert builder.status(target).artifact is not None, builder.status(target).reason
    inputs = builder.pointers.read(target).inputs
    paths = [os.path.join(places.roots[p.path.partition(":")[0]], p.path.partition(":")[2]) for p in inputs]

    def stat_all():
        for path in paths:
            with contextlib.suppress(OSError):
                os.stat(path)

    # A builder of its own each time: a turn begins in a new process.
    load = median_call(31, lambda: Builder(places).status(target))
    return load, median_call(31, stat_all), len(inputs)


COMPOSE = """
import os, time
from halo.compiler.compile import compile_target
from halo.records.targets import AgentTarget
from halo.workspace.places import find_places

places = find_places(".", os.environ)
began = time.process_time()
compile_target(places.tree(), AgentTarget("default"))
print((time.process_time() - began) * 1000)
"""


def measure_composing(folder, environ):
    """Milliseconds of composing the same prompt anew, without the imports, in new processes."""
    command = [sys.executable, "-c", COMPOSE]
    runs = [
        subprocess.run(command, cwd=folder, env=environ, check=True, capture_output=True) for _ in range(5)
    ]
    return statistics.median(float(done.stdout) for done in runs)


def one_edit(folder, environ, halo):
    """CPU milliseconds of `halo build` after each of some edits of one AGENT.md."""
    taken = []
    for i in range(5):
        with open(f"{folder}/.halo/agents/agent-1/AGENT.md", "a", encoding="utf-8") as file:
            file.write(f"- Rule {i}.\n")
        taken.append(run([*halo, "build"], folder, environ)[0])
    return statistics.median(taken)


def settle(folder, environ, halo):
    """Build until a gate answers that stat data settle: younger ones are not trusted."""
    for _ in range(2):
        time.sleep(4.5)
        run([*halo, "build"], folder, environ)


def measure(n, floor):
    environ = {k: v for k, v in os.environ.items() if not k.startswith("HALO_")}
    halo = [sys.executable, "-m", "halo"]
    with tempfile.TemporaryDirectory() as top:
        folder = os.path.join(top, "ws")
        environ |= {"HOME": os.path.join(top, "home"), "HALO_HOME": os.path.join(top, "home/.halo")}
        os.makedirs(environ["HOME"])
        generate(folder, n)
        full, full_wall, peak = run([*halo, "build"], folder, environ)
        count = sum(
            name.endswith(".json") for _, _, names in os.walk(f"{folder}/.halo/build") for name in names
        )
        settle(folder, environ, halo)
        nothing = median_run(11, [*halo, "build"], folder, environ)
        load, floor_stat, inputs = measure_load(folder, environ)
        compose = measure_composing(folder, environ)
        edit = one_edit(folder, environ, halo)
    nothing_aim = next((aim for limit, aim in NOOP if count <= limit), None)
    print(f"\n{n} agents and {n} skills: {count} artifacts")
    row("full build, s", full / 1000, f"{full / count:.1f} ms an artifact")
    row("full build, wall, s", full_wall / 1000)
    row("full build, peak MiB", peak)
    row("nothing to do, ms", nothing, f"{nothing / floor:.1f} x an interpreter", nothing_aim)
    row("one edit, ms", edit, f"{full / edit:.0f} times less than all")
    row("load and check, ms", load, f"{load / floor_stat:.1f} x stat of {inputs} inputs", LOAD.get(n))
    row("stat of the inputs, ms", floor_stat)
    row("composing anew, ms", compose, f"{compose / load:.1f} x the load")


def row(what, value, ratio="", most=None):
    said = "" if most is None else f"at most {most:g}" + (" MISSED" if value > most else "")
    print(f"  {what:28}{value:10.2f}  {ratio:30}{said}".rstrip(), flush=True)


def main(words):
    quick = words == ["--quick"]
    sizes = QUICK if quick else [int(word) for word in words] or SIZES
    floor = median_run(21, [sys.executable, "-c", "pass"], ".", dict(os.environ))
    print(f"python -c pass: {floor:.1f} ms")
    for n in sizes:
        measure(n, floor)
    if not quick:
        print()
        watching.main(list(watching.AIMS))


if __name__ == "__main__":
    main(sys.argv[1:])
