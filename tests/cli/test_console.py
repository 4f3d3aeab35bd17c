"""What commands show of their progress."""

import sys
import time

from fedaudit.cli.console import print_item, training_progress
from fedaudit.simulation.context import Event


def test_time_left_is_counted_from_the_first_training(monkeypatch, capsys):
    """Nothing is known after one training; then two trainings took 6 s, so that 3 take 9 s."""
    moments = iter((100.0, 106.0))
    events = [(1, 1), (2, 1), (3, 2)]  # trainings that are done, and the round
    with training_progress(quiet=False) as hear:
        monkeypatch.setattr(time, "monotonic", lambda: next(moments))
        for done, number in events:
            hear(Event(done=done, total=6, model_name="c0", round=number, loss=2.0))
    assert capsys.readouterr().err.splitlines() == [
        "round 1: 1 of 6 trainings, c0 loss 2.000",
        "round 2: 3 of 6 trainings, c0 loss 2.000, about 9 s left",
    ]


def test_of_a_resumed_federation_only_the_new_trainings_count(monkeypatch, capsys):
    """Four trainings of ten were there; the fifth starts the clock, the sixth took 7 s: 28 s."""
    moments = iter((50.0, 57.0))
    with training_progress(quiet=False) as hear:
        monkeypatch.setattr(time, "monotonic", lambda: next(moments))
        for done, number in ((5, 3), (6, 4)):
            hear(Event(done=done, total=10, model_name="c0", round=number, loss=2.0))
    assert capsys.readouterr().err.splitlines()[1].endswith("about 28 s left")


def test_an_item_is_wrapped_on_a_terminal_and_whole_in_a_pipe(monkeypatch, capsys):
    text = "Ask ordinary requests and count the answers."
    print_item("benign  ", text)
    assert capsys.readouterr().out == f"benign  {text}\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "30")
    print_item("benign  ", text)
    assert capsys.readouterr().out.splitlines() == [
        "benign  Ask ordinary requests",
        "        and count the answers.",
    ]
    print_item("benign  ", "")
    assert capsys.readouterr().out == "benign  \n"
