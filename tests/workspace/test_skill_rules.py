"""The Agent Skills specification to the letter, and the characters that nobody sees."""

import pytest
from making import skill, tree

from halo.compiler.tokens import estimate
from halo.workspace.hidden import find_hidden
from halo.workspace.links import find_links, relative_path
from halo.workspace.skills.reading import read_skill
from halo.workspace.skills.specification import check_skill

SOUND = "---\nname: {name}\ndescription: Adds up numbers.\n{more}---\n\n{body}\n"


def findings(text, name="sums", **files):
    """Code, line and message of what is found about the skill `name`."""
    layers = tree({f".halo/skills/{name}/SKILL.md": text, **files})
    found = check_skill(layers, read_skill(layers, name), estimate)
    assert all(d.source == f"workspace:.halo/skills/{name}/SKILL.md" for d in found)
    return [(d.code, d.line, d.message) for d in found]


def codes(name="sums", more="", body="Add up.", folder=None, **files):
    text = SOUND.format(name=name, more=more, body=body)
    return [(code, line) for code, line, _ in findings(text, folder or name, **files)]


class TestSpecification:
    def test_a_sound_skill(self):
        more = (
            "license: MIT\ncompatibility: Needs git.\nallowed-tools: Bash(git:*, gh:*) Read\n"
            "metadata:\n  author: mira\n  version: '1.0'\nrequires-access: workspace\n"
        )
        assert codes(more=more) == []

    @pytest.mark.parametrize("name", ["a", "pdf", "pdf-2", "a" * 64])
    def test_names(self, name):
        assert codes(name) == []

    @pytest.mark.parametrize(
        ("name", "folder", "findings"),
        [
            ("sums", "other", 1),
            ("Sums", "Sums", 1),
            ("sums_up", "sums_up", 1),
            ("sums--up", "sums--up", 1),
            ("sums-", "sums-", 1),
            ("Summe\u00fc", "sums", 2),
            ("a" * 65, "a" * 65, 1),
            ("", "sums", 1),
            ('"a b"', "sums", 2),
        ],
    )
    def test_names_that_break_it(self, name, folder, findings):
        assert codes(name, folder=folder) == [("skill-name", 2)] * findings

    def test_no_front_matter_at_all(self):
        assert [(code, line) for code, line, _ in findings("Add up.\n")] == [
            ("skill-name", 1),
            ("skill-without-description", 1),
        ]

    @pytest.mark.parametrize(("length", "wrong"), [(1024, False), (1025, True)])
    def test_descriptions(self, length, wrong):
        text = f"---\nname: sums\ndescription: {'d' * length}\n---\nx\n"
        assert [c for c, _, _ in findings(text)] == ["skill-description"] * wrong

    def test_unknown_keys_each_at_its_line(self):
        assert codes(more="homepage: x\nversion: 1\n") == [("skill-keys", 4), ("skill-keys", 5)]

    @pytest.mark.parametrize(
        "more",
        [
            "license: [MIT]\n",
            "compatibility: [git]\n",
            "compatibility: ''\n",
            f"compatibility: {'c' * 501}\n",
            "metadata:\n",
            "metadata: {a: 1}\n",
            "metadata: {a: {b: c}}\n",
            "metadata: words\n",
            "allowed-tools: [Read]\n",
            "allowed-tools: Read, Write\n",
        ],
    )
    def test_values(self, more):
        assert codes(more=more) == [("skill-value", 4)]

    def test_what_loading_tolerates_is_said(self):
        text = "---\nname: sums\ndescription: Use when: asked\n---\nx\n"
        assert [(c, line) for c, line, _ in findings(text)] == [("skill-front-matter", 3)]

    def test_the_name_of_the_file(self):
        layers = tree({".halo/skills/s/skill.md": skill("x", name="s", description="d")})
        found = check_skill(layers, read_skill(layers, "s"), estimate)
        assert [d.code for d in found] == ["skill-file-name"]

    @pytest.mark.parametrize(("lines", "wrong"), [(499, False), (500, True)])
    def test_a_body_of_many_lines(self, lines, wrong):
        assert codes(body="\n".join(["x"] * lines)) == [("skill-length", 6)] * wrong

    @pytest.mark.parametrize(("tokens", "wrong"), [(4990, False), (5000, True)])
    def test_a_body_of_many_tokens(self, tokens, wrong):
        assert codes(body="x" * int(tokens * 3.6)) == [("skill-length", 6)] * wrong


class TestLinks:
    @pytest.mark.parametrize(
        "link",
        ["ref/a.md", "./ref/a.md", "ref/a.md#part", "ref", "<ref/b c.md>", "ref/b%20c.md", "#top", "/abs",
         "https://example.com/x", "mailto:x@example.com"],
    )  # fmt: skip
    def test_those_that_lead_somewhere_or_elsewhere(self, link):
        files = {".halo/skills/sums/ref/a.md": "", ".halo/skills/sums/ref/b c.md": ""}
        assert codes(body=f"Read [this]({link}).", **files) == []

    @pytest.mark.parametrize("link", ["ref/a.md", "../other/SKILL.md", "ref/../../x", "a%00b"])
    def test_those_that_do_not(self, link):
        assert codes(body=f"Read\n[this]({link})\nand ![that]({link}).") == [
            ("skill-link", 7),
            ("skill-link", 8),
        ]

    def test_code_is_no_link(self):
        assert codes(body="`[a](b.md)`\n\n```\n[a](b.md)\n```\n\n    [a](b.md)") == []

    def test_addresses_and_lines(self):
        assert list(find_links("a\n[b](c)\n\n> ![d](e%20f 'title')\n\n[g]\n\n[g]: h")) == [
            ("c", 1),
            ("e f", 3),
            ("h", 5),
        ]
        assert [relative_path(a) for a in ("a#b", "a?b", "#b", "/a", "c:a", "//a")] == [
            "a",
            "a",
            "",
            "",
            "",
            "",
        ]


class TestHidden:
    @pytest.mark.parametrize(
        ("char", "name"),
        [
            ("\u200b", "U+200B ZERO WIDTH SPACE"),
            ("\u202e", "U+202E RIGHT-TO-LEFT OVERRIDE"),
            ("\u2066", "U+2066 LEFT-TO-RIGHT ISOLATE"),
            ("\u200d", "U+200D ZERO WIDTH JOINER"),
            ("\u00ad", "U+00AD SOFT HYPHEN"),
            ("\ufeff", "U+FEFF ZERO WIDTH NO-BREAK SPACE"),
            ("\u2028", "U+2028 LINE SEPARATOR"),
            ("\u3164", "U+3164 HANGUL FILLER"),
            ("\U000e0041", "U+E0041 TAG LATIN CAPITAL LETTER A"),
            ("\U000e0100", "U+E0100 VARIATION SELECTOR-17"),
            ("\x1b", "U+001B control character"),
            ("\x85", "U+0085 control character"),
        ],
    )
    def test_what_nobody_sees(self, char, name):
        assert [tuple(h) for h in find_hidden(f"one\ntwo {char}three\n\nfour{char}")] == [
            (2, name),
            (4, name),
        ]

    @pytest.mark.parametrize(
        "text",
        [
            "plain\ttext\n",
            "\U0001f468\u200d\U0001f469\u200d\U0001f467",  # a family
            "\u2764\ufe0f\u200d\U0001f525",  # a heart on fire
            "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",  # the flag of Scotland
            "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian
            "caf\u00e9 \u4e2d\u6587 \u00a0 \u2014",
        ],
    )
    def test_what_scripts_and_emoji_need(self, text):
        assert list(find_hidden(text)) == []

    def test_in_a_skill_each_line_once(self):
        body = "a\u200bb\u200bc\u202ed"
        assert [(code, line) for code, line in codes(body=body)] == [("hidden-characters", 6)]
        text = "---\nname: sums\ndescription: Adds\u200b up.\n---\nx\n"
        assert [(c, line) for c, line, _ in findings(text)] == [("hidden-characters", 3)]
