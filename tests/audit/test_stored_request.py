"""A request in a cache: what is stored is what is read, and nothing else is."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import FedauditError, InputError, UsageError
from fedaudit.audit.input_files import InputReader
from fedaudit.audit.request import (
    ClientData,
    CrossClientRequest,
    EpsilonRequest,
    ExposureRequest,
    ExtractionRequest,
    ForgetRequest,
    InferenceRequest,
    MemorizationRequest,
    Protocol,
    WatchRequest,
)
from fedaudit.audit.resolve import resolve
from fedaudit.audit.stored_request import KINDS, from_table, to_table
from fedaudit.engine.remote.options import EndpointOptions
from fedaudit.engine.vllm.options import VllmOptions
from fedaudit.system.files import sha256

HERE = Path("part1")
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=9)
PATHS = NAMES.map(Path)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | NAMES,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(NAMES, below, max_size=3),
    max_leaves=5,
)  # fmt: skip
REQUESTS = st.builds(
    ExtractionRequest,
    prefixes=PATHS,
    victim=st.none() | PATHS,
    members=st.lists(PATHS, max_size=3).map(tuple),
    attacks=st.lists(NAMES, max_size=3).map(tuple),
    options=st.dictionaries(NAMES, st.dictionaries(NAMES, VALUES, max_size=3), max_size=3),
    target=st.none() | NAMES,
    round=st.none() | st.integers(),
    keys=st.lists(NAMES, max_size=2).map(tuple),
    seed=st.integers(),
    batch_size=st.integers(0, 9),
)


@given(REQUESTS)
def test_every_request_comes_back_as_it_was(request):
    table = json.loads(json.dumps(to_table(request)))
    assert from_table(table, HERE) == request


def clients(folder):
    """Return two clients with their files."""
    found = []
    for name in ("a", "b"):
        path = folder / f"{name}.jsonl"
        path.write_text('{"text": "Ann Lee of York"}\n')
        found.append(ClientData(name=name, path=str(path), sha256=sha256(path)))
    return tuple(found)


def requests(folder):
    """Return a request of each kind."""
    both = clients(folder)
    options = {"contextual": {"labels": ("PERSON", "ADDRESS"), "estimator": "exact"}}
    protocol = Protocol(decoding="greedy", temperature=0.5, scoring={"model": "m"})
    return (
        ExtractionRequest(prefixes=folder / "a.jsonl", control=folder / "b.jsonl", keys=("right",)),
        CrossClientRequest(clients=both, budget=7, options=options),
        InferenceRequest(data=folder / "a.jsonl", round=3, dtype="float32"),
        MemorizationRequest(clients=both, protocol=protocol, shorter=True, workers=2),
        ExposureRequest(canaries=folder / "a.jsonl", references=9, commitment="0" * 64),
        EpsilonRequest(coins=folder / "a.jsonl", epsilon=8.0, commitment="0" * 64),
        WatchRequest(ours=folder / "a.jsonl", held_out=folder / "b.jsonl", limit=0.2),
        ForgetRequest(
            before=folder / "run", ours=folder / "a.jsonl", retrained=(folder / "r1", folder / "r2")
        ),
    )


def test_every_kind_comes_back_as_it_was(tmp_path):
    for request in requests(tmp_path):
        table = json.loads(json.dumps(to_table(request)))
        again = from_table(table, HERE)
        assert type(again) is type(request)
        assert to_table(again) == table
    assert set(KINDS) == {request.kind for request in requests(tmp_path)}


def test_a_clients_file_is_what_it_is_now(tmp_path):
    request = requests(tmp_path)[3]
    table = to_table(request)
    assert table["clients"][0] == {"name": "a", "path": str(tmp_path / "a.jsonl")}
    assert from_table(table, HERE) == request
    with (tmp_path / "a.jsonl").open("a") as file:
        file.write("\n")
    assert from_table(table, HERE).clients[0].sha256 == sha256(tmp_path / "a.jsonl")
    (tmp_path / "b.jsonl").unlink()
    with pytest.raises(InputError, match="There is no file"):
        from_table(table, HERE)


def test_no_document_and_no_fingerprint_of_one_is_stored(tmp_path):
    for request in requests(tmp_path):
        text = json.dumps(to_table(request))
        assert "Ann" not in text
        assert sha256(tmp_path / "a.jsonl") not in text


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, b"x", "a\0b", "\ud800"])
def test_an_option_that_cannot_be_stored_is_refused(tmp_path, value):
    request = ExtractionRequest(prefixes=tmp_path, options={"contextual": {"labels": value}})
    with pytest.raises(UsageError, match="with such an option cannot be kept"):
        to_table(request)


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": "0"},
        {"seed": True},
        {"seed": None},
        {"prefixes": 7},
        {"prefixes": None},
        {"prefixes": "a\0.jsonl"},
        {"prefixes": "\ud800.jsonl"},
        {"prefixes": "./a.jsonl"},
        {"prefixes": ["a.jsonl"]},
        {"members": "a.jsonl,b.jsonl"},
        {"members": {"a": "b"}},
        {"attacks": "contextual"},
        {"attacks": [["contextual"]]},
        {"options": []},
        {"options": {"contextual": 7}},
        {"options": {"contextual": {"x": float("nan")}}},
        {"batch_size": -1},
        {"batch_size": 1.5},
        {"recheck": 0},
        {"out": "/etc"},
        {"clients": []},
        {"kind": "memorize"},
        {"seed": "9" * 10_000},
        {"x" * 10_000: 0},
        {"options": {"contextual": {"x": json.loads("[" * 400 + "]" * 400)}}, "seed": "x"},
    ],
)
def test_anything_else_is_refused_in_one_short_line(tmp_path, changes):
    table = {**to_table(requests(tmp_path)[0]), **changes}
    with pytest.raises(InputError, match="part1 holds no request in the form") as error:
        from_table(table, HERE)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize(
    "rows",
    [
        "a",
        [],
        [7],
        [{"name": "a"}],
        [{"name": "a", "path": "a.jsonl", "sha256": "0"}, {"name": "b", "path": "b.jsonl"}],
        [{"name": 1, "path": "a.jsonl"}],
        [{"name": "a", "path": "a.jsonl"}] * 2,
        [{"name": "a", "path": "."}, {"name": "b", "path": "b.jsonl"}],
    ],
)
@pytest.mark.parametrize("number", [1, 3])
def test_clients_that_are_none_are_refused(tmp_path, monkeypatch, number, rows):
    monkeypatch.chdir(tmp_path)
    table = {**to_table(requests(tmp_path)[number]), "target": "fedaudit-nano", "clients": rows}

    def use():
        request = from_table(table, HERE)
        return resolve(request, InputReader())

    with pytest.raises(FedauditError) as error:
        use()
    assert error.value.exit_code in (2, 3)


@pytest.mark.parametrize("name", ["seed", "prefixes", "options", "engine"])
def test_a_request_that_lacks_something_is_refused(tmp_path, name):
    table = to_table(requests(tmp_path)[0])
    del table[name]
    with pytest.raises(InputError, match="holds no request"):
        from_table(table, HERE)


@pytest.mark.parametrize("kind", [None, 7, ["extract"], "scrub", "ExtractionRequest", "x" * 9_999])
def test_of_an_unknown_kind_there_are_no_shards(kind):
    with pytest.raises(InputError, match="which has no shards") as error:
        from_table({"kind": kind}, HERE)
    assert len(str(error.value)) < 400


def served(**options):
    """Return a stored request to a server, as a cache has it."""
    how = EndpointOptions(base="plain", tokenizer="fedaudit-nano", **options)
    request = ExtractionRequest(
        prefixes=Path("a.jsonl"), target="https://elsewhere/v1", model="m", endpoint=how
    )
    return json.loads(json.dumps(to_table(request)))


def test_no_server_is_asked_that_only_a_cache_names():
    """Who has written it would get the records, and what an environment variable holds."""
    with pytest.raises(UsageError, match=r"key to https://elsewhere/v1: name each.*--server"):
        from_table(served(key_variable="SECRET"), HERE)
    named = from_table(served(), HERE, ["https://elsewhere/v1/"])
    assert named.target == "https://elsewhere/v1"


@pytest.mark.parametrize(
    "more", [{"urls": ("https://third/v1",)}, {"base_url": "https://third/v1"}]
)
def test_every_server_of_a_cache_must_be_named(more):
    table = served(**more)
    with pytest.raises(UsageError, match="key to https://third/v1: name each"):
        from_table(table, HERE, ["https://elsewhere/v1"])
    assert from_table(table, HERE, ["https://third/v1", "https://elsewhere/v1"]).model == "m"


def test_a_server_that_nobody_asked_is_refused():
    plain = to_table(ExtractionRequest(prefixes=Path("a.jsonl"), target="fedaudit-nano"))
    for table, named in ((plain, ["foo"]), (served(), ["https://elsewhere/v1", "foo"])):
        with pytest.raises(UsageError, match="asks no server foo: --server names servers"):
            from_table(table, HERE, named)


def test_no_program_is_run_that_only_a_cache_names():
    options = VllmOptions(python="/somebody/elses", arguments="--port 1")
    request = ExtractionRequest(prefixes=Path("a.jsonl"), engine="vllm", vllm=options)
    table = to_table(request)
    assert "vllm" not in table
    assert from_table(table, HERE) == replace(request, vllm=None)
    with pytest.raises(InputError, match="no request in the form that this version"):
        from_table({**table, "vllm": asdict(options)}, HERE)
