"""What others send is refused in one line, whatever it is."""

import copy
import zipfile
from contextlib import suppress

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import InputError
from fedaudit.joint import combining, exchange, member
from fedaudit.joint.elements import BINS
from fedaudit.joint.exchange import ANSWER, ASK, COMMIT, RESULT

KEYS = {name: Ed25519PrivateKey.generate() for name in ("a", "b")}
VALUES = st.sampled_from([None, -1, 0, 2**70, 1.5, "", "x", [], [1], {}, {"x": 1}, True])
TERMS = {"protocol": 1, "adapter": "0" * 64, "template": "0" * 64,
         "attack": {"name": "contextual"}, "budget": 40, "seed": 0}  # fmt: skip


def bodies(name, commitments):
    common = {"member": name, "commitments": commitments}
    verdict = {"status": "pass", "rule": 1}
    return {
        ASK: {**common, "base": "0" * 64, "prefixes": 3, "known": {"PERSON": [1.0, 2]}},
        ANSWER: {**common, "to": "a", "request": "0" * 64},
        RESULT: {**common, "report": "0" * 64, "verdict": verdict, "rows": [],
                 "findings": [], "limits": []},
    }  # fmt: skip


def write(folder, name, step, body, receiver=""):
    sets = dict.fromkeys(exchange.SETS.get(step, ()), [b"x"] * BINS)
    path = exchange.path_of(folder, step, name, receiver)
    exchange.write(path, KEYS[name], {**body, "step": step}, sets)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("joint")
    records = {"count": 3, "annotation": None, "hmac": "0"}
    for name, key in KEYS.items():
        body = {"member": name, "public_key": exchange.public_pem(key), "asked": 1024}
        write(path, name, COMMIT, {**body, "records": records, "terms": TERMS})
    return path


def changed(data, body):
    """Return a statement with one value replaced or removed."""
    body = copy.deepcopy(body)
    tables = [body, *(value for value in body.values() if isinstance(value, dict) and value)]
    table = data.draw(st.sampled_from(tables))
    key = data.draw(st.sampled_from(sorted(table)))
    if data.draw(st.booleans()):
        table[key] = data.draw(VALUES)
    else:
        del table[key]
    return body


@given(data=st.data())
def test_a_changed_statement_is_read_or_refused(folder, data):
    commitments = member.read_commitments(folder)
    step = data.draw(st.sampled_from([ASK, ANSWER, RESULT]))
    body = bodies("b", member.fingerprints(commitments))[step]
    receiver = "a" if step == ANSWER else ""
    write(folder, "b", step, body, receiver)
    assert member.receive(folder, step, "b", commitments, receiver).body["step"] == step
    write(folder, "b", step, changed(data, body), receiver)
    with suppress(InputError):
        member.receive(folder, step, "b", commitments, receiver)
        if step == RESULT:
            write(folder, "a", RESULT, bodies("a", member.fingerprints(commitments))[RESULT])
            combining.combine(folder)


@pytest.mark.parametrize("how", ["compressed", "encrypted", "overlapping"])
def test_a_small_archive_does_not_become_large(how, tmp_path):
    path = tmp_path / "b.ask.zip"
    compression = zipfile.ZIP_DEFLATED if how == "compressed" else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr(exchange.STATEMENT, "{}")
        archive.writestr("request", bytes(10_000_000 if how == "compressed" else 10_000))
        [_, part] = archive.filelist
        if how == "encrypted":
            part.flag_bits |= 1
        elif how == "overlapping":
            archive.filelist += [part] * 100
    assert path.stat().st_size < 100_000
    with pytest.raises(InputError, match="its parts are not stored as fedaudit joint stores them"):
        exchange.read(path)


@given(data=st.data())
def test_a_changed_commitment_is_read_or_refused(folder, data, tmp_path_factory):
    here = tmp_path_factory.mktemp("changed")
    for name in KEYS:
        path = exchange.path_of(folder, COMMIT, name)
        (here / path.name).write_bytes(path.read_bytes())
    body = dict(exchange.read(exchange.path_of(folder, COMMIT, "b")).body)
    write(here, "b", COMMIT, changed(data, body))
    with suppress(InputError):
        assert member.read_commitments(here)["b"].body["asked"] > 0


@pytest.mark.parametrize(
    ("claim", "says"),
    [
        ({"prefixes": 40, "known": {"PERSON": [60.0, 60]}}, ""),
        ({"prefixes": 41}, r"b asked 41 prefixes, more than the 40 of --budget"),
        ({"prefixes": 10**7}, r"b asked 10,000,000 prefixes, more than the 40 of --budget"),
        ({"known": {"PERSON": [0.0, 61]}}, "a part of it has another form"),
        ({"known": {"PERSON": [1, 2], "PHONE": [10**6, 10**6]}}, "a part of it has another form"),
        ({"known": {"PERSON": [0, 0]}}, "a part of it has another form"),
    ],
)
def test_no_one_asks_more_than_agreed_nor_has_more_positive_controls(folder, claim, says):
    """The first would let chance explain any leak, the second would let any model pass."""
    commitments = member.read_commitments(folder)
    body = bodies("b", member.fingerprints(commitments))[ASK]
    write(folder, "b", ASK, {**body, **claim})
    if not says:
        assert member.receive(folder, ASK, "b", commitments).body["prefixes"] == 40
        return
    with pytest.raises(InputError, match=says):
        member.receive(folder, ASK, "b", commitments)


def test_a_commitment_names_the_budget(folder, tmp_path):
    body = exchange.read(exchange.path_of(folder, COMMIT, "b")).body
    write(tmp_path, "b", COMMIT, {**body, "terms": {**TERMS, "budget": None}})
    with pytest.raises(InputError, match="a part of it has another form"):
        member.read_commitments(tmp_path)


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("key", TERMS)
def test_no_member_leaves_a_term_out_or_adds_one(folder, tmp_path, name, key):
    """The first by name could else keep all others' terms from being compared."""
    sent = {one: exchange.read(exchange.path_of(folder, COMMIT, one)).body for one in KEYS}
    for one, body in sent.items():
        write(tmp_path, one, COMMIT, body)
    terms = {term: value for term, value in TERMS.items() if term != key}
    write(tmp_path, name, COMMIT, {**sent[name], "terms": terms})
    with pytest.raises(InputError, match=f"^{name} committed to no {key}: every member needs"):
        member.read_commitments(tmp_path)
    write(tmp_path, name, COMMIT, {**sent[name], "terms": {**TERMS, f"{key}s": 1}})
    with pytest.raises(InputError, match=f"^{name} committed to '{key}s', which is unknown here"):
        member.read_commitments(tmp_path)


@pytest.mark.parametrize(
    ("key", "value"), [("adapter", None), ("adapter", "1" * 64), ("protocol", 2), ("seed", 1),
                       ("template", "1" * 64), ("attack", {"name": "contextual", "x": 1})]
)  # fmt: skip
@pytest.mark.parametrize("name", KEYS)
def test_members_with_other_terms_are_named(folder, tmp_path, name, key, value):
    for one in KEYS:
        body = exchange.read(exchange.path_of(folder, COMMIT, one)).body
        terms = {**TERMS, key: value} if one == name else TERMS
        write(tmp_path, one, COMMIT, {**body, "terms": terms})
    with pytest.raises(InputError, match=f"^a and b committed .* audits: their {key} differ"):
        member.read_commitments(tmp_path)


def test_a_result_must_say_that_it_has_no_rows(folder):
    commitments = member.read_commitments(folder)
    body = bodies("b", member.fingerprints(commitments))[RESULT]
    del body["rows"]
    write(folder, "b", RESULT, body)
    with pytest.raises(InputError, match="its rows has another form"):
        member.receive(folder, RESULT, "b", commitments)


@given(content=st.binary(max_size=200))
def test_any_bytes_are_refused(tmp_path_factory, content):
    here = tmp_path_factory.mktemp("bytes")
    for name in ("x.json", "x.zip"):
        (here / name).write_bytes(content)
        with pytest.raises(InputError):
            exchange.read(here / name)
