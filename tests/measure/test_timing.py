"""Turns, clocks, and turns that other work disturbed. No time is asserted."""

from ascender.measure.timing import TimingPlan, best, disturbed, elapsed, interleave

ONCE = TimingPlan(repeats=1, at_least=0.0)


def test_candidates_take_turns():
    order = []
    calls = {name: lambda name=name: order.append(name) for name in "abc"}
    times = interleave(calls, TimingPlan(repeats=3, at_least=0.0))
    assert order == list("abcabcabc")
    assert {len(t) for t in times.values()} == {3}


def test_a_call_may_have_a_clock_of_its_own():
    assert best({"a": lambda: 7.5, "b": lambda: 2.5}, ONCE, clock=lambda call: call()) == {
        "a": 7.5,
        "b": 2.5,
    }


def test_best_is_the_shortest_turn():
    assert best({}, ONCE) == {}
    assert set(best({"a": lambda: None}, ONCE)) == {"a"}


def test_a_slow_call_sits_out_and_a_quick_one_does_not():
    plan = TimingPlan(repeats=9, at_most=30.0)
    assert not plan.sits_out([], 10)
    assert not plan.sits_out([5.0], 10)  # one more turn, though its share is 3 s
    assert plan.sits_out([11.0], 10)
    assert plan.sits_out([5.0, 5.0], 10)
    assert not plan.sits_out([0.1, 0.1], 10)


def test_rounds_go_on_for_a_while_where_calls_are_short():
    plan = TimingPlan(repeats=2, at_least=1.0)
    assert plan.goes_on(5, 0.5)
    assert not plan.goes_on(5, 1.5)
    assert plan.goes_on(1, 99.0)


def test_a_baseline_has_a_median():
    calls = {"a": lambda: 1.0, "b": lambda: 2.0}
    turns = interleave(calls, ONCE, clock=lambda call: call(), baselines=("b",))
    assert turns == {"a": [1.0], "b": [2.0, 2.0, 2.0]}


def test_a_slow_turn_is_noticed():
    assert disturbed([1.0, 1.9, 1.0]) is None
    assert disturbed([1.0, 129.0, 1.1]) == (
        "a turn took 129 s, more than twice the median of 1.1 s"
    )
    assert disturbed([1e-4, 5e-3, 1e-4]) is None, "short turns are slow by chance"


def test_the_clock_may_be_another():
    ticks = iter([3.0, 5.5])
    assert elapsed(lambda: None, lambda: next(ticks)) == 2.5
