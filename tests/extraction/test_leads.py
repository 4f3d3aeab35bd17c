"""What stands between a prompt and PII in one token: dropped from answers, and added to strings."""

from dataclasses import replace

import numpy as np
import pytest
import worked
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from toy_vocabularies import toy

from fedaudit.api.records import Document, PiiSpan, SamplingParams, Target, Tokens
from fedaudit.engine.fake import FakeEngine
from fedaudit.engine.local import LocalEngine
from fedaudit.extraction import sampling
from fedaudit.extraction.base_likelihood import base_probabilities, log_likelihoods
from fedaudit.extraction.candidates.observations import observe
from fedaudit.extraction.exact import walk
from fedaudit.extraction.exact.walk import walk_prefixes
from fedaudit.extraction.leads import StringsWithLeads, strip_leads, with_leads
from fedaudit.extraction.matcher import StrictMatcher, TargetMatcher, split_reduced
from fedaudit.extraction.prefixes import PiiOccurrence, pii_occurrences
from fedaudit.extraction.query_budget import limit_plan
from fedaudit.extraction.query_plan import Query, QueryPlan, plan_by_frequency, plan_in_order
from fedaudit.extraction.sampling import QueryParams, ResponseCache, ask_plan, share_responses

BASE = Target(name="base", adapter=None)
LLAMA = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+(?!\S)|\s+"
"""How Llama 3 cuts text before it joins bytes: one punctuation mark goes with the word behind."""


class Glued(FakeEngine):
    """Has a tokenizer like Llama 3's, and makes tokens of whole words."""

    def __init__(self, texts):
        super().__init__(lambda *_: "")
        self.made = Tokenizer(models.BPE())
        self.made.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(LLAMA), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        self.made.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=600,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        self.made.train_from_iterator(texts, trainer)

    def tokenize(self, texts):
        encoded = self.made.encode_batch(list(texts))
        return [Tokens(tuple(one.ids), tuple(one.offsets)) for one in encoded]


def document(text, *names):
    spans = tuple(
        PiiSpan(text.index(name), text.index(name) + len(name), "PERSON") for name in names
    )
    return Document(id=text, text=text, pii=spans)


def query(text, *leads, copies=1, kinds=(("PERSON", "."),)):
    ids = FakeEngine(lambda *_: "").tokenize([text])[0].ids
    return Query(ids, copies, kinds, leads=leads)


def plan(*queries):
    return QueryPlan(size=sum(one.copies for one in queries), queries=lambda: iter(queries))


def test_what_a_tokenizer_joins_to_the_pii_is_found_in_recitals():
    names = ["Anna Keller", "Olga Brown", "Ewa Novak"]
    documents = [document(f"The claimant came. Contact:{name}.", name) for name in names]
    documents += [document(f"原告：{name}来了", name) for name in names]
    documents += [document(f"Seen was {name} today", name) for name in names]
    engine = Glued([one.text for one in documents] * 9)
    found = pii_occurrences(engine, documents, 50)
    assert [place.leads for place in found] == [(":",)] * 3 + [("：",)] * 3 + [()] * 3
    matcher = TargetMatcher(names)
    for place, name in zip(found, names * 3, strict=True):
        recital = engine.made.decode(list(place.tokens))
        assert matcher.reduce(recital + "...", place.leads) == name
    assert not matcher.reduce(":Anna Keller")  # where nobody's PII stands so, it is text


def test_the_leads_of_a_prompt_are_those_of_all_its_occurrences():
    places = [
        PiiOccurrence(prefix=(1,), tokens=(), at_start=False, leads=leads)
        for leads in ((), (":",), ("(",), (":",))
    ]
    case = worked.case(FakeEngine(lambda *_: ""))
    [one] = plan_by_frequency(case, places).queries()
    assert (one.copies, one.leads) == (4, ("(", ":"))
    assert [q.leads for q in plan_in_order(case, places).queries()] == [(), (":",), ("(",), (":",)]
    [part] = limit_plan(
        plan_by_frequency(case, places), 2, seed=0, ordered=False, name="x"
    ).queries()
    assert (part.copies, part.leads) == (2, ("(", ":"))


@pytest.mark.parametrize(
    ("answer", "leads", "wanted"),
    [
        (":Ann Lee.", (":",), "Ann Lee"),
        (" :Ann Lee.", (":",), "Ann Lee"),
        ("Ann Lee.", (":",), "Ann Lee"),
        ("::Ann Lee.", (":",), ""),
        ("::Ann Lee.", (":", "::"), "Ann Lee"),
        (": Ann Lee.", (":",), ""),
        (":Ann Lee.", (), ""),
        ("+44 1", ("+",), "+44 1"),  # a string that begins so itself
        ("是Ann Lee", ("是",), "Ann Lee"),
    ],
)
def test_answers_by_hand(answer, leads, wanted):
    assert TargetMatcher(["Ann Lee", "+44 1", "44 1"]).reduce(answer, leads) == wanted


@settings(deadline=None)
@given(
    st.lists(st.text("ab:", min_size=1, max_size=3), min_size=1, max_size=4),
    st.lists(st.text("ab:", min_size=1, max_size=2), max_size=3),
    st.text("ab: ", max_size=6),
)
def test_all_that_an_answer_gives_begins_what_it_is_reduced_to(strings, leads, text):
    matcher, strict = TargetMatcher(strings), StrictMatcher(strings)
    begun, words = split_reduced(matcher.reduce(text, tuple(leads)))
    for said in strip_leads(text, tuple(leads)):
        given = {s for s in strings if said.lstrip().startswith(s)}
        if given:
            assert {s for s in strings if begun.startswith(s)} == given
            assert set(strict.hits(words)) == set(strict.hits(said))
            break
    else:
        assert not begun


@settings(deadline=None)
@given(
    st.sets(st.text("ab:", min_size=1, max_size=3), min_size=1, max_size=4),
    st.text("ab:", min_size=1, max_size=2),
    st.text("ab: ", max_size=6),
)
def test_an_answer_that_gives_a_string_begins_with_one_form_of_it(strings, lead, text):
    """The exact estimator adds up the forms: there must not be two, nor one too many."""
    made, leads = sorted(strings), (lead,)
    led = StringsWithLeads(made, leads)
    pairs = list(zip(led._owners, led._columns, strict=True))
    forms = {s: [led.forms[c] for owner, c in pairs if made[owner] == s] for s in made}
    begun = split_reduced(TargetMatcher(made).reduce(text, leads))[0]
    for string in made:
        count = sum(text.lstrip().startswith(form) for form in forms[string])
        assert count <= 1
        if begun.startswith(string):
            assert count == 1
        # A longer string that begins with the lead and is said hides what stands behind the lead.
        elif count:
            assert begun.startswith(lead)


def test_walks_and_samples_of_a_real_model_agree():
    engine = LocalEngine(toy())
    strings, prompts = ("a", "ab", "ba", "éa"), [(3, 4), (5,), (6, 3)]
    asked = plan(*[Query(p, leads=leads) for p, leads in zip(prompts, [("b",), (), ("b", "ab")],
                                                             strict=True)])  # fmt: skip
    params = QueryParams(samples=4000, new_tokens=3, decoding=SamplingParams())
    case = share_responses(replace(worked.case(engine), base=BASE), ResponseCache())
    matcher = TargetMatcher(strings)
    for _, one, texts in ask_plan(case, BASE, asked, params, matcher):
        alone = plan(replace(one, copies=1))
        found = walk_prefixes(case, BASE, alone, strings, params, 1e-9)
        chances = 1 - np.exp(found.log_least)
        drawn = [sum(split_reduced(t)[0].startswith(s) for t in texts) for s in strings]
        for count, chance in zip(drawn, chances, strict=True):
            assert abs(count - 4000 * chance) <= 4.5 * np.sqrt(4000 * chance * (1 - chance)) + 1
        if one.leads:
            plain = walk_prefixes(case, BASE, plan(replace(one, leads=())), strings, params, 1e-9)
            assert (chances >= 1 - np.exp(plain.log_least) - 1e-12).all()
            assert (chances > 1 - np.exp(plain.log_least) + 1e-3).any()


def test_a_walk_adds_up_a_string_with_and_without_its_lead():
    table = {"Ann": 0.25, ":Ann": 0.5, "Bob": 0.125, ":Bob": 0.0}
    fake = FakeEngine(lambda *_: "", chance=lambda target, prompt, string: table[string])
    case, params = (
        worked.case(fake),
        QueryParams(samples=1, new_tokens=5, decoding=SamplingParams()),
    )
    asked = plan(query("Contact", ":"), query("Seen"))
    found = walk_prefixes(case, worked.TUNED, asked, ("Ann", "Bob"), params, 1e-3)
    assert np.exp(found.log_least) == pytest.approx([(1 - 0.75) * 0.75, 0.875 * 0.875])


def test_answers_are_kept_by_their_leads():
    """What was reduced with other leads is not what these would have found."""
    fake = FakeEngine(lambda *_: ":Ann Lee.")
    case = share_responses(worked.case(fake), ResponseCache(2**20))
    params = QueryParams(samples=1, new_tokens=5, decoding=SamplingParams())
    for leads, wanted in (((), ""), ((":",), "Ann Lee"), ((), "")):
        asked = plan(query("Contact", *leads))
        matcher = TargetMatcher(["Ann Lee"])
        [(_, _, texts)] = ask_plan(case, worked.TUNED, asked, params, matcher)
        assert texts == [wanted]


@pytest.mark.parametrize("digest", [
    lambda one: sampling._digest_query(one, 1), lambda one: walk._digest_chunk([(0, one)])
])  # fmt: skip
def test_caches_tell_queries_by_their_leads(digest):
    assert (
        len({digest(query("Contact", *leads)) for leads in ((), (":",), ("(",), ("(", ":"))}) == 4
    )


def test_answers_go_on_where_a_lead_may_stand():
    assert with_leads(("a", "b"), [(), (":",), (":", "(")]) == [
        *("a", "b", "(a", "(b", ":a", ":b"),
    ]
    assert with_leads(("a", "b"), [()]) == ("a", "b")


ONCE = QueryParams(samples=1, new_tokens=5, decoding=SamplingParams())


def test_the_base_may_say_a_string_behind_a_lead():
    fake = FakeEngine(lambda *_: "", likelihood=lambda target, token, before: -1.0)
    case = replace(worked.case(fake), base=BASE)
    [one] = log_likelihoods(case, plan(query("Contact")), {"Ann": "PERSON"}).values()
    [two] = log_likelihoods(case, plan(query("Contact", ":")), {"Ann": "PERSON"}).values()
    colon = float(len(fake.tokenize([":Ann"])[0].ids))
    assert (one, two) == pytest.approx((-1, np.log(np.exp(-1) + np.exp(-colon))))
    mixed = plan(query("Contact", ":"), query("Seen"))
    rate = 2 * np.exp(-1) + np.exp(-colon)
    assert base_probabilities(case, mixed, ["Ann"], ONCE)["Ann"] == pytest.approx(-np.expm1(-rate))


def test_candidates_begin_behind_the_lead():
    case = worked.case(FakeEngine(lambda *_: ""))
    draws = observe(case, [(0, query("Contact", ":"), [":Zoe Quux. And", "Zoe Quux."])])
    [(key, seen)] = draws.new_strings.items()
    assert (key, seen.outputs, dict(seen.leads)) == (("Zoe Quux", "PERSON"), 2, {":": 1, "": 1})
