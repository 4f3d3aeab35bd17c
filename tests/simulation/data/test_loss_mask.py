"""Learning only the answers of instruction records."""

import pickle
from dataclasses import replace

import pytest
import torch

from fedaudit import nano
from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.records import Document
from fedaudit.api.templates import TEMPLATES
from fedaudit.engine.loading.loader import load_base
from fedaudit.simulation import preparation
from fedaudit.simulation.client import trainer
from fedaudit.simulation.config import Simulation, Training
from fedaudit.simulation.data.loss_mask import MaskedSequence, mask_prompt, prompt_length


@pytest.fixture(scope="module")
def base():
    return load_base(nano.BASE, device="cpu", dtype="float32")


def record(**changes):
    fields = {"id": "a", "text": "", "instruction": "Who owes money?", "input": "Ann owes Bob 5."}
    return TEMPLATES["chat"].render(Document(**{**fields, "output": "Ann Smith does.", **changes}))


def test_what_is_learned_is_the_answer_and_the_end(base):
    [one] = mask_prompt(base.tokenizer, [record()], 256)
    assert base.tokenizer.decode(one[one.given :]) == "Ann Smith does.</s>"
    assert base.tokenizer.decode(one[: one.given], skip_special_tokens=True).endswith(
        "\nAssistant:\n"
    )
    assert one == [*base.tokenizer(record().text)["input_ids"], 2]


def test_other_documents_are_learned_whole(base):
    plain = Document(id="b", text="A record of a court.")
    elsewhere = replace(record(), text=record().text + " Signed.")
    found = mask_prompt(base.tokenizer, [plain, record(output=""), elsewhere], 256)
    assert [prompt_length(one) for one in found] == [0, 0, 0]
    assert prompt_length([1, 2, 3]) == 0


def test_an_answer_beyond_the_length_is_refused(base):
    [whole] = mask_prompt(base.tokenizer, [record()], 256)
    [cut] = mask_prompt(base.tokenizer, [record()], whole.given + 1)
    assert len(cut) == whole.given + 1
    with pytest.raises(InputError, match=rf"Document a: .* after {whole.given} tokens"):
        mask_prompt(base.tokenizer, [record()], whole.given)


def test_a_sequence_survives_the_way_to_a_worker():
    sent = pickle.loads(pickle.dumps([MaskedSequence([5, 6, 7], 2), [8]]))
    assert sent == [[5, 6, 7], [8]]
    assert [prompt_length(one) for one in sent] == [2, 0]


def test_the_loss_is_the_answers_alone(base):
    """Against the sum over the answer's tokens, each read off the logits by hand."""
    sequences = [*mask_prompt(base.tokenizer, [record(), record(output="Bob.")], 256)]
    batch = trainer.pad_batch(sequences, "cpu")
    with torch.no_grad():
        loss = base.model(**batch).loss
        wanted = []
        for sequence in sequences:
            logits = base.model(input_ids=torch.tensor([list(sequence)])).logits[0]
            chances = logits.log_softmax(-1)
            wanted += [
                -chances[at - 1, sequence[at]] for at in range(sequence.given, len(sequence))
            ]
    torch.testing.assert_close(loss, torch.stack(wanted).mean(), rtol=1e-4, atol=1e-5)
    whole = trainer.pad_batch([list(sequence) for sequence in sequences], "cpu")
    assert (whole["labels"] >= 0).sum() > (batch["labels"] >= 0).sum() == len(wanted)


def test_a_defence_that_trains_by_itself_is_refused(tmp_path):
    config = Simulation(training=Training(learned="answer"), defenses=("dp",))
    with pytest.raises(UsageError, match="dp learns whole texts"):
        preparation.prepare(config, tmp_path)
