"""What a short command costs in CPU, against a bare interpreter (floor) and doit (peer).

Prints a table. Aims: `halo --version` at most 5 times the bare interpreter, `halo prompt` of a fresh artifact
at most 7 times. A missed aim is marked (a loaded machine is noisy); a heavy import makes it exit with 1.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = 21
HEAVY = ("openai", "anthropic", "httpx2", "asyncio", "jinja2", "xllamacpp", "doit")


def cpu_ms(command, folder, environ):
    """CPU time of one run, user and system, in milliseconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, env=environ, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def heavy_modules(arguments, folder, environ):
    """Modules that a halo command has imported although it should not."""
    code = (
        "import sys, io, contextlib\n"
        "from halo.__main__ import main\n"
        f"sys.argv = ['halo', *{arguments!r}]\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environ, check=True, capture_output=True, text=True
    )
    return done.stderr.strip().splitlines()[-1]


def main():
    python = sys.executable
    environ = {k: v for k, v in os.environ.items() if not k.startswith("HALO_")}
    clean = True
    with tempfile.TemporaryDirectory() as folder:
        environ["HOME"] = os.path.join(folder, "home")
        workspace = os.path.join(folder, "ws")
        halo = [python, "-m", "halo"]
        for command in (["init", workspace], ["build", "-w", workspace]):
            subprocess.run([*halo, *command], env=environ, check=True, capture_output=True)
        just_built = time.monotonic()
        rows = [
            ("python -c pass", [python, "-c", "pass"], None),
            ("halo --version", [*halo, "--version"], 5),
            ("halo prompt, just built", [*halo, "prompt"], 7),
            ("halo prompt, settled", [*halo, "prompt"], 7),
            ("halo build, nothing to do", [*halo, "build"], None),
            ("halo prompt --layers", [*halo, "prompt", "--layers"], None),
            ("doit --version", [python, "-m", "doit", "--version"], None),
        ]
        samples = {name: [] for name, _, _ in rows}
        for name, command, _ in rows:
            if name.endswith("settled"):
                # Younger stamps are not trusted; a call that asks the pointer lets them settle.
                time.sleep(max(0.0, 2.5 - (time.monotonic() - just_built)))
                for _ in range(2):
                    cpu_ms([*command, "--layers"], workspace, environ)
            for _ in range(4 if name.endswith("just built") else ROUNDS):
                samples[name].append(cpu_ms(command, workspace, environ))
        floor = statistics.median(samples["python -c pass"])
        print(f"{'command':28}{'min ms':>9}{'median ms':>11}{'x floor':>9}  aim")
        for name, _, aim in rows:
            median = statistics.median(samples[name])
            ratio = median / floor
            over = aim is not None and ratio > aim
            said = "" if aim is None else f"at most {aim}" + (" MISSED" if over else "")
            print(f"{name:28}{min(samples[name]):9.1f}{median:11.1f}{ratio:9.1f}  {said}".rstrip())
        for arguments in (["--version"], ["prompt"], ["prompt", "--layers"], ["build"]):
            found = heavy_modules(arguments, workspace, environ)
            print(f"heavy imports of halo {' '.join(arguments)}: {found}")
            clean &= found == "[]"
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
