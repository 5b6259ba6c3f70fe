"""Secrets in shell commands: put in at execution, as one word, never as code; refused where that is open."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo.tools.base import ToolFailure
from halo.tools.sandbox.shells import shell
from halo.tools.substitution import substitute

# Everything that a shell would do something about.
EVIL = "a b\t*~'\"`id`$(id)$HOME\\;|&<>(){}#!\nend"
SECRETS = {"s.params.token": EVIL, "s.secrets.key": "k2-value", "other-skill.params.a.b": "v3"}


def echoed(command, secrets=SECRETS):
    """What a real shell makes of the command."""
    made = substitute(command, secrets)
    assert not any(value in made.command for value in secrets.values() if len(value) > 2)
    done = subprocess.run([shell(), "-c", made.command], env={"PATH": "/usr/bin:/bin", **made.environment},
                          capture_output=True, text=True, check=False, timeout=20)  # fmt: skip
    assert done.stderr == "", made.command
    return done.stdout


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("printf '<%s>' {{s.params.token}}", f"<{EVIL}>"),
        ("printf '<%s>' {{ s.params.token }} x", f"<{EVIL}><x>"),
        ('printf "<%s>" "a {{s.params.token}} b"', f"<a {EVIL} b>"),
        ("printf '<%s>' 'a {{s.params.token}} b'", f"<a {EVIL} b>"),
        ("printf '<%s>' $'a\\t{{s.params.token}}\\'b'", f"<a\t{EVIL}'b>"),
        ("t={{s.params.token}}; printf '<%s>' \"$t\"", f"<{EVIL}>"),
        ("printf '<%s>' x{{s.params.token}}y{{s.secrets.key}}", f"<x{EVIL}yk2-value>"),
        ("printf '<%s>' \"$(printf '%s' \"{{s.params.token}}\")\"", f"<{EVIL}>"),
        ("printf '<%s>' \"$(printf '%s' {{s.secrets.key}} | cat)\" {{other-skill.params.a.b}}", "<k2-value><v3>"),
        ("cat <<EOF\na {{s.params.token}}\n${HOME}{{s.secrets.key}}\nEOF\n", f"a {EVIL}\nk2-value\n"),
        ("cat <<-EOF | cat\n\ta {{s.secrets.key}}\n\tEOF\nprintf '<%s>' {{s.params.token}}", f"a k2-value\n<{EVIL}>"),
        ("cat <<< {{s.secrets.key}}", "k2-value\n"),
        ("echo it\\'s {{s.secrets.key}}", "it's k2-value\n"),
        ("echo 1 # don't {{s.params.token}}\nprintf '<%s>' {{s.secrets.key}}", "1\n<k2-value>"),
        ("sh -c 'printf \"<%s>\" \"$1\"' sh {{s.params.token}}", f"<{EVIL}>"),
        ("case x in x) printf '<%s>' {{s.params.token}};; esac", f"<{EVIL}>"),
        ("f() { printf '<%s>' \"$1\"; }; (f {{s.params.token}})", f"<{EVIL}>"),
    ],
)  # fmt: skip
def test_a_value_arrives_as_it_is_wherever_it_stands(command, expected):
    assert echoed(command) == expected


@pytest.mark.parametrize(
    "command",
    [
        "echo `echo {{s.params.token}}`",
        "echo $(( {{s.params.token}} + 1 ))",
        "(( {{s.params.token}} > 1 ))",
        "echo ${x:-{{s.params.token}}}",
        "echo ${x:-'}'} '{{s.params.token}}'",
        "cat <<'EOF'\n{{s.params.token}}\nEOF\n",
        "cat <<EOF\n$(echo '\n{{s.params.token}}')\nEOF\n",
        'echo "$(case x in x) echo {{s.params.token}};; esac)"',
        "bash -c 'echo {{s.params.token}}'",
        'sh -e -c "echo {{s.params.token}}"',
        "eval echo {{s.params.token}}",
        "x; eval 'echo {{s.params.token}}'",
    ],
)
def test_where_it_cannot_be_put_in_safely_the_command_is_refused(command):
    with pytest.raises(ToolFailure) as failure:
        substitute(command, SECRETS)
    assert "s.params.token" in str(failure.value)
    assert EVIL not in str(failure.value)


def test_other_placeholders_and_other_commands_stay_as_they_are():
    for command in ("echo {{x.params.y}} {{now}}", "echo `date` $((1+2))", "cat <<'E'\n{{a.params.b}}\nE\n"):
        assert substitute(command, SECRETS) == (command, {})


def test_a_value_that_no_variable_can_hold_is_refused():
    with pytest.raises(ToolFailure, match="NUL"):
        substitute("echo {{a.params.b}}", {"a.params.b": "x\0y"})


def test_each_secret_is_one_variable_and_no_other_is_handed_over():
    made = substitute("echo {{s.secrets.key}} {{s.secrets.key}}", SECRETS)
    assert made.environment == {"HALO_SECRET_1": "k2-value"}


PIECES = st.sampled_from(
    ["echo ", "'", '"', "$(", ")", "(", "`", "${x}", "${", "}", "\\", "#", "\n", ";", " ", "a", "<<E", "<<'E'", "E\n",
     "$'", "((", "))", "case x in x) ", "esac", "|", "{{s.secrets.key}}", "{{s.secrets.key}}"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=14).map("".join))
def test_no_command_makes_a_value_run_or_appear(command):
    """The value is a command that leaves a mark. Whatever the quoting, the mark is never left."""
    value = "'\";`touch$IFS-mark`$(echo mark >&2)"
    try:
        made = substitute(command, {"s.secrets.key": value})
    except ToolFailure:
        return
    assert value not in made.command
    if "{{s.secrets.key}}" not in command:
        assert made.command == command
        return
    done = subprocess.run(
        [shell(), "-n", "-c", made.command], env={}, capture_output=True, text=True, check=False, timeout=20
    )
    original = subprocess.run(
        [shell(), "-n", "-c", command], env={}, capture_output=True, text=True, check=False, timeout=20
    )
    # A command that was whole stays whole.
    if original.returncode == 0:
        assert done.returncode == 0, (command, made.command, done.stderr)
