import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fedaudit.api.errors import InputError
from fedaudit.federation import manifest
from fedaudit.federation.manifest import BaseModel, Manifest, ManifestClient, Round, Template
from fedaudit.system.names import check_name

WHOLE = Manifest(
    status="complete",
    base=BaseModel(name="fedaudit-nano", sha256="ab" * 32),
    clients=(
        ManifestClient(id="c0", examples=3, weight=0.75, data="data/c0.jsonl"),
        ManifestClient(id="银行", examples=1, weight=0.25, watermark="mark0"),
    ),
    rounds=(
        Round(round=0, adapter="rounds/000/global"),
        Round(
            round=1,
            adapter="rounds/001/global",
            participants=("c0",),
            clients={"c0": "rounds/001/clients/c0"},
            loss={"c0": 1.5},
        ),
        Round(
            round=2,
            adapter="rounds/002/global",
            participants=("c0", "银行"),
            sums={"rounds/002/sums/ab.safetensors": ("c0", "银行")},
        ),
    ),
    aggregation={"name": "fedavg", "options": {}},
    secure_aggregation={"protocol": "secagg+"},
    template=Template(name="t", with_input="{instruction}{input}", without_input="{instruction}"),
    seeds={"simulation": 7},
    files={"rounds/000/global/adapter_model.safetensors": "cd" * 32},
    config={"rounds": 1, "training": {"steps": 2}},
    config_sha256="ef" * 32,
)


def table():
    """Return the whole manifest as JSON has it, to be damaged."""
    return json.loads(json.dumps(manifest.asdict(WHOLE)))


def put(folder, given):
    content = given if isinstance(given, bytes) else json.dumps(given).encode()
    (folder / manifest.NAME).write_bytes(content)
    return folder


def refused(folder):
    with pytest.raises(InputError) as error:
        manifest.read(folder)
    assert error.value.exit_code == 3
    assert "\n" not in str(error.value)
    assert str(folder) in str(error.value)
    return str(error.value)


def test_what_is_written_is_read(tmp_path):
    manifest.write(WHOLE, tmp_path)
    assert manifest.read(tmp_path) == WHOLE
    manifest.write(replace(WHOLE, status="running", secure_aggregation=None), tmp_path)
    assert manifest.read(tmp_path).status == "running"
    assert [path.name for path in tmp_path.iterdir()] == [manifest.NAME]


@pytest.mark.parametrize(
    ("config", "read"),
    [
        ({"training": {"max_length": 512}}, 512),
        ({"training": {"max_length": "512"}}, 0),
        ({"training": {"max_length": 1}}, 0),
        ({"training": {}}, 0),
        ({"training": 512}, 0),
        ({}, 0),
    ],
)
def test_how_much_training_read_is_known_where_it_is_stated(config, read):
    assert manifest.trained_tokens(replace(WHOLE, config=config)) == read


def test_a_file_is_told_that_a_folder_is_meant(tmp_path):
    manifest.write(WHOLE, tmp_path)
    path = tmp_path / manifest.NAME
    assert refused(path) == f"{path} is a file: name the federation's folder, {tmp_path}."
    other = tmp_path / "notes.txt"
    other.touch()
    assert refused(other) == f"{other} is a file: name the federation's folder."


def test_only_what_must_be_said_needs_saying(tmp_path):
    least = {
        "base": {"name": "x", "sha256": ""},
        "clients": [{"id": "a", "examples": 1, "weight": 1}],
        "rounds": [{"round": 0, "adapter": "global"}],
        "aggregation": {},
        "template": {"name": "t", "with_input": "", "without_input": ""},
        "seeds": {},
    }
    found = manifest.read(put(tmp_path, least))
    assert found.status == "running"
    assert found.clients[0].weight == 1.0
    for key in least:
        assert key in refused(put(tmp_path, {k: v for k, v in least.items() if k != key}))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b'{"base": "\xff"}', "not JSON in UTF-8"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "must hold a JSON object"),
        (b"null", "must hold a JSON object"),
        (b"{}", "'clients'"),
    ],
    ids=["empty file", "half", "not utf-8", "nested", "a list", "null", "empty object"],
)
def test_a_file_that_is_no_manifest(content, message, tmp_path):
    assert message in refused(put(tmp_path, content))


def test_no_file_at_all(tmp_path):
    assert "it has no federation.json" in refused(tmp_path)
    (tmp_path / manifest.NAME).mkdir()
    assert "cannot be read" in refused(tmp_path)


@pytest.mark.parametrize("version", ["2.0", "0.9", "", 2, None, [1]], ids=repr)
def test_another_schema_version(version, tmp_path):
    assert "version" in refused(put(tmp_path, table() | {"schema_version": version}))


def test_a_later_minor_version_is_read(tmp_path):
    assert manifest.read(put(tmp_path, table() | {"schema_version": "1.7"})).base == WHOLE.base


def damaged(path, value):
    """Return the whole manifest with `value` at `path`."""
    result = place = table()
    *steps, last = path
    for step in steps:
        place = place[step]
    place[last] = value
    return result


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("surprise",), 1, "surprise"),
        (("clients", 0, "surprise"), 1, "surprise"),
        (("status",), "done", "done"),
        (("base",), "fedaudit-nano", "base"),
        (("base", "sha256"), 5, "sha256"),
        (("clients",), {"c0": {}}, "clients"),
        (("clients",), ["c0"], "clients"),
        (("clients", 0, "examples"), "three", "examples"),
        (("clients", 1, "id"), "c0", "names a client twice"),
        (("rounds",), None, "rounds"),
        (("rounds",), [], "no finished round"),
        (("rounds", 0, "round"), 1, "misses round 0"),
        (("rounds", 1, "round"), 0, "misses round 1"),
        (("rounds", 1, "round"), 2, "misses round 1"),
        (("rounds", 1, "participants"), ["c9"], "'c9'"),
        (("rounds", 1, "participants"), [4], "participants"),
        (("rounds", 1, "participants"), ["c0", "c0"], "twice"),
        (("rounds", 1, "clients"), {"c9": "x"}, "'c9'"),
        (("rounds", 1, "clients"), ["c0"], "clients"),
        (("rounds", 2, "sums"), ["x"], "sums"),
        (
            ("rounds", 2, "sums"),
            {"x": ["c0", "c9"]},
            "'x' sums up 'c9', who took no part in round 2",
        ),
        (("rounds", 1, "sums"), {"x": ["c0", "银行"]}, "'x' sums up '银行', who took no part"),
        (("rounds", 2, "sums"), {"x": ["c0", "银行", "c0"]}, "'x' sums up a client twice"),
        (("rounds", 2, "sums"), {"x": []}, "'x' needs a list"),
        (("rounds", 2, "sums"), {"x": "c0"}, "'x' needs a list"),
        (("rounds", 2, "sums"), {"x": None}, "'x' needs a list"),
        (("rounds", 2, "sums"), {"x": [4]}, "'x' needs a list"),
        (("rounds", 2, "sums"), {"x": [["c0"]]}, "'x' needs a list"),
        (("clients", 0, "watermark"), 3, "watermark"),
        (("seeds",), 3, "seeds"),
        (("files",), ["a"], "files"),
        (("template", "name"), None, "name"),
    ],
    ids=lambda value: "/".join(map(str, value)) if isinstance(value, tuple) else None,
)
def test_a_manifest_that_contradicts_itself(path, value, message, tmp_path):
    assert message in refused(put(tmp_path, damaged(path, value)))


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../b", "a\0b", "..", "a\0/b"])
@pytest.mark.parametrize(
    "place", ["files", "adapter", "data", "client", "sum"], ids=lambda place: f"in-{place}"
)
def test_a_path_that_leaves_the_folder(place, name, tmp_path):
    given = {
        "files": lambda: damaged(("files",), {name: "ab"}),
        "adapter": lambda: damaged(("rounds", 1, "adapter"), name),
        "data": lambda: damaged(("clients", 0, "data"), name),
        "client": lambda: damaged(("rounds", 1, "clients", "c0"), name),
        "sum": lambda: damaged(("rounds", 2, "sums"), {name: ["c0"]}),
    }[place]()
    message = refused(put(tmp_path, given))
    assert "points outside its folder" in message
    assert "\0" not in message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=5,
)
PLACES = (
    [(key,) for key in table()]
    + [("clients", 0, key) for key in table()["clients"][0]]
    + [("rounds", 1, key) for key in table()["rounds"][1]]
    + [("rounds", 2, "sums"), ("rounds", 2, "sums", "x")]
    + [("base", "name"), ("template", "with_input"), ("rounds", 1, "clients", "c0")]
)


@example(("rounds", 1, "sums"), {"\n": None})
@given(st.sampled_from(PLACES), JSON)
def test_whatever_stands_in_it_it_is_read_or_refused(tmp_path_factory, path, value):
    folder = put(tmp_path_factory.mktemp("m"), damaged(path, value))
    try:
        found = manifest.read(folder)
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert isinstance(found, Manifest)


BAD_NAMES = {
    "": "letters", ".": "letters", "..": "letters", ".hidden": "letters", "a.": "letters",
    "a/b": "letters", "../c0": "letters", "/tmp/c0": "letters", "a\\b": "letters", "a b": "letters",
    "a:b": "letters", "a\n": "letters", "a\u202eb": "letters", "\u200b": "letters",
    "$HOME": "letters",
    "a" * 101: "100 characters", "银" * 70: "100 characters",
    "NUL": "device", "com1": "device", "Con.txt": "device", "lpt9.tar.gz": "device",
}  # fmt: skip
GOOD_NAMES = ("c0", "银行", "बैंक", "a" * 100, "client-7_b.v2", "-x", "console", "com", "global", "é")


@pytest.mark.parametrize("name", BAD_NAMES, ids=repr)
def test_a_client_whose_id_is_no_name_of_a_file_is_refused(name, tmp_path):
    message = refused(put(tmp_path, damaged(("clients", 0, "id"), name)))
    assert "the client" in message
    assert BAD_NAMES[name] in message
    if name:
        assert "the mark" in refused(put(tmp_path, damaged(("clients", 1, "watermark"), name)))


@pytest.mark.parametrize("name", GOOD_NAMES)
def test_a_client_may_have_a_name_of_any_script(name, tmp_path):
    given = table()
    given["rounds"] = given["rounds"][:1]
    given["clients"][0]["id"] = name
    if name == "银行":
        given["clients"].pop()
    assert manifest.read(put(tmp_path, given)).clients[0].id == name


@given(st.text(max_size=8))
def test_what_is_accepted_is_one_plain_part_of_a_path(name):
    place = Path("federation.json")
    try:
        check_name(name, place, "the client")
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert Path("below", name).parts == ("below", name)
        assert not name.startswith(".")
        assert name.isprintable()


def test_a_link_out_of_the_folder_is_refused(tmp_path):
    home, away = tmp_path / "home", tmp_path / "away"
    for folder in (home / "data", away):
        folder.mkdir(parents=True)
    (away / "secret.jsonl").write_text("{}")
    (home / "data/c0.jsonl").symlink_to(away / "secret.jsonl")
    assert "link" in refused(put(home, table()))
    (home / "data/c0.jsonl").unlink()
    (home / "data/c1.jsonl").write_text("{}")
    (home / "data/c0.jsonl").symlink_to("c1.jsonl")
    manifest.read(put(home, table()))  # one that stays inside is none of our business
    (home / "data/c0.jsonl").unlink()
    (home / "data/c0.jsonl").symlink_to("c0.jsonl")
    assert "link" in refused(put(home, table()))
