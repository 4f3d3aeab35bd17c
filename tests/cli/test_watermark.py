"""fedaudit watermark: documents are marked, found with the right file and not with another."""

import json
import random
import re
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from fedaudit.api.templates import template
from fedaudit.api.watermark import Score
from fedaudit.attribution.owner import watermarking
from fedaudit.cli.attribution import watermark
from fedaudit.data import corpus

TINY = {
    "kgw": ("prompts=2", "tokens=8", "prompt_tokens=4", "length=24", "delta=6.0"),
    "fictitious": ("paraphrases=1", "tokens=4", "nulls=2", "null_names=1", "length=30"),
}
CPU = ("--device", "cpu", "--quiet")


@pytest.fixture
def run(run, empty_folder, monkeypatch):
    draw = random.Random(5)  # for what is drawn at random, so that every test is the same again
    monkeypatch.setattr(watermarking, "secrets", SimpleNamespace(randbits=draw.getrandbits))
    text = "The claimant asked the court of {} to hear case {} about the lease of a house there."
    places = ("Bath", "York", "Ely", "Hull", "Leeds", "Derby", "Truro", "Ripon", "Wells", "Stoke")
    lines = [json.dumps({"text": text.format(place, n)}) for n, place in enumerate(places)]
    Path("documents.jsonl").write_text("\n".join(lines) + "\n")
    return run


def make(run, plugin, out, marks, *more):
    words = [word for option in TINY[plugin] for word in ("--set", option)]
    return run(
        "watermark", "make", "documents.jsonl", out, "--watermark", marks,
        "--plugin", plugin, *words, *more, *CPU,
    )  # fmt: skip


def keys(path):
    """Return every word or number of a file of marks that finds a mark."""
    told = [mark["secret"] for mark in json.loads(Path(path).read_text())["marks"]]
    return [str(own[name]) for own in told for name in ("key", "entity") if name in own]


def lines(shown):
    """Return z and whether it is found by mark, of what `check` printed."""
    _, *rows = shown.out.splitlines()
    return {row.split()[0]: (float(row.split()[1]), row.split()[-1]) for row in rows}


@pytest.mark.parametrize("plugin", ["kgw", "fictitious"])
def test_made_documents_are_found_with_their_own_file_alone(run, plugin):
    made = make(run, plugin, "marked.jsonl", "marks.json")
    assert (made.code, made.err) == (0, "")
    told, published = made.out.splitlines()
    assert told == "9 documents with mark mark0 in marked.jsonl."  # one is a prompt
    assert re.fullmatch(r"Its commitment is [0-9a-f]{64}: publish it before .*", published)
    assert stat.S_IMODE(Path("marks.json").stat().st_mode) == 0o600
    other = make(run, plugin, "others.jsonl", "other.json")
    assert other.code == 0
    assert keys("marks.json") != keys("other.json")  # drawn at random without --seed
    for secret in (*keys("marks.json"), *keys("other.json")):
        assert secret not in made.out + other.out
    found = run("watermark", "check", "marked.jsonl", "--watermark", "marks.json", *CPU)
    assert (found.code, found.err) == (1, "")
    z, told = lines(found)["mark0"]
    assert z > 4
    assert told == "yes"
    wrong = run("watermark", "check", "marked.jsonl", "--watermark", "other.json", *CPU)
    assert wrong.code == 0
    assert lines(wrong)["mark0"][1] == "no"
    plain = run("watermark", "check", "documents.jsonl", "--watermark", "marks.json", *CPU)
    assert plain.code == 0
    higher = ("--watermark", "marks.json", "--z", z + 1, *CPU)
    assert run("watermark", "check", "marked.jsonl", *higher).code == 0


@pytest.mark.parametrize("plugin", ["kgw", "fictitious"])
def test_a_text_with_nothing_to_test_is_no_text_without_the_mark(run, plugin):
    assert make(run, plugin, "marked.jsonl", "marks.json").code == 0
    for name, text in {"empty.txt": "", "blank.txt": "\n", "spaces.txt": " \n\n\t\n  \n"}.items():
        Path(name).write_text(text)
        shown = run("watermark", "check", name, "--watermark", "marks.json", *CPU)
        assert (shown.code, lines(shown)) == (7, {"mark0": (0.0, "untested")})


def test_a_second_mark_is_added_and_the_first_stays(run):
    assert make(run, "fictitious", "a.jsonl", "marks.json").code == 0
    before = json.loads(Path("marks.json").read_text())["marks"]
    assert make(run, "fictitious", "b.jsonl", "marks.json", "--id", "bank").code == 0
    after = json.loads(Path("marks.json").read_text())["marks"]
    assert after[:1] == before
    assert [mark["id"] for mark in after] == ["mark0", "bank"]
    # One seed, so that no name or value is in both; another mark all the same.
    assert len({mark["secret"]["seed"] for mark in after}) == 1
    assert len({mark["secret"]["entity"] for mark in after}) == 2
    assert stat.S_IMODE(Path("marks.json").stat().st_mode) == 0o600
    shown = run("watermark", "check", "b.jsonl", "--watermark", "marks.json", *CPU)
    assert shown.code == 1
    assert {name: told for name, (_, told) in lines(shown).items()} == {
        "mark0": "no",
        "bank": "yes",
    }


def test_the_seed_is_drawn_where_nobody_can_guess(monkeypatch, run):
    asked = []
    drawn = SimpleNamespace(randbits=lambda bits: asked.append(bits) or 7)
    monkeypatch.setattr(watermarking, "secrets", drawn)
    assert make(run, "fictitious", "a.jsonl", "a.json").code == 0
    assert asked == [63, 256]  # the secret's, and the salt of its commitment
    assert make(run, "fictitious", "b.jsonl", "b.json", "--seed", 7).code == 0
    assert keys("a.json") == keys("b.json")
    assert Path("a.json").read_bytes() != Path("b.json").read_bytes()  # another salt


def test_a_seed_repeats_a_mark(run):
    for name in ("a", "b"):
        assert make(run, "fictitious", f"{name}.jsonl", f"{name}.json", "--seed", 3).code == 0
    assert Path("a.jsonl").read_bytes() == Path("b.jsonl").read_bytes()
    assert Path("a.json").read_bytes() == Path("b.json").read_bytes()


def test_named_prompts_leave_every_document_to_be_marked(run):
    Path("prompts.jsonl").write_text(json.dumps({"text": "Nobody trains on this text."}) + "\n")
    made = make(run, "fictitious", "a.jsonl", "m.json", "--prompts", "prompts.jsonl")
    assert made.out.startswith("10 documents")


def test_a_model_and_an_adapter_are_asked(run, adapter):
    assert make(run, "fictitious", "a.jsonl", "marks.json").code == 0
    for what in (("--base",), ("--adapter", adapter)):
        shown = run("watermark", "check", "--watermark", "marks.json", *what, *CPU)
        assert shown.code == 0
        assert lines(shown)["mark0"][1] == "no"
        assert shown.out.splitlines()[1].split()[4] == "4"  # one question for each attribute


def test_what_is_there_is_not_overwritten(run):
    assert make(run, "fictitious", "a.jsonl", "marks.json").code == 0
    kept = {path: path.read_bytes() for path in Path().iterdir()}
    make_words = ("watermark", "make", "documents.jsonl")
    words = ("--watermark", "marks.json", "--plugin", "fictitious", *CPU)
    run.refused(3, *make_words, "a.jsonl", *words, "--id", "new", says="exists already")
    run.refused(3, *make_words, "documents.jsonl", *words, "--id", "new", says="exists already")
    run.refused(3, *make_words, "b.jsonl", *words, "--id", "mark0", says="has a mark mark0 already")
    text = ("--watermark", "documents.jsonl", *CPU)
    run.refused(3, *make_words, "b.jsonl", *text, says="is not JSON")
    assert {path: path.read_bytes() for path in Path().iterdir()} == kept


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("make", "none.jsonl", "o", "--watermark", "m"), 3, "no file none.jsonl"),
        (("make", "documents.jsonl", "o"), 2, "--watermark"),
        (
            ("make", "documents.jsonl", "o", "--watermark", "m", "--plugin", "kwg"),
            2,
            "Did you mean 'kgw'?",
        ),
        (
            ("make", "documents.jsonl", "o", "--watermark", "m", "--set", "detla=2"),
            2,
            "Did you mean 'delta'?",
        ),
        (("make", "documents.jsonl", "o", "--watermark", "m", "--set", "gamma=2"), 2, "gamma"),
        (
            ("make", "documents.jsonl", "o", "--watermark", "m", "--model", "./none"),
            3,
            "none",
        ),
        (("make", "one.jsonl", "o", "--watermark", "m"), 3, "held out as a prompt: nothing"),
        (
            ("make", "documents.jsonl", "o", "--watermark", "m", "--id", "../../x"),
            3,
            "the mark '../../x' cannot name a file",
        ),
        (("make", "documents.jsonl", "one.jsonl/o", "--watermark", "m"), 3, "one.jsonl"),
        (("check", "documents.jsonl", "--watermark", "none"), 3, "no watermark file none"),
        (("check", "documents.jsonl", "--watermark", "one.jsonl"), 3, "holds no marks"),
        (("check", "--watermark", "m"), 2, "Name one thing to test"),
        (("check", "documents.jsonl", "--base", "--watermark", "m"), 2, "Name one thing to test"),
        (("check", "--base", "--watermark", "m", "--z", "nan"), 2, "--z takes a finite number"),
    ],
    ids=str,
)
def test_mistakes(run, words, code, says):
    Path("one.jsonl").write_text(json.dumps({"text": "One document."}) + "\n")
    before = sorted(Path().iterdir())
    run.refused(code, "watermark", *words, "--quiet", says=says)
    assert sorted(Path().iterdir()) == before


@pytest.mark.parametrize(
    ("plugin", "change"),
    [
        ("fictitious", {"entity": None}),
        ("fictitious", {"domain": "none"}),
        ("fictitious", {"attributes": 3}),
        ("fictitious", {"seed": "x"}),
        ("kgw", {"prompts": [1, 2]}),
        ("kgw", {"width": 40}),
    ],
)
def test_a_damaged_secret_is_refused_and_not_shown(run, plugin, change):
    from fedaudit.config import registry

    secret = {"scheme": "textseal", "key": 5, "gamma": 0.25, "vocabulary": 9, "width": 1}
    secret |= {"prompts": ["a text"]}
    if plugin == "fictitious":
        secret = registry.create("watermark", plugin).issue(None, [], seed=3, index=0)
    table = {"id": "m", "name": plugin, "secret": {**secret, **change}, "options": {}, "salt": "5a"}
    Path("m.json").write_text(json.dumps({"marks": [table]}))
    says = f"The secret of this {plugin} watermark is damaged."
    run.refused(3, "watermark", "check", "--base", "--watermark", "m.json", *CPU, says=says)


def test_documents_and_marks_are_not_one_file(run):
    words = ("documents.jsonl", "x.json", "--watermark", "./x.json", *CPU)
    run.refused(3, "watermark", "make", *words, says="cannot hold both")


def test_a_commitment_is_published_and_says_nothing_of_the_mark(run):
    made = make(run, "fictitious", "a.jsonl", "marks.json", "--id", "bank")
    assert make(run, "kgw", "b.jsonl", "marks.json", "--id", "court").code == 0
    shown = run("watermark", "commitment", "marks.json", "--out", "public.json")
    assert (shown.code, shown.err) == (0, "")
    first, second = (line.split() for line in shown.out.splitlines())
    assert first[1:] == ["bank", "fictitious"]
    assert second[1:] == ["court", "kgw"]
    assert first[0] in made.out
    public = json.loads(Path("public.json").read_text())
    assert [one["sha256"] for one in public["commitments"]] == [first[0], second[0]]
    assert public["made"].endswith("+00:00")
    told = made.out + shown.out + Path("public.json").read_text()
    salts = [mark["salt"] for mark in json.loads(Path("marks.json").read_text())["marks"]]
    assert len({*salts}) == 2
    for secret in (*keys("marks.json"), *salts):
        assert secret not in told
    run.refused(
        3, "watermark", "commitment", "marks.json", "--out", "public.json", says="exists already"
    )
    again = run("watermark", "commitment", "marks.json")
    assert again.out == shown.out


def test_a_z_that_is_next_to_nothing_has_no_sign():
    score = Score(z=-0.001, p_value=0.5, n=4, hits=2, chance=0.5)
    [_, line] = watermark._lines([("m", score)], 4.0)
    assert line.split()[:3] == ["m", "0.00", "0.5"]


def test_ids_of_marked_documents_are_no_hashes_of_content(run):
    make(run, "fictitious", "marked.jsonl", "marks.json")
    marked = Path("marked.jsonl").read_text()
    documents = corpus.read(Path("documents.jsonl"), template("fed_pii"))
    assert not any(document.id in marked for document in documents)
    assert '"doc-' in marked
