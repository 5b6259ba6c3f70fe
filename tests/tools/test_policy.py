"""Which calls run, ask or are denied, and what a command line is held against."""

import shlex

import msgspec
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from halo.records.policies import PolicyRule
from halo.tools.command_lines import TooMuchError, commands, is_plain
from halo.tools.policy import Decision, Policy, decide


def rules(text):
    """`deny shell_exec git push*` a line."""
    made = []
    for line in filter(None, map(str.strip, text.splitlines())):
        action, tool, *command = line.split(" ", 2)
        made.append(PolicyRule(tool, action, *command))
    return Policy(tuple(made))


def action(policies, tool, arguments):
    return decide(policies, tool, arguments).action


def shell(policy, line):
    return action([rules(policy)], "shell_exec", {"command": line})


# rules and sources


def test_without_a_rule_a_call_is_allowed():
    assert action([], "grep", {}) == "allow"
    assert action([Policy(())], "grep", {}) == "allow"
    assert action([rules("deny shell_exec")], "grep", {}) == "allow"


def test_the_first_rule_that_matches_decides():
    policy = rules("allow file_read\nask file_*\ndeny *")
    for tool, said in (("file_read", "allow"), ("file_write", "ask"), ("grep", "deny")):
        assert action([policy], tool, {}) == said


@given(st.lists(st.lists(st.sampled_from(["allow", "ask", "deny"]), max_size=3), max_size=4))
def test_the_strictest_source_counts(sources):
    policies = [Policy(tuple(PolicyRule("*", said) for said in actions)) for actions in sources]
    firsts = [actions[0] for actions in sources if actions] or ["allow"]
    assert action(policies, "grep", {}) == max(firsts, key=["allow", "ask", "deny"].index)


def test_patterns_of_names():
    assert action([rules("deny mcp__*")], "mcp__files__delete", {}) == "deny"
    assert action([rules("deny mcp__?__x")], "mcp__a__x", {}) == "deny"
    assert action([rules("deny File_Read")], "file_read", {}) == "allow"


def test_command_is_for_the_shell_alone():
    assert action([rules("deny * x*")], "grep", {"command": "xy", "pattern": "xy"}) == "allow"
    assert action([rules("deny * x*")], "shell_exec", {"command": "xy"}) == "deny"
    assert action([rules("deny grep x*")], "shell_exec", {"command": "xy"}) == "allow"


def test_the_rule_that_decided_is_named_with_its_place():
    policy = rules("allow shell_exec git log*\ndeny shell_exec git push*")._replace(
        places=("s.yaml:3", "s.yaml:4")
    )
    other = rules("ask shell_exec")
    deny = policy.rules[1]
    assert decide([other, policy], "shell_exec", {"command": "git push"}) == Decision(
        "deny", deny, "s.yaml:4"
    )
    assert decide([policy, other], "shell_exec", {"command": "make"}) == Decision("ask", other.rules[0])
    unsure = decide([policy], "shell_exec", {"command": "$x push"})
    assert unsure == Decision("ask", deny, "s.yaml:4", unsure=True)


# allowing: one plain command, as it is written

GIT = "allow shell_exec git *\nask shell_exec"


@pytest.mark.parametrize(
    "line",
    [
        "git status",
        "  git log -3 ",
        "git commit -m 'one; two & three | four > five $six `seven`'",
        'git commit -m "one; two & three (four) > five"',
        "git log --grep=a\\;b",
        "git show HEAD~1:a.txt {x,y}",
    ],
)
def test_a_plain_command_is_allowed(line):
    assert shell(GIT, line) == "allow"


@pytest.mark.parametrize(
    "line",
    [
        *("git status; rm x", "git status && rm x", "git status & rm x", "git log | sh", "git log\nrm x"),
        *("git log > x", "git apply < x", "git log $(rm x)", "git log `rm x`", 'git log "$(rm x)"'),
        *(
            'git log "`rm x`"',
            "git $X",
            'git "$X"',
            "git ${X}",
            "git log <(rm x)",
            "(git log)",
            "git log\rrm x",
        ),
        *("X=1 git log", "git 'log", 'git "log', "git log \\", "git log \\\n rm x", "git log\0", "git $'x'"),
        *("git --x=\\$(rm)", 'git "\\`rm\\`"', "git " + "x" * 30_000),
    ],
)
def test_anything_more_is_not(line):
    assert shell(GIT, line) == "ask"


def test_the_name_must_fit_as_it_is_written():
    for line in ("gitx status", "/tmp/git status", "git", "'git' status", "env git status"):
        assert shell(GIT, line) == "ask"


# asking and denying: wherever it hides

PUSH = "deny shell_exec git push*"


@pytest.mark.parametrize(
    "line",
    [
        *("git push", "git  push", " git push origin", "\tgit\tpush", "cd x && git push", "cd x;git push"),
        *("a | git push", "a & git push", "a || git push", "a\ngit push", "(git push)", "{ git push; }"),
        *(
            "echo $(git push)",
            "echo `git push`",
            'echo "$(git push)"',
            'echo "a `git push` b"',
            "cat <(git push)",
        ),
        *('echo "$(echo "$(git push)")"', "X=1 git push", "X=1 Y='a b' git push", "env X=1 git push"),
        *("env -i X=1 git push", "sudo git push", "sudo -u root git push", "sudo -E -u root X=1 git push"),
        *("command git push", "exec git push", "nohup git push &", "time git push", "time -p git push"),
        *("nice -n 5 git push", "timeout 5 git push", "timeout -k 1 5 git push", "xargs -n1 git push"),
        *("sudo env nohup time git push", "/usr/bin/git push", "sudo /usr/bin/git push", "'git' push"),
        *('git "push"', "g\\it push", 'g""it push', "git \\\n push", "if git push; then x; fi", "! git push"),
        *("while git push; do x; done", "for x in y; do git push; done", "case x in x) git push;; esac"),
        *("f() { git push; }; f", "sh -c 'git push'", 'bash -lc "cd x && git push"', "eval git push"),
        *("eval 'x; git push'", "sh -c \"sh -c 'git push'\"", ">x git push", "> x git push", "2>&1 git push"),
        *("find . -exec git push \\;", "cat <<E\ngit push\nE", "git push # for good", "X+=1 git push"),
        *("su root -c 'git push'", "git push 'unclosed", "echo '$(x)' $(git push)"),
    ],
)
def test_a_denied_command_is_found(line):
    assert shell(PUSH, line) == "deny"


@pytest.mark.parametrize(
    "line",
    [
        *(
            "git pull",
            "echo git push",
            "git log --grep 'git push'",
            "grep 'x; git push' a",
            "echo 'a && git push'",
        ),
        *('git commit -m "x; git push"', "# git push", "man git push", "echo \\; git push", "git stash push"),
        *('echo "(git push)"', "echo 'x $(git push)'"),
    ],
)
def test_words_that_are_only_spoken_of_are_not(line):
    assert shell(PUSH, line) == "allow"


@pytest.mark.parametrize(
    "line",
    [
        "x" * 30_000,
        "".join(f"x{n};" for n in range(5_000)),
        "sudo " * 3_000 + "x",
        "eval " * 500,
        "a=1 " * 4000 + "git push",
    ],
)
def test_what_nobody_can_look_through_counts_as_found(line):
    assert shell(PUSH, line) == "deny"
    assert shell("ask shell_exec git push*", line) == "ask"
    assert shell("allow shell_exec *x*\nask shell_exec", line) in ("allow", "ask")


def test_an_exception_stands_before_its_rule():
    policy = "allow shell_exec git push --dry-run*\ndeny shell_exec git push*"
    assert shell(policy, "git push --dry-run origin") == "allow"
    assert shell(policy, "git push --dry-run; git push") == "deny"


LINES = st.text(st.sampled_from("ab git push;&|()`$<>{}\"'\\\n\t=-") | st.characters(), max_size=60)


@given(LINES)
@example("git push")
def test_no_line_breaks_the_rules(line):
    """Each is looked through in bounded time, and what is denied as a whole is never let through in parts."""
    try:
        found = commands(line)
    except TooMuchError:
        return
    assert all(run == run.strip() and run for run in found)
    if line.strip():
        assert (
            line.strip().replace("\\\n", "").strip() in found or not line.strip().replace("\\\n", "").strip()
        )
    is_plain(line)


@given(
    st.sampled_from(
        ["{}", "x; {}", "x && {}", "x | {}", "$({})", "`{}`", "({})", "sudo {}", "A=1 {}", "! {}"]
    ),
    st.sampled_from(["{}", "y; {}", "env {}", '"$({})"', "{} # z", "{} 2>&1"]),
)
def test_wrapped_twice_it_is_still_found(outer, inner):
    line = outer.format(inner.format("git push"))
    assert shell(PUSH, line) == "deny"


@given(LINES)
@example("git 'a;b' push")
def test_what_is_plain_is_one_command(line):
    """Looked through for what it might run, it is still whole."""
    assume(is_plain(line))
    try:
        found = commands(line)
    except TooMuchError:
        return
    assert not any(c in line for c in "\n\r")
    words = " ".join(shlex.split(line))
    # Other spellings may be found (without the folder of the program), but no other command.
    assert all(run.split(" ")[1:] == words.split(" ")[1:] for run in set(found) - {line.strip(), words})


def test_a_rule_is_written_as_it_is_read():
    text = b'{"tool": "shell_exec", "action": "deny", "command": "git push*"}'
    assert msgspec.json.decode(text, type=PolicyRule) == rules(PUSH).rules[0]
