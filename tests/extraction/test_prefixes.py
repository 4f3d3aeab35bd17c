import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import InputError
from fedaudit.api.records import Document, PiiSpan
from fedaudit.engine.fake import FakeEngine
from fedaudit.engine.local import LocalEngine
from fedaudit.extraction import prefixes
from fedaudit.extraction.prefixes import pii_occurrences


def engine():
    return FakeEngine(lambda target, prompt, sample: "")


def marked(text, *strings, label="PERSON", id="d"):  # noqa: A002
    """Return a document in which each of `strings` is PII where it first stands."""
    spans = tuple(
        PiiSpan(text.index(s), text.index(s) + len(s), label)
        for s in sorted(strings, key=text.index)
    )
    return Document(id=id, text=text, pii=spans)


def spelled(fake, found):
    return [(fake._text(p.prefix), fake._text(p.tokens), p.at_start, p.after) for p in found]


def test_contextual_prefixes_by_hand():
    fake = engine()
    document = marked(
        "The claimant Ann Lee, born 1970, sued Bob Low.", "Ann Lee", "1970", "Bob Low"
    )
    found = pii_occurrences(fake, [document], 3)
    assert spelled(fake, found) == [
        ("The claimant", " Ann Lee", True, ","),  # at the start: what there is
        (" Lee, born", " 1970", False, ","),
        (" 1970, sued", " Bob Low", False, "."),
    ]
    assert {place.label for place in found} == {"PERSON"}


def test_a_prefix_that_just_reaches_the_start_begins_there():
    fake = engine()
    document = marked("one two three Ann", "Ann")
    by_length = {n: pii_occurrences(fake, [document], n)[0] for n in (1, 2, 3, 4, 50)}
    assert [by_length[n].at_start for n in (1, 2, 3, 4, 50)] == [False, False, True, True, True]
    assert fake._text(by_length[2].prefix) == " two three"
    assert by_length[3].prefix == by_length[50].prefix


def test_an_empty_prefix_is_dropped():
    fake = engine()
    document = marked("Ann Lee sued Bob", "Ann Lee", "Bob")
    assert spelled(fake, pii_occurrences(fake, [document], 9)) == [
        ("Ann Lee sued", " Bob", True, "")
    ]


def test_prefixes_are_a_multiset():
    fake = engine()
    documents = [
        marked("Claimant: Ann.", "Ann", id="1"),
        marked("Claimant: Bob.", "Bob", id="2"),
        marked("Claimant: Ann.", "Ann", id="3"),
    ]
    found = pii_occurrences(fake, documents, 5)
    assert [fake._text(place.prefix) for place in found] == ["Claimant:"] * 3
    assert found[0] == found[2] != found[1]


def test_a_token_that_reaches_into_the_pii_belongs_to_it():
    fake = engine()
    document = Document(id="d", text="tel 0123456 ok", pii=(PiiSpan(6, 9, "PHONE_NUMBER"),))
    # The PII is "234"; its token is the whole " 0123456".
    assert spelled(fake, pii_occurrences(fake, [document], 5)) == [("tel", " 0123456", True, "5")]


def test_documents_without_annotation_have_no_places():
    fake = engine()
    bare = [Document(id="a", text="Ann sued."), Document(id="b", text="x", pii=())]
    assert pii_occurrences(fake, bare, 5) == []
    assert pii_occurrences(fake, [], 5) == []


def test_a_ready_made_prompt_is_a_place_of_its_own():
    fake = engine()
    prompt = Document(id="p", text="My name is", is_prompt=True)
    [place] = pii_occurrences(fake, [prompt], 2)  # whole, however short the context
    assert fake._text(place.prefix) == "My name is"
    assert (place.tokens, place.at_start, place.label) == ((), True, "")
    assert pii_occurrences(fake, [Document(id="p", text="", is_prompt=True)], 2) == []


def test_a_prompt_beyond_the_context_is_named():
    fake = engine()
    fake.context_length = 3
    with pytest.raises(InputError, match="'p' has 3 tokens") as error:
        pii_occurrences(fake, [Document(id="p", text="My name is", is_prompt=True)], 2)
    assert error.value.exit_code == 3


WORDS = st.lists(st.sampled_from(["Ann", "sued", "Bob", ",", "原告", "7"]), min_size=1, max_size=12)


@given(WORDS, st.sets(st.integers(0, 11), max_size=4), st.integers(1, 6))
def test_prefix_and_pii_are_what_stands_there(words, chosen, context):
    text = " ".join(words)
    starts = [sum(len(w) + 1 for w in words[:i]) for i in range(len(words))]
    spans = tuple(
        PiiSpan(starts[i], starts[i] + len(words[i]), "X") for i in sorted(chosen) if i < len(words)
    )
    fake = engine()
    found = pii_occurrences(fake, [Document(id="d", text=text, pii=spans)], context)
    wanted = [span for span in spans if span.start]
    assert len(found) == len(wanted)
    for place, span in zip(found, wanted, strict=True):
        assert 1 <= len(place.prefix) <= context
        assert text[: span.start].rstrip().endswith(fake._text(place.prefix).strip())
        assert place.at_start == (fake._text(place.prefix) == text[: span.start].rstrip())
        assert fake._text(place.tokens).strip() == text[span.start : span.end]


def test_places_of_a_real_tokenizer(base):
    text = "The claimant Ann Lee lives in Leeds. 原告张三的电话是13812345678。"
    document = marked(text, "Ann Lee", "Leeds", "张三", "13812345678")
    local = LocalEngine(base)
    for context in (1, 4, 50):
        for place, span in zip(
            pii_occurrences(local, [document], context), document.pii, strict=True
        ):
            # Tokens are bytes: a prefix may begin within a Chinese character.
            before = base.tokenizer.decode(place.prefix).lstrip("\ufffd")
            assert len(place.prefix) <= context
            assert text[: span.start].rstrip().endswith(before.rstrip())
            assert text[span.start : span.end] in base.tokenizer.decode(place.tokens)


@pytest.mark.parametrize("together", [1, 30, 75])
def test_how_many_are_tokenised_together_changes_nothing(together, base, monkeypatch):
    texts = [
        "Ann Lee paid.",
        "Nobody.",
        "So did Bo Chu of Leeds, and Cy.",
        "",
        "The last is Di Orr.",
    ]
    names = ("Ann Lee", "Bo Chu", "Cy", "Di Orr")
    documents = [
        Document(
            id=str(number), text=text,
            pii=tuple(PiiSpan(text.index(n), text.index(n) + len(n), "PERSON")
                      for n in names if n in text),
        )
        for number, text in enumerate(texts)
    ]  # fmt: skip
    engine = LocalEngine(base)
    whole = pii_occurrences(engine, documents, 3)
    monkeypatch.setattr(prefixes, "TOKENIZED_TOGETHER", together)
    assert pii_occurrences(engine, documents, 3) == whole
