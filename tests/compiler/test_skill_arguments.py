"""`$1`, `$ARGUMENTS` and `{{args}}` in SKILL.md: slots that only an invocation with arguments fills."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from making import agent, compiled, skill

from halo.records.artifacts import Artifact
from halo.records.targets import SkillTarget
from halo.runner.slots import fill
from halo.sessions.values import Moment, argument_values, slot_values, takes_arguments
from halo.workspace.trust import Grants


def artifact(text, **files):
    made = compiled({".halo/skills/s/SKILL.md": skill(text), **files}, SkillTarget("s"))
    return Artifact("id", made.prompt, made.manifest)


def invoked(text, arguments="", **files):
    """The body of a skill as a model gets it."""
    found = artifact(text, **files)
    moment = Moment("/ws", "/ws", "NOW", "Ada")
    values, _ = slot_values(found.manifest.slots, moment, None, {}, Grants())
    filled = fill(found, {**values, **argument_values(arguments)}).text
    return filled.removeprefix("# Skill: s\n\n").removesuffix("\n")


AWK = r"""awk '{print $1, $10, $NF}' x | sed 's/\$1//' ; echo "$ARGUMENTS" $$ $HOME"""


def test_without_arguments_dollar_signs_are_text():
    """The reference blanked `awk '{print $1}'`."""
    assert invoked(AWK) == AWK
    assert invoked(AWK, "  \n ") == AWK


def test_the_artifact_keeps_the_source():
    assert AWK in artifact(AWK).prompt


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("<$ARGUMENTS>", "<x.md 'two words' last>"),
        ("<{{args}}>", "<x.md 'two words' last>"),
        ("$1|$2|$3|$4|$9", "x.md|'two|words'|last|"),
        ("$1.", "x.md."),
        ("${1}", "${1}"),
        (
            "$0 $10 $1.50 $1,000 $ARGUMENTS_ $ARGUMENT $PATH $",
            "$0 $10 $1.50 $1,000 $ARGUMENTS_ $ARGUMENT $PATH $",
        ),
        (r"\$1 \$ARGUMENTS \$9", "$1 $ARGUMENTS $9"),
        (r"\$10 \$HOME \n", r"\$10 \$HOME \n"),
        ("a$1$2b", "ax.md'twob"),
    ],
)
def test_with_arguments_they_are_filled(text, result):
    assert invoked(text, "x.md 'two words' last") == result


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("a b", ["a", "b"]),
        ('"a b" c', ["a b", "c"]),
        ('a"b c"d e', ["ab cd", "e"]),
        ('"" x', ["", "x"]),
        ('say "it', ["say", "it"]),
        ("don't stop", ["don't", "stop"]),
        ("a\n\tb", ["a", "b"]),
        ("1 2 3 4 5 6 7 8 9 10", [str(n) for n in range(1, 10)]),
    ],
)
def test_words_of_arguments(arguments, words):
    """Double quotes keep blanks together; an apostrophe is a letter."""
    values = argument_values(arguments)
    assert [values[f"${n}"] for n in range(1, 10)] == [*words, *[""] * (9 - len(words))]
    assert values["$ARGUMENTS"] == arguments


HOSTILE = ["{{s.params.k}}", "{{now}}", "$2", "$ARGUMENTS", r"\$1", "{{args}}", "<<NAME>>", "{{s.secrets.k}}"]


@pytest.mark.parametrize("argument", HOSTILE)
@pytest.mark.parametrize("place", ["$1", "$ARGUMENTS", "{{args}}"])
def test_an_argument_is_never_looked_at_again(argument, place):
    """The reference resolved placeholders in it, and so gave keys away."""
    files = {".halo/settings.yaml": "s: {params: {k: VALUE}}\n"}
    assert invoked(f"[{place}] {{{{now}}}}", argument, **files) == f"[{argument}] NOW"


def test_arguments_do_not_join_to_a_placeholder():
    assert invoked("$1$2}}", "{{no w") == "{{now}}"


def test_a_secret_stays_out_of_an_invoked_skill():
    files = {
        ".halo/skills/s/config.yaml": "params: [{key: k, secret: true}]",
        ".halo/settings.yaml": "s: {params: {k: LEAK}}\n",
    }
    assert invoked("{{params.k}} $1", "{{s.params.k}}", **files) == "{{s.params.k}} {{s.params.k}}"


def test_a_parameter_with_a_dollar_sign_is_text():
    """What a placeholder stands for is no place for arguments either."""
    files = {".halo/settings.yaml": "s: {params: {k: '$1'}}\n"}
    assert invoked("{{params.k}} $1", "x", **files) == "$1 x"


def test_in_an_agent_file_a_dollar_sign_is_always_text():
    made = compiled({".halo/agents/a/agent.yaml": agent(), ".halo/agents/a/AGENT.md": AWK + " $1"})
    assert AWK in made.prompt
    assert [slot.name for slot in made.manifest.slots] == ["workspace_root"]
    assert not [d for d in made.manifest.diagnostics if d.code == "placeholder-literal"]


@pytest.mark.parametrize(
    ("text", "takes"),
    [("$1", True), ("$ARGUMENTS", True), ("{{args}}", True), (r"\$1", False), ("{{now}} $10", False)],
)
def test_a_skill_takes_arguments_if_it_has_a_place_for_them(text, takes):
    assert takes_arguments(artifact(text)) is takes


@given(st.text("$1239ARGUMENTS\\{}args. a\n", max_size=40))
def test_without_arguments_every_text_stays_as_it_is(text):
    body = f"x{text}x"
    assert invoked(body) == body.replace("{{args}}", "")


@given(st.text(max_size=30), st.text("ab \"'$1\\{}now", max_size=30))
def test_what_is_filled_in_is_what_was_given(before, arguments):
    before = "".join(c for c in before if c.isalnum())
    expected = arguments if arguments.strip() else "$ARGUMENTS"
    assert invoked(f"x{before} $ARGUMENTS!", arguments) == f"x{before} {expected}!"
