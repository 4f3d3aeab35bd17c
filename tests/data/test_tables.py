"""Tables of records are read as lines of JSON are, and no message shows what a cell holds."""

import csv
import json
import re
import resource
import sys
from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import InputError
from fedaudit.api.templates import template
from fedaudit.data import corpus, tables

FORM = template("fed_pii")


def read(path):
    return list(corpus.read(path, FORM))


@pytest.fixture
def table(tmp_path):
    """Return a function that reads a file of that text."""

    def reading(text, name="records.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read(path)

    return reading


def test_a_row_is_a_record(table):
    found = table('id,Instruction,input,response\n1,Who?,"A, B","Ann\nLee"\n\n2,What?,,x\n')
    assert [(d.id, d.instruction, d.input, d.output) for d in found] == [
        ("1", "Who?", "A, B", "Ann\nLee"),
        ("2", "What?", "", "x"),
    ]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_separators_are_seen(table, separator):
    [only] = table(f"id{separator}text\r\n7{separator}a b\r\n", "records.tsv")
    assert (only.id, only.text) == ("7", "a b")


def test_one_column_is_enough(table):
    assert [d.text for d in table("\ufefftext\nAnn Lee\nBo\n")] == ["Ann Lee", "Bo"]


def test_a_cell_of_spans_or_turns_is_json(table):
    spans = json.dumps([{"start": 0, "end": 3, "label": "PERSON"}])
    [first, second] = table(f'text,pii\nAnn,"{spans.replace(chr(34), chr(34) * 2)}"\nBo,\n')
    assert [(s.start, s.end, s.label) for s in first.pii] == [(0, 3, "PERSON")]
    assert second.pii is None
    talk = json.dumps([{"from": "human", "value": "Who?"}, {"from": "gpt", "value": "Ann"}])
    [said] = table(f'conversations\n"{talk.replace(chr(34), chr(34) * 2)}"\n')
    assert (said.instruction, said.output) == ("Who?", "Ann")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("text,id\nAnn Lee\n", r"line 2: 1 cells under a header of 2\.$"),
        ('text\na\n"b\nc"\nx,y\n', r"line 5: 2 cells under a header of 1\.$"),
        ("Ann Lee,12 Mill Road\n", r"line 1: a header is needed that names the columns"),
        ("", r"line 1: a header is needed"),
        ("text,text\na,b\n", r"the header has 'text' twice\.$"),
        ('text\n"Ann Lee\n', r"line 2: no CSV \(unexpected end of data\)\.$"),
        ("text,pii\nAnn,[PERSON]\n", r"line 2: 'pii' must be a JSON list\.$"),
        ("text,pii\nAnn,[NaN]\n", r"line 2: 'pii' must be a JSON list\.$"),
        ("text\n", r"holds no record"),
        (b"text\n\xff\n", r"is not UTF-8"),
    ],
)
def test_what_is_no_table_is_refused(table, text, says):
    with pytest.raises(InputError, match=says) as refused:
        table(text)
    assert "Ann" not in str(refused.value)
    assert "\n" not in str(refused.value)


CELLS = st.text(st.characters(blacklist_categories=["Cs", "Cc"]), min_size=1).filter(str.strip)


@given(texts=st.lists(CELLS, min_size=1, max_size=5))
def test_what_python_writes_is_read_back(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("table") / "t.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerows([["id", "text"], *([str(n), one] for n, one in enumerate(texts))])
    assert [d.text for d in read(path)] == texts


@pytest.mark.parametrize("name", ["own.jsonl.gz", "own.csv", "own.xlsx"])
@pytest.mark.parametrize("first", [b"\x1f\x8b\x08\x00", b"PK\x03\x04\x14"], ids=["gzip", "zip"])
def test_what_is_compressed_is_called_so(tmp_path, name, first):
    path = tmp_path / name
    path.write_bytes(first + b"\xff\x00" * 9)
    with pytest.raises(InputError, match="is compressed or a spreadsheet: unpack it"):
        read(path)


def test_parquet_without_pyarrow_names_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "data").write_bytes(b"PAR1....PAR1")
    with pytest.raises(InputError, match=r"data is Parquet, and pyarrow is not installed: pip in"):
        read(tmp_path / "data")


def test_an_empty_number_of_a_parquet_file_is_null(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "train.parquet"
    columns = {"text": ["a", "b"], "amount": [float("nan"), 12.5]}
    parquet.write_table(pyarrow.table(columns), path)
    amounts = [fields["amount"] for _, fields in corpus.read_objects(path)]
    assert amounts == [None, 12.5]
    columns["amount"] = [float("inf"), 12.5]
    parquet.write_table(pyarrow.table(columns), path)
    with pytest.raises(InputError, match="row 1: a number is infinite"):
        read(path)


def test_parquet_is_read_as_json_is(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [
        {"id": 1, "messages": [{"role": "user", "content": "Who?"},
                               {"role": "assistant", "content": "Ann"}]},
        {"id": 2, "messages": [{"role": "user", "content": "And?"},
                               {"role": "assistant", "content": "Bo"}]},
    ]  # fmt: skip
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "train.parquet")
    found = read(tmp_path / "train.parquet")
    assert [(d.id, d.instruction, d.output) for d in found] == [
        ("1", "Who?", "Ann"),
        ("2", "And?", "Bo"),
    ]
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1" + b"x" * 20)
    with pytest.raises(InputError, match="is not a valid Parquet file"):
        read(broken)


def nested(depth):
    value = "Ann"
    for _ in range(depth):
        value = [value]
    return value


def repeated(pyarrow, text, count):
    """Return a column of one text, which a file has once."""
    zeros = pyarrow.array([0] * count, pyarrow.int32())
    return pyarrow.table({"text": pyarrow.DictionaryArray.from_arrays(zeros, [text])})


def one_row(pyarrow, **fields):
    return pyarrow.Table.from_pylist([{"text": "a", **fields}])


BOMBS = {
    "one text a thousand times": lambda arrow: repeated(arrow, "Ann Lee " * 2**20, 1000),
    "a text that is too long": lambda arrow: one_row(arrow, text="x" * (2**26 + 1)),
    "too many values": lambda arrow: one_row(arrow, list=[[]] * (2**22 + 1)),
    "a deep nest": lambda arrow: one_row(arrow, list=nested(150)),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_parquet_file_that_unpacks_to_gigabytes_is_refused_within_limits(tmp_path, name):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "bomb.parquet"
    parquet.write_table(BOMBS[name](pyarrow), path, compression="zstd")
    assert path.stat().st_size < 100_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError, match=re.escape(str(path))) as refused:
        read(path)
    assert "\n" not in str(refused.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**19  # KiB


def written(tmp_path, text, name="t.csv"):
    (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    return tmp_path / name


@pytest.mark.parametrize("line", ["sep=|\r\n", '"sep=|"\r\n', "\ufeffsep=|\r\n"])
def test_a_line_sep_names_the_separator_and_stays(tmp_path, line):
    path = written(tmp_path, f'{line}id|text\r\na|Ann, Lee\r\n\r\nb|"Bo | Kim"\r\n')
    assert [(d.id, d.text) for d in read(path)] == [("a", "Ann, Lee"), ("b", "Bo | Kim")]
    rows = [{"id": "a", "text": "x|y"}, {"id": "b", "text": "z"}]
    again = written(tmp_path, tables.csv_text(path, rows), "again.csv")
    assert again.read_bytes().startswith(line.encode())
    assert [d.text for d in read(again)] == ["x|y", "z"]


def test_an_error_below_a_line_sep_names_the_line(tmp_path):
    path = written(tmp_path, "sep=;\nid;text\na;b\nc;d;Ann Lee\n")
    with pytest.raises(InputError, match="line 4: 3 cells under a header of 2") as refused:
        read(path)
    assert "Ann" not in str(refused.value)


def test_quotes_behind_backslashes_are_read_where_nothing_else_fits(tmp_path):
    path = written(tmp_path, 'id,text\na,"He said \\"no, never\\" to Ann"\nb,"C:\\\\temp, x"\n')
    assert [d.text for d in read(path)] == ['He said "no, never" to Ann', "C:\\temp, x"]
    # What fits as it is usually written is read so.
    path = written(tmp_path, 'id,text\na,"C:\\"\nb,"a ""quote"" \\"" here"\n')
    assert [d.text for d in read(path)] == ["C:\\", 'a "quote" \\" here']


def test_bytes_of_a_parquet_file_are_text_or_refused(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "train.parquet"
    columns = {"text": ["Frau Müller kam.".encode()], "notes": [["王建国".encode(), None]]}
    parquet.write_table(pyarrow.table(columns), path)
    [(_, fields)] = corpus.read_objects(path)
    assert fields == {"text": "Frau Müller kam.", "notes": ["王建国", None]}
    image = {"text": ["a"], "image": [{"bytes": b"\x89PNG\xff", "path": None}]}
    parquet.write_table(pyarrow.table(image), path)
    with pytest.raises(InputError, match="row 1: column 'image' holds bytes that are not UTF-8"):
        read(path)


def test_what_json_has_no_type_for_is_text_or_refused():
    parquet_rows = pytest.importorskip("fedaudit.data.parquet_rows")
    row = {"born": date(1980, 5, 1), "amount": Decimal("1.50")}
    assert json.loads(parquet_rows._row_text(row, "f, row 1")) == {
        "born": "1980-05-01",
        "amount": "1.50",
    }
    with pytest.raises(InputError, match="column 'other' holds values that are neither text"):
        parquet_rows._row_text({"other": object()}, "f, row 1")
