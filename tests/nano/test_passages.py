"""Passages: who gets which, how long they are, and how little two of them have in common."""

import random
from collections import Counter
from dataclasses import replace
from difflib import SequenceMatcher

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit import nano
from fedaudit.api.errors import UsageError
from fedaudit.api.templates import TEMPLATES
from fedaudit.metrics.overlap import compare
from fedaudit.nano import passages
from fedaudit.simulation.config import Simulation
from fedaudit.simulation.data.partition import corpus_of
from fedaudit.simulation.data.settings import Partition, Records
from fedaudit.simulation.initialization import documents, split

DOMAINS = {domain["name"]: domain for domain in passages.read_grammar()["domain"]}


def some(count=30, seed=3, tasks=passages.TASKS, **changes):
    return list(passages.corpus(count=count, seed=seed, tasks=tasks, **changes))


@pytest.fixture(scope="module")
def tokenizer():
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(nano.folder())


def test_every_task_has_three_domains_of_its_own():
    for task in passages.TASKS:
        assert len(passages.task_domains(task)) == 3
    assert len({name for task in passages.TASKS for name in passages.task_domains(task)}) == 12


def test_every_list_of_words_is_used_and_every_slot_has_one():
    for domain in DOMAINS.values():
        words, used = domain["words"], set(domain["once"])
        frames = [*domain.get("given", []), *domain.get("answer", []), *domain.get("question", [])]
        frames += [text for own in domain.get("classes", {}).values() for text in own]
        texts = frames + [value for values in words.values() for value in values]
        used |= {slot for text in texts for slot in passages.SLOT.findall(text)}
        assert used == set(words), domain["name"]
        for values in words.values():
            assert len(values) == len(set(values))


def test_no_slot_is_left_and_sentences_begin_with_a_capital():
    for document in some(60):
        for text in (document.input, document.output, document.instruction):
            assert "{" not in text
            assert text[0] == text[0].upper()
            assert all(part[0] == part[0].upper() for part in text.split(". "))


def test_the_instructions_are_the_papers():
    of = {d.task: d.instruction for d in some(1)}
    assert of["summary"] == "Please summarize the following abstract into a title."
    assert of["dialogue"].startswith("If you are a doctor, please answer the medical questions")
    assert of["classification"].endswith("METHODS, RESULTS, or CONCLUSIONS.")
    questions = {d.instruction for d in some(30, tasks=["question_answering"])}
    assert len(questions) > 45
    assert all(question.endswith("?") for question in questions)


def test_an_answer_says_in_its_own_words_what_the_input_says():
    for document in some(60, tasks=passages.TASKS[:3]):
        domain = DOMAINS[corpus_of(document)]
        slot = domain["once"][0]
        assert slot in ("finding", "complaint")
        texts = document.input.lower(), document.output.lower()
        assert SequenceMatcher(None, *texts, autojunk=False).find_longest_match().size >= 30


def test_classes_are_the_papers_five_and_all_come_up():
    counts = Counter(d.output for d in some(100, tasks=["classification"]))
    assert set(counts) == {"BACKGROUND", "OBJECTIVE", "METHODS", "RESULTS", "CONCLUSIONS"}
    # 300 draws of one in five: 60 with a deviation of 6.9; five of them are 35.
    assert all(25 <= count <= 95 for count in counts.values())


@pytest.mark.parametrize("task", passages.TASKS)
def test_texts_can_be_cut_at_thirty_tokens_and_only_classes_are_too_short_to_find(tokenizer, task):
    inputs, outputs = [], []
    for document in some(40, tasks=[task]):
        inputs.append(len(tokenizer(document.input, add_special_tokens=False)["input_ids"]))
        outputs.append(len(document.output))
        assert len(tokenizer(document.text)["input_ids"]) < 256
    assert min(inputs) >= 30 + 20
    assert max(inputs) <= 150
    long = sum(length > 50 for length in outputs) / len(outputs)
    assert long == 0 if task == "classification" else long > 0.9


@pytest.mark.parametrize("task", passages.TASKS)
def test_two_passages_share_hardly_anything(task):
    by_domain, rng = {}, random.Random(5)
    for document in some(40, tasks=[task]):
        by_domain.setdefault(corpus_of(document), []).append(document.input)
    names = sorted(by_domain)
    within, across = Counter(), Counter()
    for _ in range(300):
        own, other = rng.sample(names, 2)
        within[compare(*rng.sample(by_domain[own], 2)).verdict] += 1
        one, another = rng.choice(by_domain[own]), rng.choice(by_domain[other])
        across[compare(one, another).verdict] += 1
    assert within["verbatim"] + within["idea"] <= 6  # 2 in 100
    assert across["verbatim"] + across["idea"] == 0
    # Stock phrases of a domain make a few pairs alike, as in real text.
    assert within["candidate"] <= 45
    assert across["candidate"] <= 3


@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(0, 6), st.sampled_from(passages.TASKS))
def test_a_passage_depends_on_its_seed_and_number_only(seed, count, more, task):
    few = some(count, seed, [task])
    many = {document.id: document for document in some(count + more, seed, passages.TASKS)}
    assert all(many[document.id] == document for document in few)


def test_a_simulation_takes_passages_in_place_of_case_files():
    records = Records(passages=12, tasks=("summary",))
    config = Simulation(
        clients=3, template="chat", records=records, partition=Partition(method="corpus")
    )
    found = documents(config)
    assert len(found) == 36
    assert {document.task for document in found} == {"summary"}
    assert found == documents(config)
    dealt = split(config, found, base=None)
    assert [len({corpus_of(d) for d in own}) for own in dealt.clients] == [1, 1, 1]
    assert len(dealt.held_out) == 3
    other = documents(replace(config, seed=1))
    assert not {d.text for d in other} & {d.text for d in found}


def test_passages_have_no_personal_data_and_are_their_rendered_fields():
    for document in some(5, template=TEMPLATES["alpaca"]):
        assert document.pii == ()
        prompt = TEMPLATES["alpaca"].prompt(document.instruction, document.input)
        assert document.text == prompt + document.output


@pytest.mark.parametrize("tasks", [(), ("record",), ("summary", "essay")], ids=str)
def test_what_there_is_no_grammar_for_is_refused(tasks):
    with pytest.raises(UsageError, match="task of nano passages"):
        some(tasks=tasks)
