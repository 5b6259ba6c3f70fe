"""However a denied command is spelt, it is never allowed; and ordinary lines are not asked about."""

import contextlib
import os
import subprocess
import time
from fnmatch import fnmatchcase

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from making import examples

from halo.records.policies import PolicyRule
from halo.tools.command_readings import ANYTHING, Reading, may_fit, readings
from halo.tools.policy import Policy, decide

PUSH = Policy((PolicyRule("shell_exec", "deny", "git push*"),))
A, B, C = "case x in x) git", " push;; esac", "select x in y; do git pu"


def said(line, policy=PUSH):
    return decide([policy], "shell_exec", {"command": line}).action


# spellings of `git push`


@pytest.mark.parametrize(
    "line",
    [
        *("$'git' push", "$'\\147it' push", '$"git" push', "{git,push}", "gi{t,} push", "g{i,}t push"),
        *("gi? push", "g*t push", "[g]it push", "git pus?", "~/git push", "git {push,}", "/usr/b*/git push"),
        *("x=git; $x push", "x='git push'; $x", "git $x", "git$IFS'push'", 'git "$x"', "${x:-git} push"),
        *("$(echo git) push", "`echo git` push", "git $(echo push)", 'git "`echo push`"', "$0 push"),
        *("set -- git push; $@", 'set -- git push; "$@"', "read x <<< push; git $x", "git ${x}push"),
        *('f() { "$@"; }; f git push', 'f() { git "$@"; }; f push', 'g () ( git "$1" ) ; g push'),
        *("alias g='git push'\ng", "function f { git push; }; f", "shopt -s expand_aliases", "hash -p /usr/bin/git g"),
        *("eval $x", 'eval "git $x"', 'sh -c "$x"', "sh -c 'git \"$1\"' x push", "bash -o noglob -c 'git push'"),
        *("echo git push | sh", "sh <<< 'git push'", "bash x.sh", "sh < x", "bash <(echo git push)", ". ./x"),
        *("source x", "cat <<E | sh\ngit\\\n push\nE", "sh <<E\n$x\nE", "zsh -c '=git push'", "fish -c 'git (x)'"),
        *("echo push | xargs git", "xargs -I% git % < x", "xargs -a x git", "echo git | xargs -I{} {} push"),
        *("env -S 'git push'", "env -S'git push'", "env ]A=1 git push", "env -i -- git push", "env X=$y push"),
        *("find . -name push -exec git {} \\;", "find . -exec {} push \\;", "find $x", "nice $x git push"),
        *("sudo -u me -g us git push", "timeout -s 9 5 git push", "flock l -c 'git push'", "su -c 'git push'"),
        *("watch git push", "ssh h git push", "parallel git ::: push", "docker run x git push", "npx git push"),
        *("trap 'git push' EXIT", "let 'a[$(git push)]=1'", "[[ 'a[$(git push)]' -eq 1 ]]", "((x))", "$((x))"),
        *("x='a[$(git push)]'; echo $((x))", "test -v 'a[$(git push)]'", "declare -i x='a[$(git push)]'"),
        *("read 'a[$(git push)]'", "unset 'a[$(git push)]'", "printf -v 'a[$(git push)]' x", "echo ${x@P}"),
        *("[[ \n'a[$(git push)]' -eq 1 ]]", "BASH_ENV=<(echo git push) bash -c ls", "PS4='$(git push)' sh -xc ls"),
        *("python -c 'x'", "python3 <<< x", "perl -e x", "echo x | python -", "awk 'BEGIN{system(x)}'", "node -e x"),
        *(f"{A}{B}", f"{C}sh; done", "# it's\ngit push # '", "for x do git push; done", "x &>f git push"),
        *("mapfile -C 'git push' x", "exec -a x git push", "jobs -x git push", "coproc git push", "\\git push"),
        *("git push\r", "git\u00a0push\n$x", "GIT push", "{{a.params.b}} push", "sh -c 'git {{a.params.b}}'"),
        *("a=(git push); ${a[@]}", "$x", '"$x"', "`x`", "$(x)", "echo 'unclosed\ngit push"),
    ],
)  # fmt: skip
def test_what_may_be_a_denied_command_is_not_allowed(line):
    assert said(line) in ("ask", "deny")


@pytest.mark.parametrize(
    "line",
    [
        *("ls -la", "make -j $(nproc)", "echo $HOME", 'echo "$x" > f', "ls *.py", "cat src/**/*.py", "cd x && ls"),
        *("git status", "git log -- *.py", "git pull $x", "git add -A; git commit -m 'git push'", "python x.py"),
        *("python -m pytest -q $x", "uv run pytest -q", "npm run build", "docker build .", "go test ./..."),
        *("for f in *.py; do echo $f; done", "while read -r l; do echo $l; done < f", "if [ -f x ]; then ls; fi"),
        *('[ -f "$x" ] && echo y', "[[ $x == y ]] || exit 1", "[ $? = 0 ]", "! grep -q x f", "set -euo pipefail; ls"),
        *("export X=1 Y=$Z; make", "X=1 make 2>&1 | tail -5", "make > /dev/null 2>&1 &", "time -p make", "(cd x; ls)"),
        *("f() { echo x; }; f", "find . -name '*.py' -exec grep -l x {} +", "find ./src -type f | xargs grep x"),
        *("timeout 5 make", "env X=1 make", "nohup make &", "sh -c 'make test'", 'bash -lc "cd x && make"'),
        *("rm -rf build # it's git push", "echo {a,b}", "cp a{,.bak}", "diff <(ls a) <(ls b)", "cat <<< x", "x=$(ls)"),
        *("sed -n 1,20p f", "curl -s https://x.example/y | jq .z", "grep -rn 'git push' .", "printf '%s\\n' \"$x\""),
        *("echo {{a.params.b}}", "unset X; local y=1; true", "sudo make install", "nice make", "xargs -n 1 ls -i < f"),
    ],
)  # fmt: skip
def test_ordinary_lines_are_not_asked_about(line):
    assert said(line) == "allow"


def test_a_rule_is_passed_over_only_where_it_cannot_speak_of_the_line():
    """What stays open is asked about by rules that it may fit, whatever stands behind them."""
    exception = Policy((*PUSH.rules, PolicyRule("shell_exec", "allow", "git *")))
    assert said("git log", exception) == "allow"
    assert said("git pus?", exception) == "ask"
    assert said("git push", exception) == "deny"
    before = Policy(exception.rules[::-1])
    assert said("git push", before) == "allow"
    final = Policy((*PUSH.rules, PolicyRule("shell_exec", "deny")))
    assert said("git pus?", final) == "deny"
    anywhere = Policy((PolicyRule("shell_exec", "ask", "*--force*"),))
    assert (said("ls $x", anywhere), said("ls x", anywhere)) == ("ask", "allow")


# any spelling of it


def _spelt(word):
    """Strategies for one word: each letter in some quotation, or the whole by something that a shell makes."""
    letters = [
        st.sampled_from([c, f"'{c}'", f'"{c}"', f"\\{c}", f"$'{c}'", f"''{c}", f'{c}""']) for c in word
    ]
    whole = [
        word,
        f"$(echo {word})",
        f"`echo {word}`",
        f"{word[:-1]}?",
        f"{{{word},}}",
        f"${{x:-{word}}}",
        "$x",
    ]
    return st.one_of(st.tuples(*letters).map("".join), st.sampled_from(whole))


_BLANK = st.sampled_from([" ", "  ", "\t", " \\\n", "\\\n ", " >o ", " 2>&1 ", "$IFS''", " &>f "])
_PLAIN = st.builds("{}{}{}".format, _spelt("git"), _BLANK, _spelt("push"))
# Around a simple command, and around anything.
_BEFORE = [
    *("X=1 ", "env ", "env A=1 ", "env -i ", "sudo ", "sudo -u me ", "command ", "exec ", "nohup ", ">f ", "time -p "),
    *("nice -n 5 ", "timeout 5 ", "xargs ", "eval ", "setsid ", "busybox ", "npx ", "docker run x ", "watch ", "! "),
]  # fmt: skip
_AROUND = [
    *("{}", "{} # x", "{{ {}; }}", "({})", "x;{}", "x&&{}", "x|{}", "x&{}", "x\n{}", "echo $({})", 'echo "$({})"'),
    *("cat <({})", "x=$({})", "if {}; then x; fi", "f() {{ {}; }}; f", "for x do {}; done", "while {}; do x; done"),
    *("case x in x) {};; esac", "cat <<E\n$({})\nE", "sh <<E\n{}\nE", "# it's\n{}", "x\\\n;{}", "[[ x ]] && {}"),
    *("function f {{ {}; }}; f", "time {}", "echo a{{b,c}} ${{x:-y}}; {}", "find . -exec true {{}} \\; ; {}"),
]  # fmt: skip
_LINES = st.recursive(
    st.builds("{}{}".format, st.sampled_from(["", *_BEFORE]), _PLAIN),
    lambda inner: st.one_of(
        st.builds(str.format, st.sampled_from(_AROUND), inner),
        inner.map(lambda line: line if "`" in line or "\\" in line else f"echo `true; {line}`"),
        inner.map(lambda line: line if "'" in line else f"sh -c '{line}'"),
        inner.map(lambda line: line if "'" in line else f"eval '{line}'"),
    ),
    max_leaves=3,
)


@given(_LINES)
@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_spelling_of_a_denied_command_is_allowed(line):
    assert said(line) in ("ask", "deny")


# what real shells make of it

_SHELLS = [path for path in ("/bin/bash", "/bin/dash", "/bin/sh") if os.access(path, os.X_OK)]
_TOKENS = [
    *("git", "push", "git push", "gi", "t", "pu", "sh", "'", "'", '"', '"', "\\", "$x", "x=", "x=git;", "$(", "`", ")"),
    *("(", "{ ", "; }", "{git,push}", ";", "&", "|", "&&", "\n", " ", " ", " ", "#", "<<<", "<<E\n", "\nE\n", "2>&1"),
    *("eval ", "sh -c ", "command ", "exec ", "env ", "xargs ", "echo ", "if ", "then ", "fi", "do ", "done", "for x "),
    *("in ", "! ", "time ", "-p ", "f() ", "f", '"$@"', "$1", "$((", "))", "${", "}", "[[ ", " ]]", "a[", "]", "-eq 1"),
    *("test -v ", "case x in x)", ";;", " esac", "*", "?", "-n ", "1 ", "A=1 ", "declare -i ", "let ", "set -- "),
    *("trap ", "EXIT", "alias g=", "g ", "read x", "$'", "\\\n", "nice ", "timeout 1 ", "&>f", "-c ", "]A=1 ", "<("),
]  # fmt: skip
_STARTS = [
    *(["git", " ", "push"], ["sh -c ", "'", "git push", "'"], ["x=git;", "$x", " ", "push"], ["eval ", "git push"]),
    *(["f() ", "{ ", "git push", "; }", ";", "f"], ["echo ", "`", "git push", "`"], ["xargs ", "git ", "<<<", "push"]),
    *(["for x ", "in ", "git;", "do ", "$x", " ", "push;", "done"], ["cat ", "<<E\n", "$(", "git push", ")", "\nE\n"]),
    *(["let ", "'", "a[", "$(", "git push", ")", "]", "'"], ["env ", "A=1 ", "git push"], ["time ", "-p ", "git push"]),
    *(["[[ ", "'", "a[", "$(", "git push", ")", "]", "'", " ", "-eq 1", " ]]"], ["trap ", "'", "git push", "' ", "EXIT"]),
]  # fmt: skip


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """A folder with programs, in which a `git push` leaves a mark, and nothing else of this machine."""
    folder = tmp_path_factory.mktemp("shells")
    programs = folder / "bin"
    programs.mkdir()
    (programs / "git").write_text(f'#!/bin/sh\ncase $1 in push*) echo x >> "{folder}/pushed";; esac\n')
    (programs / "git").chmod(0o755)
    for name in ("env", "xargs", "sh", "nice", "timeout", "cat", "true"):
        found = next(
            (f"/usr/bin/{name}" for _ in "x" if os.access(f"/usr/bin/{name}", os.X_OK)), f"/bin/{name}"
        )
        (programs / name).symlink_to(os.path.realpath(found) if name != "sh" else found)
    return folder


def _bounded():
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    resource.setrlimit(resource.RLIMIT_CPU, (2, 2))


def _pushes(shell, line, bench):
    """Run a line in a real shell, and tell whether it came to a `git push`."""
    (bench / "pushed").unlink(missing_ok=True)
    work = bench / "work"
    work.mkdir(exist_ok=True)
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(
            [shell, "-c", line],
            cwd=work,
            env={"PATH": str(bench / "bin"), "HOME": str(work)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=3,
            check=False,
            start_new_session=True,
            preexec_fn=_bounded,
        )
    return (bench / "pushed").exists()


@pytest.mark.skipif(os.name == "nt", reason="needs a shell")
@given(
    st.sampled_from(_STARTS),
    st.lists(st.tuples(st.integers(0, 12), st.sampled_from(_TOKENS), st.booleans()), max_size=4),
)
@settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
def test_no_line_that_is_allowed_comes_to_a_denied_command_in_a_real_shell(bench, start, changes):
    parts = list(start)
    for at, token, replace in changes:
        place = min(at, len(parts))
        parts[place : place + replace] = [token]
    line = "".join(parts)
    assume(said(line) == "allow")
    for shell in _SHELLS:
        assert not _pushes(shell, line, bench), (shell, line)


@pytest.mark.skipif(os.name == "nt", reason="needs a shell")
def test_the_shells_of_these_tests_do_push(bench):
    """Else the test above could not fail."""
    for shell in _SHELLS:
        assert _pushes(shell, "x=git; env $x push", bench)
        assert not _pushes(shell, "git pull; echo git push", bench)


# the parts


def test_a_reading_ends_where_only_a_shell_knows_more():
    assert readings("git log $x -3") == [Reading("git log ", whole=False)]
    assert readings("a 'b c' \"d\"") == [Reading("a b c d")]
    assert readings("/usr/bin/Git x") == [Reading(t) for t in ("/usr/bin/Git x", "Git x", "git x")]
    assert readings("timeout 5 a") == [Reading("timeout 5 a"), Reading("a")]
    assert ANYTHING in readings("$x")
    assert readings("") == readings("# x") == []


@given(st.text("ab*?[]!", max_size=6), st.text("ab", max_size=4), st.text("ab", max_size=4))
def test_what_may_still_come_is_never_forgotten(pattern, known, more):
    if fnmatchcase(known + more, pattern):
        assert may_fit(Reading(known, whole=False), pattern)
    assert may_fit(Reading(known), pattern) == fnmatchcase(known, pattern)


@pytest.mark.parametrize(
    "line",
    [
        *("$(" * 5_000, "(" * 9_000, "`" * 9_000, "x;" * 9_000, "sudo -x " * 2_400 + "a", "npx " + "a " * 9_000),
        *('"$(' * 5_000, "env " * 4_900, "<(" * 9_000, "sh -c " * 3_000, "xargs " + "x " * 9_000, "{" * 19_000),
    ],
)  # fmt: skip
def test_long_lines_take_little_time(line):
    began = time.monotonic()
    found = readings(line)
    any(may_fit(reading, "*a*b*c*d*e*x*") for reading in found)
    assert time.monotonic() - began < 5
    assert len(found) < 1_000
