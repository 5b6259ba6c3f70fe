"""Programs and builtins that run more than themselves, because their arguments or their input say so. Pure.

What a program does by itself is its own affair: this is about those that are there to run something else.
"""

import re

from halo.tools.shell_words import Word

_NAME = re.compile(r"-[xrgaAf]+|[A-Za-z_][A-Za-z0-9_]*(?:\+?=.*)?", re.DOTALL)
_SET_OPTION = re.compile(r"[-+][efuvx]+|[-+][eux]*o|pipefail|errexit|nounset|xtrace|noglob")

# Run a command that stands behind them: exactly there, if no option does.
DIRECT = frozenset(
    {
        *("env", "sudo", "doas", "command", "exec", "builtin", "nohup", "time", "nice", "ionice", "setsid"),
        *("timeout", "chroot", "stdbuf", "strace", "ltrace", "busybox", "toybox", "fakeroot", "caffeinate"),
    }
)
TAKES_ONE = frozenset({"timeout", "chroot"})
BY_THE_SHELL = frozenset({"command", "builtin", "exec"})
# Run a command that stands somewhere behind them.
CARRIERS = frozenset(
    {
        *("unshare", "nsenter", "taskset", "chrt", "setarch", "linux32", "linux64", "prlimit", "setpriv"),
        *("numactl", "perf", "valgrind", "gdb", "xvfb-run", "systemd-run", "dbus-run-session", "firejail"),
        *("bwrap", "proot", "npx", "npm", "pnpm", "yarn", "uv", "uvx", "poetry", "pipenv", "pipx", "pdm"),
        *("hatch", "rye", "tox", "conda", "mamba", "bundle", "mise", "asdf", "direnv", "dotenv", "docker"),
        *("podman", "nerdctl", "kubectl", "lxc", "vagrant", "toolbox", "distrobox", "flatpak", "snap", "nix"),
        *("flatpak-spawn", "rustup", "fd", "fdfind", "entr", "jobs"),
    }
)
# Builtins that run text as commands, or change what is read here.
_SHELL_WORKINGS = frozenset(
    {
        *("source", ".", "alias", "shopt", "enable", "hash", "trap", "bind", "complete", "compgen", "fc"),
        *("history", "let"),
    }
)
# Programs that run text as commands, or what they are fed.
_UNREADABLE = frozenset(
    {
        *(
            "zsh",
            "ksh",
            "mksh",
            "fish",
            "csh",
            "tcsh",
            "rbash",
            "nu",
            "xonsh",
            "elvish",
            "pwsh",
            "powershell",
        ),
        *("su", "runuser", "sg", "watch", "script", "scriptreplay", "flock", "ssh", "autossh", "mosh", "rsh"),
        *("at", "batch", "crontab", "parallel", "sem", "hyperfine", "expect", "osascript", "tclsh", "wish"),
        *("awk", "gawk", "mawk", "nawk", "original-awk", "igawk", "tmux", "screen", "zellij", "nix-shell"),
        *("cmd", "cmd.exe", "powershell.exe", "wsl", "wsl.exe", "emacs", "vim", "vi", "nvim", "ex", "ed"),
        *("view", "nc", "ncat", "netcat", "socat", "inotifywait", "watchexec", "m4"),
    }
)
# Run code that an option holds, or that they are fed; a file of code is a program like any other.
_INTERPRETER = re.compile(r"(?:python|pypy|perl|ruby|irb|node|nodejs|deno|bun|php|lua|luajit|rscript)[0-9.]*")
_HARMLESS = frozenset({"-m", "-V", "--version", "--help"})
_CODE = frozenset({"", "eval", "repl", "x", "exec"})
# Evaluate names of variables, which may hold a command: `a[$(x)]`.
_DECLARING = frozenset({"declare", "typeset", "local", "export", "readonly", "unset"})
_NAMING = frozenset({"read", "mapfile", "readarray", "getopts", "wait"})
_ARITHMETIC = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R", "-t"})
_COMPARING = frozenset(
    {"=", "==", "!=", "-n", "-z", "-e", "-f", "-d", "-r", "-w", "-x", "-s", "-L", "-h"}
) | {
    *("-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"),
}


def is_program_readable(name: str, rest: tuple[Word, ...]) -> bool:
    """Tell whether a program, as it is called, runs nothing but itself."""
    if not _INTERPRETER.fullmatch(name):
        return name not in _UNREADABLE
    first = rest[0] if rest else Word("")
    code = first.text in _CODE or (first.text.startswith("-") and first.text not in _HARMLESS)
    return first.whole and not code


def is_builtin_readable(name: str, rest: tuple[Word, ...]) -> bool:
    """Tell the same of a builtin."""
    first = rest[0] if rest else Word("")
    if name == "set":
        return first.text == "--" or all(w.whole and _SET_OPTION.fullmatch(w.text) for w in rest)
    if name in _DECLARING:
        return all(_NAME.fullmatch(w.text) and (w.whole or "=" in w.text) for w in rest)
    if name in _NAMING or (name == "printf" and (not first.whole or first.text.startswith("-v"))):
        return all(w.whole and not set("[$`") & set(w.text) and w.text != "-C" for w in rest)
    if name == "[[":
        return rest[-1:] == (Word("]]"),) and _ARITHMETIC.isdisjoint(w.text for w in rest)
    if name in ("[", "test"):
        return _is_plain_test(rest)
    return name not in _SHELL_WORKINGS


def _is_plain_test(rest: tuple[Word, ...]) -> bool:
    """Tell whether a test does not ask for a variable, whose name may hold a command."""
    texts = {word.text for word in rest if word.whole}
    if not texts.isdisjoint({"-v", "-R"}) or not all(word.one for word in rest):
        return False
    return all(word.whole for word in rest) or not texts.isdisjoint(_COMPARING)
