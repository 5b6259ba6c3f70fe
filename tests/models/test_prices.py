"""What a call costs, by the price that holds on its day."""

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from making import tree

from halo.models.prices import Cost, cost_of, price_on
from halo.records.usage import Usage
from halo.workspace.models.catalogue import Price, prices_of

OLD = Price(date(2026, 1, 1), "USD", input=10, output=50, cache_read=1, cache_write=12.5, cache_write_1h=20)
NEW = Price(date(2026, 6, 1), "USD", input=2, output=8)
MILLION = Usage(uncached=1_000_000, written=1_000_000, read=1_000_000, output=1_000_000)


@pytest.mark.parametrize(
    ("day", "price"),
    [
        (date(2025, 12, 31), None),
        (date(2026, 1, 1), OLD),
        (date(2026, 5, 31), OLD),
        (date(2026, 6, 1), NEW),
        (date(2030, 1, 1), NEW),
    ],
)
def test_the_newest_price_that_begins_no_later_holds(day, price):
    assert price_on((OLD, NEW), day) is price_on((NEW, OLD), day) is price


def test_each_kind_of_token_has_its_price():
    assert cost_of(MILLION, [OLD], OLD.since) == Cost(10 + 12.5 + 1 + 50, "USD")
    assert cost_of(MILLION, [OLD], OLD.since, "1h") == Cost(10 + 20 + 1 + 50, "USD")
    assert cost_of(MILLION, [OLD], OLD.since, "off") == Cost(10 + 12.5 + 1 + 50, "USD")


def test_what_the_price_does_not_say_costs_as_the_input():
    assert cost_of(MILLION, [NEW], NEW.since, "1h") == Cost(2 + 2 + 2 + 8, "USD")
    half = Price(date(2026, 1, 1), "USD", input=2, output=8, cache_write=2.5)
    assert cost_of(MILLION, [half], half.since, "1h") == Cost(2 + 2.5 + 2 + 8, "USD")


def test_free_is_not_unknown():
    assert cost_of(MILLION, [Price(date(2026, 1, 1), "EUR", input=0, output=0)], date(2026, 1, 1)) == Cost(
        0, "EUR"
    )


def test_without_a_price_nothing_is_known():
    assert cost_of(MILLION, [], date(2026, 1, 1)) is None
    assert cost_of(MILLION, [OLD], date(2025, 12, 31)) is None


amounts = st.floats(0, 1000, allow_nan=False)
tokens = st.integers(0, 10_000_000)
usages = st.builds(Usage, tokens, tokens, tokens, tokens)
days = st.integers(0, 400).map(lambda n: date(2026, 1, 1) + timedelta(n))
prices = st.lists(
    st.builds(
        Price,
        days,
        st.just("USD"),
        amounts,
        amounts,
        st.none() | amounts,
        st.none() | amounts,
        st.none() | amounts,
    ),
    max_size=4,
)


@given(usages, usages, prices, days, st.sampled_from(["off", "5m", "1h"]))
def test_costs_add_up(one, other, listed, day, cache):
    together = cost_of(one + other, listed, day, cache)
    apart = [cost_of(usage, listed, day, cache) for usage in (one, other)]
    if together is None:
        assert apart == [None, None]
    else:
        assert together.amount == pytest.approx(sum(cost.amount for cost in apart))


@given(usages, usages, prices, days)
def test_more_never_costs_less(one, other, listed, day):
    cost, more = cost_of(one, listed, day), cost_of(one + other, listed, day)
    assert cost is more is None or more.amount >= cost.amount >= 0


class TestReading:
    FILE = (
        "name: O\nmodels:\n  m:\n    as_of: 2026-01-02\n    prices:\n"
        "      - {from: 2026-01-01, currency: USD, input: 1, output: 2, cache_write_1h: 2}\n"
        "  bare:\n    as_of: 2026-01-02\n"
    )

    def test_prices_of_a_model(self):
        found = prices_of(tree({".halo/models/deepseek.yaml": self.FILE}), "deepseek", "m")
        assert found == (Price(date(2026, 1, 1), "USD", input=1, output=2, cache_write_1h=2),)

    @pytest.mark.parametrize(
        ("provider", "model"), [("deepseek", "bare"), ("deepseek", "x"), ("gemini", "m")]
    )
    def test_none_are_known(self, provider, model):
        assert prices_of(tree({".halo/models/deepseek.yaml": self.FILE}), provider, model) == ()
