"""What a report says of rounds and estimates that nobody scored."""

from fedaudit.attribution import report
from fedaudit.attribution.scores import RoundScores, Scores


def scores(absent, count=4, rounds=(1, 2, 3, 5)):
    """Return scores of `count` clients without marks; `absent` names rounds by client."""
    names = tuple(f"c{n}" for n in range(count))
    return Scores(
        run="r", base="b", aggregation="fedit", clients=names, marks={}, dimension=9,
        rounds=tuple(
            RoundScores(
                round=number,
                reference={},
                clients={name: {} for name in names if number not in absent.get(name, ())},
            )
            for number in rounds
        ),
    )  # fmt: skip


def test_each_clients_missing_rounds_are_listed():
    found = scores({"c0": (2,), "c1": (1, 2, 3), "c2": (2, 5), "c3": (1, 2, 3, 5)})
    assert report.caveats(found) == [
        "rounds without scores: 4",
        "rounds without an estimate of a client, which took no part in them or was left out: "
        "c0 in 2; c1 in 1 to 3; c2 in 2, 5",
    ]
    assert report.caveats(scores({}, rounds=(1, 2))) == []


def test_a_limit_stays_short_with_many_clients():
    found = scores({f"c{n}": (1,) for n in range(100)}, count=100, rounds=(1, 2))
    [limit] = report.caveats(found)
    assert limit.endswith("c19 in 1; and of 80 more")
