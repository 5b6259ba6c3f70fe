"""YAML errors name file and line; what would surprise an author does not happen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo.errors import LayerError
from halo.workspace.agents import AgentConfig
from halo.workspace.conversion import convert
from halo.workspace.settings.params import ParamConfig
from halo.workspace.yamldoc import load_yaml


def read(text, kind, first_line):
    document = load_yaml(text, "x.yaml", first_line)
    return document if kind is None else convert(document, kind)


def fails(text, kind=None, first_line=1):
    with pytest.raises(LayerError) as caught:
        read(text, kind, first_line)
    assert caught.value.file == "x.yaml"
    return caught.value.line, caught.value.message, caught.value.hint


class TestSyntax:
    @pytest.mark.parametrize(
        ("text", "line"),
        [
            ("a: 1\nb: [1\nc: 2\n", 3),
            ("a: 1\n b: 2\n", 2),
            ("a: 1\nb: 'x\n", 2),  # it ends too early: the last line
            ("a: b: c\n", 1),
            ("a: 1\nb: *nowhere\n", 2),
            ("a: 1\n\tb: 2\n", 2),
            ("a: 1\n--- \nb: 2\n", 2),
            ("a: 1\nb: !thing x\n", 2),
            ("a: 1\nb: !!python/object/apply:os.getcwd []\n", 2),
            ("é: ü\nb: \x01\n", 2),
            ("a: 1\nb: \x80\n", 2),
        ],
    )
    def test_the_line_of_what_is_broken(self, text, line):
        found, message, _ = fails(text)
        assert (found, message[:15]) == (line, "not valid YAML:")
        assert "\n" not in message

    def test_lines_count_from_where_the_document_starts(self):
        assert fails("a: 1\na: 2\n", first_line=10)[0] == 11
        assert fails("a: [\n", first_line=10)[0] == 10

    @pytest.mark.parametrize(
        "text", ["a: !!bool maybe", "a: !!int ''", "a: !!int x", "a: !!float ''", "a: !!binary x"]
    )
    def test_a_tag_that_does_not_fit_is_an_error_not_a_crash(self, text):
        assert fails(text)[0] == 1

    @given(st.text(alphabet=st.sampled_from("ab:[]{}&*!#|>-?'\"\n %@`,<1."), max_size=40))
    def test_any_text_is_a_document_or_a_layer_error(self, text):
        error = None
        try:
            load_yaml(text, "x.yaml")
        except LayerError as caught:
            error = caught
        assert error is None or (error.file == "x.yaml" and 1 <= error.line <= text.count("\n") + 1)


class TestDuplicates:
    def test_a_key_that_stands_twice(self):
        """PyYAML would silently take the last."""
        assert fails("a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\n")[:2] == (5, "the key 'c' stands twice")

    def test_the_same_key_in_two_maps_is_fine(self):
        assert load_yaml("a: {k: 1}\nb: {k: 2}\n", "x").value == {"a": {"k": 1}, "b": {"k": 2}}

    def test_merge_keys_work(self):
        document = load_yaml("a: &a {k: 1}\nb:\n  <<: *a\n  l: 2\n", "x")
        assert document.value["b"] == {"k": 1, "l": 2}


class TestBombs:
    LAUGHS = "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9)
    )

    @pytest.mark.parametrize(
        "text",
        [
            "a: &a [x, x, x, x, x, x, x, x, x]\n" + LAUGHS,
            "a: &a {k: 1}\n" + LAUGHS.replace("[", "{<<: [").replace("]", "]}"),
            "a: &a [*a]\n",
            "a: &a {k: *a}\n",
            "[" * 62 + "]" * 62,
            "[" * 5_000 + "]" * 5_000,
            "[" * 200_000,
            "{a: " * 200_000,
            "- " * 200_000,
            "[" + "x, " * 60_000 + "]",
        ],
        ids=[
            "aliases",
            "merges",
            "self",
            "self-map",
            "62-deep",
            "5000-deep",
            "unclosed",
            "maps",
            "dashes",
            "wide",
        ],
    )
    def test_they_are_refused(self, text):
        fails(text)

    def test_what_people_write_is_not(self):
        load_yaml("[" * 60 + "]" * 60, "x")
        load_yaml("[" + "x, " * 40_000 + "]", "x")
        load_yaml("a: &a [1, 2]\n" + "".join(f"k{i}: *a\n" for i in range(100)), "x")


class TestValues:
    @pytest.mark.parametrize(
        "text", ["2024-01-01", "2024-01-01T10:00:00Z", "2024-13-45", "!!timestamp 2024-01-01"]
    )
    def test_dates_stay_text(self, text):
        assert load_yaml(f"when: {text}\n", "x").value == {"when": text.removeprefix("!!timestamp ")}

    def test_a_key_is_the_text_that_stands_there(self):
        """Whatever it would mean as a value: settings are looked up by what their author reads."""
        assert load_yaml("1: a\ntrue: {~: b}\n1.50: {x: &a {2: c}}\nd: {<<: *a}\n", "x").value == {
            "1": "a",
            "true": {"~": "b"},
            "1.50": {"x": {"2": "c"}},
            "d": {"2": "c"},
        }

    def test_an_empty_document_is_none(self):
        for text in ("", "\n", "# remark\n", "---\n"):
            assert load_yaml(text, "x").value is None


class TestConversion:
    MODEL = "model: {provider: p, id: m}\n"

    def test_an_unknown_key_is_answered_with_near_misses(self):
        text = "name: x\nmodel:\n  provider: p\n  id: m\n  temprature: 0\n"
        assert fails(text, AgentConfig) == (5, "unknown key 'temprature'", "did you mean 'temperature'?")
        assert fails(self.MODEL + "desciption: x\n", AgentConfig) == (
            2,
            "unknown key 'desciption'",
            "did you mean 'description'?",
        )

    def test_also_inside_lists(self):
        text = "description: x\nparams:\n  - key: a\n  - key: b\n    typ: string\n"
        assert fails(text, ParamConfig) == (5, "unknown key 'typ'", "did you mean 'type'?")

    def test_a_key_like_nothing_is_answered_with_what_there_is(self):
        hint = fails("zzz: 1\n", ParamConfig)[2]
        assert hint == "known: description, params, secrets"

    @pytest.mark.parametrize(
        ("text", "kind", "line", "message"),
        [
            (
                "model: {provider: p, id: m}\ntools: grep\n",
                AgentConfig,
                2,
                "tools: expected a list, got text",
            ),
            (
                "model: {provider: p, id: m}\ntools:\n- grep\n- 7\n",
                AgentConfig,
                4,
                "tools.1: expected text, got a whole number",
            ),
            (
                "model:\n  provider: p\n  id: m\n  seed: x\n",
                AgentConfig,
                4,
                "model.seed: expected a whole number, got text",
            ),
            ("model:\n  provider: p\n", AgentConfig, 1, "model: the key 'id' is missing"),
            ("name: x\n", AgentConfig, 1, "the document: the key 'model' is missing"),
            ("- x\n", AgentConfig, 1, "the document: expected a map, got a list"),
            ("", AgentConfig, 1, "the document: expected a map, got nothing"),
            (
                "params:\n- key: k\n  type: strin\n",
                ParamConfig,
                3,
                "params.0.type: expected string, int, float, boolean or enum, got 'strin'",
            ),
            (MODEL + "priority: x\n", AgentConfig, 2, "priority: expected a number, got text"),
            (MODEL + "internal: 1\n", AgentConfig, 2, "internal: expected true or false, got a whole number"),
            ("model: 1\n", AgentConfig, 1, "model: expected text or a map, got a whole number"),
            (
                MODEL + "context: {compress_at: 2}\n",
                AgentConfig,
                2,
                "context.compress_at: expected a number of at most 1",
            ),
            (
                "model: {provider: p, id: m, tool_mode: x}\n",
                AgentConfig,
                1,
                "model.tool_mode: expected native or schema, got 'x'",
            ),
            (
                "params: [{key: k, default: []}]\n",
                ParamConfig,
                1,
                "params.0.default: expected true or false, a number or text, got a list",
            ),
        ],
    )
    def test_a_wrong_type_is_named_at_its_line(self, text, kind, line, message):
        assert fails(text, kind)[:2] == (line, message)

    def test_an_empty_file_may_stand_for_a_default(self):
        empty = ParamConfig()
        assert convert(load_yaml("# nothing\n", "x"), ParamConfig, empty=empty) is empty


def test_every_key_and_item_has_its_line():
    document = load_yaml("a: 1\nb:\n  - x\n  - k: v\n    l:\n      m\n", "x", first_line=5)
    assert document.line("a") == 5
    assert document.line("b", 0) == 7
    assert document.line("b", 1, "l") == 9
    assert document.line("b", 1, "nowhere") == 8
    assert document.line("nowhere") == 5


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12:30", "12:30"),
        ("no", "no"),
        ("on", "on"),
        ("1_000", "1_000"),
        ("2026-11-30", "2026-11-30"),
        ("010", 10),
        ("0o17", 15),
        ("0x1f", 31),
        ("-3", -3),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1.", 1.0),
        ("True", True),
        ("~", None),
        ("", None),
        ("'12'", "12"),
    ],
)
def test_plain_scalars_mean_what_yaml_1_2_says(text, value):
    """No `no` that is false, no `12:30` that is 750, no `010` that is 8."""
    found = load_yaml(f"k: {text}\n", "f").value["k"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        "a0: &a0 {k: 1}\n" + "".join(f"a{i}: &a{i} {{<<: *a{i - 1}, <<: *a{i - 1}}}\n" for i in range(1, 28)),
        "a0: &a0 {k: 1}\n" + "".join(f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}\n" for i in range(1, 28)),
        "? [&a0 [x], &a1 [*a0, *a0], &a2 [*a1, *a1]]\n: y\n",
        "{a: b}: c\n",
    ],
)
def test_bombs_of_merges_and_keys_are_refused_at_once(text):
    with pytest.raises(LayerError, match=r"stands twice|too large|plain text"):
        load_yaml(text, "f")


class TestKept:
    """Small documents are parsed once, however many teams their agent is on."""

    def test_the_same_text_is_the_same_document(self):
        assert load_yaml("a: [1]\n", "x.yaml") is load_yaml("a: [1]\n", "x.yaml")

    def test_another_source_or_place_in_it_is_another(self):
        """Errors name both."""
        one = load_yaml("a: [2]\n", "x.yaml")
        assert load_yaml("a: [2]\n", "y.yaml").source == "y.yaml"
        assert load_yaml("a: [2]\n", "x.yaml", 7).line("a") == 7
        assert one.line("a") == 1

    def test_an_error_is_said_each_time(self):
        assert fails("a: [") == fails("a: [")

    @pytest.mark.parametrize(
        "text", ["a: " + "x" * 5_000 + "\n", "".join(f"k{i}: 1\n" for i in range(300))], ids=["long", "many"]
    )
    def test_large_ones_are_not_kept(self, text):
        assert load_yaml(text, "x.yaml") is not load_yaml(text, "x.yaml")

    def test_only_so_many_are_kept(self):
        """The oldest goes first."""
        first = load_yaml("a: first\n", "x.yaml")
        for i in range(300):
            load_yaml(f"a: {i}\n", "x.yaml")
        assert load_yaml("a: first\n", "x.yaml") is not first
        assert load_yaml("a: 299\n", "x.yaml") is load_yaml("a: 299\n", "x.yaml")
