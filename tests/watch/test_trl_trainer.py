"""The callback within TRL's trainer, which brings a dataset and the adapter itself."""

import json
import random

import pytest
from peft import LoraConfig, PeftModel

from fedaudit.report.document import read
from fedaudit.watch.member import LimitPassed
from fedaudit.watch.trainer import watch

LORA = LoraConfig(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj", "up_proj"],
                  task_type="CAUSAL_LM")  # fmt: skip


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
def test_a_tuned_model_is_tested_and_refused_before_its_next_round(
    fresh_base, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    trl = pytest.importorskip("trl")
    from datasets import Dataset
    from datasets.table import InMemoryTable

    rng = random.Random(4)
    texts = [f"Ann Lee paid for {rng.randrange(10**23, 10**24)}." for _ in range(80)]
    for name, part in (("ours", texts[:40]), ("aside", texts[40:])):
        lines = (json.dumps({"text": text}) + "\n" for text in part)
        (tmp_path / f"{name}.jsonl").write_text("".join(lines))
    rows = {"input_ids": [fresh_base.tokenizer(text)["input_ids"] for text in texts[:40]]}
    # Named, since its own name for a table is the hash of a pickle that some pyarrows have not.
    data = Dataset(InMemoryTable.from_pydict(rows), fingerprint="ours")

    def trained(model, steps, config):
        arguments = trl.SFTConfig(
            output_dir=str(tmp_path / "trainer"), max_steps=steps, per_device_train_batch_size=8,
            learning_rate=1e-2, use_cpu=True, bf16=False, report_to=[], save_strategy="no",
            disable_tqdm=True, dataset_kwargs={"skip_prepare_dataset": True},
        )  # fmt: skip
        callback = watch(
            ours=tmp_path / "ours.jsonl", held_out=tmp_path / "aside.jsonl", out=tmp_path / "out"
        )
        trainer = trl.SFTTrainer(
            model=model, args=arguments, train_dataset=data, peft_config=config,
            processing_class=fresh_base.tokenizer, callbacks=[callback],
        )  # fmt: skip
        trainer.train()
        return trainer.model

    model = trained(fresh_base.model, 100, LORA)
    assert isinstance(model, PeftModel)
    assert "nothing to test yet" in capsys.readouterr().err
    with pytest.raises(LimitPassed, match=r"after round 1 at least \d+ .* of 40 records"):
        trained(model, 1, None)
    assert read(tmp_path / "out/report.json")["verdict"]["status"] == "fail"
