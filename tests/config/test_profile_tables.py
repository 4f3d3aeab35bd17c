"""Short forms of a profile: what a matrix and a table of figures are written out to."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import InputError
from fedaudit.config.profile import Published, Variant, load, parse
from fedaudit.config.profile_tables import expand_figures, expand_study

HEAD = 'name = "mine"\n[scale.nano]\nclients = 2\n[scale.paper]\n'

MATRIX = """
[[study]]
name = "summary"
simulate = { records = { tasks = ["summary"] } }
scale.nano = { rounds = 15 }
scale.paper = { data = "summary.jsonl" }
memorize = {}
quick = true

[[study]]
quick = false
[study.matrix]
base = ["summary"]
change."prefix 10".memorize = { prefix_length = 10 }
change."prefix 100" = { memorize = { prefix_length = 100 }, only = "paper" }
exceptions."summary, prefix 10".quick = true

[[study]]
simulate = { clients = 50 }
[study.matrix]
join = "-"
base.small.simulate = { rounds = 1 }
base.large.simulate = { rounds = 9 }
change."" = {}
change.prox.simulate.aggregation = "fedprox"
change.late = { base = ["large"], round = 3 }
"""


def study(text):
    return parse(tomllib.loads(HEAD + text)).study


def test_a_matrix_makes_each_change_on_each_base_where_it_stands():
    tasks = {"records": {"tasks": ["summary"]}}
    paper = {"data": "summary.jsonl"}
    assert study(MATRIX) == (
        Variant(
            name="summary",
            simulate=tasks,
            scale={"nano": {"rounds": 15}, "paper": paper},
            memorize={},
            quick=True,
        ),
        Variant(
            name="summary, prefix 10",
            simulate=tasks,
            scale={"nano": {"rounds": 15}, "paper": paper},
            memorize={"prefix_length": 10},
            quick=True,
        ),
        # Run at one scale only, it has nothing to say of the other.
        Variant(
            name="summary, prefix 100",
            simulate=tasks,
            scale={"paper": paper},
            memorize={"prefix_length": 100},
            only="paper",
        ),
        Variant(name="small", simulate={"clients": 50, "rounds": 1}),
        Variant(name="large", simulate={"clients": 50, "rounds": 9}),
        Variant(name="small-prox", simulate={"clients": 50, "rounds": 1, "aggregation": "fedprox"}),
        Variant(name="large-prox", simulate={"clients": 50, "rounds": 9, "aggregation": "fedprox"}),
        Variant(name="large-late", simulate={"clients": 50, "rounds": 9}, round=3),
    )


def test_a_matrix_may_list_all_changes_of_a_base_first():
    text = '[[study]]\n[study.matrix]\norder = "base"\nbase = { a = {}, b = {} }\n'
    names = [one.name for one in study(f"{text}change = {{ x = {{}}, y = {{ base = ['b'] }} }}")]
    assert names == ["a, x", "b, x", "b, y"]


def test_changes_without_a_base_are_variants_that_share_settings():
    text = '[[study]]\nattacks = ["verbatim"]\n[study.matrix.change]\na = {}\nb.round = 1\n'
    assert study(text) == (
        Variant(name="a", attacks=("verbatim",)),
        Variant(name="b", attacks=("verbatim",), round=1),
    )


def test_everyone_against_everyone_is_no_matrix_of_variants():
    assert study('[[study]]\nname = "pairs"\nmatrix = true\n')[0].matrix is True


WORDS = st.text("abc", min_size=1, max_size=3)


@given(
    bases=st.lists(WORDS, min_size=1, max_size=4, unique=True),
    changes=st.lists(WORDS, min_size=1, max_size=4, unique=True),
    order=st.sampled_from(["base", "change"]),
)
def test_a_matrix_has_every_pair_once_whatever_the_order(bases, changes, order):
    matrix = {
        "base": {name: {"simulate": {"rounds": at}} for at, name in enumerate(bases)},
        "change": {name: {"trace": at} for at, name in enumerate(changes)},
        "order": order,
    }
    found = {
        one["name"]: (one["simulate"]["rounds"], one["trace"])
        for one in expand_study([{"matrix": matrix}])
    }
    assert found == {
        f"{base}, {change}": (at, number)
        for at, base in enumerate(bases)
        for number, change in enumerate(changes)
    }


TABLE = """
[[figures]]
source = "table 3"
scope = { source = "tuned", category = "all" }
columns = { intra = "mr_intra", inter = "mr_inter" }
rows = [["summary, top-p", "summary", 0.00525, 0.0005], ["summary, top-k", "other", 1, 0.00046]]

[[figures]]
source = "table 7"
what = "{row}, {column}"
metric = "accuracy"
plugin = "ranking"
variant = "gated {row}"
scope = { source = "tuned" }
columns."right key".scope = { key = "right" }
columns."no key" = { metric = "loss", variant = "{variant}, {column}", scope = { key = "none" } }
rows = [["{column}", { candidates = 50 }, 0.5, 0.25]]

[[figures]]
source = "table 9"
what = "perplexity"
metric = "perplexity"
value = 6.3

[[figures]]
source = "figure 1"
what = "m = {row}: mean"
metric = "z"
rows = [["1", "others-1", 18.5], ["2", "others-2", 16]]
"""


def test_a_table_of_figures_is_written_out_row_by_row():
    tuned = {"source": "tuned", "category": "all"}

    def third(what, metric, value, variant):
        return Published(
            source="table 3", what=what, metric=metric, value=value, variant=variant, scope=tuned
        )

    assert parse(tomllib.loads(HEAD + TABLE)).figures == (
        third("summary, top-p: intra", "mr_intra", 0.00525, "summary"),
        third("summary, top-p: inter", "mr_inter", 0.0005, "summary"),
        third("summary, top-k: intra", "mr_intra", 1.0, "other"),
        third("summary, top-k: inter", "mr_inter", 0.00046, "other"),
        Published(
            source="table 7",
            what="{column}, right key",
            metric="accuracy",
            value=0.5,
            variant="gated {column}",
            plugin="ranking",
            scope={"source": "tuned", "candidates": 50, "key": "right"},
        ),
        Published(
            source="table 7",
            what="{column}, no key",
            metric="loss",
            value=0.25,
            variant="gated {column}, no key",
            plugin="ranking",
            scope={"source": "tuned", "candidates": 50, "key": "none"},
        ),
        Published(source="table 9", what="perplexity", metric="perplexity", value=6.3),
        Published(
            source="figure 1", what="m = 1: mean", metric="z", value=18.5, variant="others-1"
        ),
        Published(
            source="figure 1", what="m = 2: mean", metric="z", value=16.0, variant="others-2"
        ),
    )


@given(
    rows=st.lists(st.lists(st.floats(0, 1), min_size=2, max_size=2), max_size=5),
    split=st.integers(0, 5),
)
def test_a_table_cut_in_two_has_the_same_figures(rows, split):
    table = {"source": "table 1", "columns": {"a": "x", "b": "y"}}
    named = [[str(at), "v", *values] for at, values in enumerate(rows)]
    parts = [{**table, "rows": named[:split]}, {**table, "rows": named[split:]}]
    whole = expand_figures([{**table, "rows": named}])
    assert expand_figures(parts) == whole
    assert [one["value"] for one in whole] == [value for values in rows for value in values]


ONE = "[[study]]\n[study.matrix]\n"
FIGURES = '[[figures]]\nsource = "table 3"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{ONE}chang = {{}}", r"option of study\.matrix.* Did you mean 'change'"),
        (f"{ONE}join = '-'", "study.matrix: .*change"),
        (f"{ONE}change = 5", r"study\.matrix\.change takes"),
        (f"{ONE}change.a = 5", r"study\.matrix\.change\.a takes"),
        (f"{ONE}change.a.atacks = []", "option of study.* Did you mean 'attacks'"),
        (f"{ONE}change.a.name = 'b'", "named by their base and change alone"),
        (f"{ONE}change.'' = {{}}", "named by their base and change alone"),
        ("[[study]]\nname = 'b'\n[study.matrix]\nchange.a = {}", "base and change alone"),
        (f"{ONE}base = ['b']\nchange.a = {{}}", "No variant above its study.matrix .*'b'"),
        (f"{ONE}base.b = {{}}\nchange.a.base = ['c']", r"base of study\.matrix\.change\.a .*'c'"),
        (f"{ONE}change.a.base = ['c']", r"base of study\.matrix\.change\.a .*'c'"),
        (f"{ONE}change.a = {{}}\nexceptions.b = {{}}", r"study\.matrix\.exceptions .*'b'"),
        (f"{ONE}base = {{ a = {{}}, 'a, b' = {{}} }}\nchange = {{ c = {{}}, 'b, c' = {{}} }}",
         "two variants are named 'a, b, c'"),
        (f"{ONE}change.a = {{}}\n[[study]]\nname = 'a'", "two variants of the study are named 'a'"),
        (f"{ONE}order = 'name'\nchange.a = {{}}", r"study\.matrix\.order.*'name'"),
        (f"{FIGURES}columns.a = {{ metrc = 'x' }}\nrows = []", "Did you mean 'metric'"),
        (f"{FIGURES}colums.a = 'x'\nrows = []", "Did you mean 'columns'"),
        (f"{FIGURES}columns.a = 'x'\nrows = [['r', 'v']]", "row 'r' has 0 values for 1 column"),
        (f"{FIGURES}columns.a = 'x'\nrows = [['r', 'v', 1, 2]]", "table 3: row 'r' has 2 values"),
        (f"{FIGURES}columns.a = 'x'\nrows = [['r', 1]]", r"begins with its name and its variant"),
        (f"{FIGURES}variant = 'v'\nmetric = 'm'\nrows = [[1, 2]]", r"begins with its name, not"),
        (f"{FIGURES}columns.a = 'x'\nrows = [['r', 'v', '-']]", "figures.value takes float"),
        (f"{FIGURES}columns.a = 'x'\nrows = [5]", r"figures\.rows takes"),
        (f"{FIGURES}rows = [['r', 'v', 1]]", "figures of table 3: no metric"),
    ],
)  # fmt: skip
def test_a_broken_table_or_matrix_is_one_clear_line(tmp_path, text, message):
    path = tmp_path / "broken.toml"
    path.write_text(HEAD + text)
    with pytest.raises(InputError, match=message) as caught:
        load(str(path))
    assert "\n" not in str(caught.value)
    assert "broken.toml" in str(caught.value)
