"""Every line of a prompt leads back to the lines of the layers that it is made of."""

from generated import FEW, all_targets, workspaces
from hypothesis import given
from making import agent, body, compiled, tree

from halo.build.trace.origins import prompt_lines
from halo.compiler.compile import compile_target
from halo.errors import UnknownNameError
from halo.files.canonical import canonical_text
from halo.records.targets import AgentTarget


def lines_of(files, **options):
    result = compiled(files, **options)
    return prompt_lines(result.prompt, result.manifest)


def line_of(files, text, **options):
    (found,) = [line for line in lines_of(files, **options) if text in line.text]
    return found


def parts(line):
    """The origins as (text, file and line, how)."""
    return [(o.text, f"{o.source.rpartition('/')[2]}:{o.line}", o.how) for o in line.origins]


def test_a_line_of_a_layer_is_the_line_of_its_file():
    """Counted with the front matter and the blank lines above the text, with CRLF too."""
    files = body("B", **{".halo/USER.md": "---\r\nuser_name: Bo\r\n---\r\n\r\nOne.\r\n\r\nTwo.\r\n"})
    line = line_of(files, "Two.")
    assert (line.number, line.segment) == (5, "user")
    assert parts(line) == [("Two.", "USER.md:7", "verbatim")]


def test_a_heading_is_made_from_the_first_line_that_it_stands_above():
    assert parts(line_of(body("B", **{".halo/USER.md": "\n\nMira."}), "## User Profile")) == [
        ("## User Profile", "USER.md:3", "derived")
    ]


def test_a_line_with_placeholders_has_an_origin_for_each_part():
    files = body("\nI am {{agent_name}}, for {{user_name}} at {{now}}.")
    files[".halo/USER.md"] = "---\nuser_name: Bo\n---\n"
    files[".halo/agents/a/agent.yaml"] += "name: Ada\n"
    line = line_of(files, "I am")
    assert parts(line) == [
        ("I am ", "AGENT.md:2", "verbatim"),
        ("Ada", "agent.yaml:2", "derived"),
        (", for ", "AGENT.md:2", "verbatim"),
        ("Bo", "USER.md:2", "derived"),
        (" at ", "AGENT.md:2", "verbatim"),
        ("{{now}}", "AGENT.md:2", "slot"),
        (".", "AGENT.md:2", "verbatim"),
    ]
    (slot,) = [origin.slot for origin in line.origins if origin.slot is not None]
    assert (slot.name, slot.origin) == ("now", "builtin")


def test_the_text_behind_a_placeholder_goes_on_line_by_line():
    """Also where the placeholder was the end of its line, and where it was a line of its own."""
    files = body("{{now}}\ntwo {{now}}\n{{agent_name}}\nfour\n\nsix")
    found = {line.text: line for line in lines_of(files)}
    assert parts(found["two {{now}}"])[0] == ("two ", "AGENT.md:2", "verbatim")
    assert parts(found["a"])[0][1:] == ("agent.yaml:1", "derived")
    assert parts(found["four"]) == [("four", "AGENT.md:4", "verbatim")]
    assert parts(found["six"]) == [("six", "AGENT.md:6", "verbatim")]


def test_an_entry_of_a_skill_leads_to_the_lines_that_say_it():
    """The id is the folder's, so it stands in no line; the name may be the folder's too."""
    files = {
        ".halo/agents/a/agent.yaml": agent(skills=["s", "t"]),
        ".halo/skills/s/SKILL.md": "---\nlicense: MIT\nname: Sums\ndescription: adds\n---\nBody.\n",
        ".halo/skills/t/SKILL.md": "---\nlicense: MIT\ndescription: takes\n---\nBody.\n",
    }
    found = [
        (line.text.strip(), *(f"{o.source.split('/', 1)[1]}:{o.line}" for o in line.origins))
        for line in lines_of(files)
        if line.segment == "skills" and line.text.startswith("    <")
    ]
    assert found == [
        ("<name>Sums</name>", "skills/s/SKILL.md:3"),
        ("<id>s</id>", "skills/s/SKILL.md:1"),
        ("<description>adds</description>", "skills/s/SKILL.md:4"),
        ("<name>t</name>", "skills/t/SKILL.md:1"),
        ("<id>t</id>", "skills/t/SKILL.md:1"),
        ("<description>takes</description>", "skills/t/SKILL.md:3"),
    ]


def test_an_empty_line_has_an_origin_too():
    before, empty, after = lines_of(body("one\n\nthree"))[:3]
    assert (before.text, empty.text, after.text) == ("one", "", "three")
    assert parts(empty) == [("", "AGENT.md:2", "verbatim")]


def test_the_rule_between_sections_belongs_to_the_section_below():
    (rule,) = [line for line in lines_of(body("B", **{".halo/INSTRUCTIONS.md": "R"})) if line.text == "---"]
    assert (rule.segment, rule.origins[0].how) == ("instructions", "derived")


def test_what_is_hidden_is_said_of_the_layer_that_hides_it():
    """And not of a value that another file put into the same segment."""
    files = body(
        "{{user_name}} rules.", **{".halo/INSTRUCTIONS.md": "mine", "global:INSTRUCTIONS.md": "theirs"}
    )
    files[".halo/USER.md"] = "---\nuser_name: Bo\n---\n"
    files["global:agents/a/AGENT.md"] = "other"
    assert line_of(files, "mine").origins[0].hides == ("global:INSTRUCTIONS.md",)
    name, rest = line_of(files, "Bo rules.").origins
    assert (name.hides, rest.hides) == ((), ("global:agents/a",))


def test_the_environment_comes_from_the_rules_of_composition():
    lead, slot = lines_of(body("B"))[-1].origins
    assert (lead.source, lead.how) == ("halo:compiler", "derived")
    assert (slot.source, slot.how, slot.slot.name) == ("halo:compiler", "slot", "workspace_root")


def every_target(files):
    source = tree(files)
    for target in all_targets(source):
        try:
            yield source, target, compile_target(source, target)
        except UnknownNameError:
            assert not isinstance(target, AgentTarget)  # the rules of a directory whose file is blank


@FEW
@given(workspaces())
def test_every_line_of_every_prompt_has_origins_that_make_it_up(files):
    for _, _, result in every_target(files):
        lines = prompt_lines(result.prompt, result.manifest)
        assert "".join(f"{line.text}\n" for line in lines) == result.prompt
        assert [line.number for line in lines] == list(range(1, len(lines) + 1))
        for line in lines:
            assert line.origins
            assert "".join(origin.text for origin in line.origins) == line.text


@FEW
@given(workspaces())
def test_the_line_of_a_verbatim_origin_holds_its_text(files):
    for source, _, result in every_target(files):
        for line in prompt_lines(result.prompt, result.manifest):
            for origin in line.origins:
                if origin.how == "verbatim":
                    text = canonical_text(source.read(origin.source), origin.source)
                    assert origin.text in text.split("\n")[origin.line - 1]


@FEW
@given(workspaces())
def test_every_slot_is_an_origin_of_the_line_it_stands_in(files):
    for _, _, result in every_target(files):
        found = {
            origin.slot
            for line in prompt_lines(result.prompt, result.manifest)
            for origin in line.origins
            if origin.how == "slot"
        }
        assert found == set(result.manifest.slots)
