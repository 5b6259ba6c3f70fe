"""What compiling costs: full build, nothing to do, one edit, a load with its freshness check, memory.

Workspaces of N agents and N skills are generated; the agent `default` has all of them on its team and in its list.
Floors: a bare interpreter, `stat` of the same inputs. Peer: composing anew without artifacts, which is what a system
without a compiler does on every turn. Prints tables; a missed aim is marked (a loaded machine is noisy).

    python benchmarks/compile.py [N ...]        by default 10 200 2000
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

PARAGRAPH = "Say what you did, and what you left undone; name files by their path in the workspace.\n"

# Aims of the issue: by N, milliseconds of a load with its check; by artifacts, CPU of a build with nothing to do.
LOAD = {10: 1.5, 200: 8.0}
NOOP = ((100, 60.0), (1_000, 100.0), (10_000, 300.0))


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


def cpu(command, folder, environ):
    """CPU and wall milliseconds of one run, and its peak memory in MiB so far over all children."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        command, cwd=folder, env=environ, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    wall = (time.perf_counter() - began) * 1000
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent * 1000, wall, after.ru_maxrss / 1024


def best(rounds, action):
    """Median milliseconds of `action` in this process."""
    taken = []
    for _ in range(rounds):
        began = time.perf_counter()
        action()
        taken.append((time.perf_counter() - began) * 1000)
    return statistics.median(taken)


def measure_load(folder, environ):
    """Milliseconds: load with freshness check, stat of the same inputs, composing anew; and number of inputs."""
    from halo.build.builder import Builder
    from halo.compiler.compile import compile_target
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
            try:
                os.stat(path)
            except OSError:
                pass

    # A builder of its own each time: a turn begins in a new process.
    load = best(15, lambda: Builder(places).status(target))
    compose = best(5, lambda: compile_target(places.tree(), target))
    return load, best(15, stat_all), compose, len(inputs)


def one_edit(folder, environ, halo):
    """CPU milliseconds from a saved AGENT.md to its artifacts on disk, by `halo build`."""
    taken = []
    for i in range(3):
        with open(f"{folder}/.halo/agents/agent-1/AGENT.md", "a", encoding="utf-8") as file:
            file.write(f"- Rule {i}.\n")
        taken.append(cpu([*halo, "build"], folder, environ)[0])
    return min(taken)


def measure(n, floor):
    environ = {k: v for k, v in os.environ.items() if not k.startswith("HALO_")}
    halo = [sys.executable, "-m", "halo"]
    with tempfile.TemporaryDirectory() as top:
        folder = os.path.join(top, "ws")
        environ |= {"HOME": os.path.join(top, "home"), "HALO_HOME": os.path.join(top, "home/.halo")}
        os.makedirs(environ["HOME"])
        generate(folder, n)
        full, full_wall, peak = cpu([*halo, "build"], folder, environ)
        pointers = sum(
            name.endswith(".json") for _, _, names in os.walk(f"{folder}/.halo/build") for name in names
        )
        time.sleep(2.5)  # younger stamps are not trusted
        cpu([*halo, "build"], folder, environ)
        noop = min(cpu([*halo, "build"], folder, environ)[0] for _ in range(7))
        load, floor_stat, compose, inputs = measure_load(folder, environ)
        edit = one_edit(folder, environ, halo)
    noop_aim = next((aim for limit, aim in NOOP if pointers <= limit), None)
    rows = (
        ("artifacts", pointers, "", ""),
        ("full build, CPU s", full / 1000, f"{full / pointers:.1f} ms an artifact", ""),
        ("full build, wall s", full_wall / 1000, "", ""),
        ("full build, peak MiB", peak, "", ""),
        ("nothing to do, CPU ms", noop, f"{noop / floor:.1f} x an interpreter", aim(noop, noop_aim)),
        ("one edit, halo build, CPU ms", edit, "", ""),
        (
            f"load and check, {inputs} inputs, ms",
            load,
            f"{load / floor_stat:.1f} x stat ({floor_stat:.2f})",
            aim(load, LOAD.get(n)),
        ),
        ("composing anew, ms", compose, f"{compose / load:.1f} x the load", ""),
    )
    print(f"\n{n} agents and {n} skills")
    for what, value, ratio, said in rows:
        print(f"  {what:38}{value:12.2f}  {ratio:32}{said}".rstrip())


def aim(value, most):
    return "" if most is None else f"at most {most:g}" + (" MISSED" if value > most else "")


def main():
    sizes = [int(word) for word in sys.argv[1:]] or [10, 200, 2000]
    floor = min(cpu([sys.executable, "-c", "pass"], ".", dict(os.environ))[0] for _ in range(15))
    print(f"python -c pass: {floor:.1f} ms of CPU")
    for n in sizes:
        measure(n, floor)


if __name__ == "__main__":
    main()
