"""What other programs wrote: folders of their federations, records in tables, plain text."""

import csv
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import foreign_layouts
import mutations
from cases import OUT, Target, prose, structured, table, tensors

from fedaudit.api.plugin import PiiDetector
from fedaudit.api.templates import template
from fedaudit.config import registry
from fedaudit.conversion.pipeline import ImportRequest, import_federation
from fedaudit.data import corpus

Layout = Callable[[foreign_layouts.Run, Path], Path]


def _made(write: Layout, first: int = 1) -> Callable[[Path], None]:
    """Return what leaves two rounds of a run as a framework does."""

    def make(folder: Path) -> None:
        write(foreign_layouts.make_run(rounds=(first, first + 1)), folder / "src")

    return make


def _imported(folder: Path) -> None:
    import_federation(ImportRequest(source=folder / "src", out=folder / OUT / "fed"))


def _told(folder: Path) -> None:
    """Import weights alone, of which the user says the rest."""
    import_federation(
        ImportRequest(
            source=folder / "src",
            out=folder / OUT / "fed",
            base="fedaudit-nano",
            config=foreign_layouts.GIVEN,
        )
    )


ADAPTER = {"adapter_config.json": structured, "adapter_model.safetensors": tensors}


def _in(place: str) -> dict[str, Callable[..., bytes]]:
    return {f"{place}/{name}": change for name, change in ADAPTER.items()}


PEFT = {**_in("src/lora-r4/round_1/global"), **_in("src/lora-r4/round_2/client_0")}
TRAINER = {
    **_in("src/sft/checkpoint-1"),
    "src/sft/checkpoint-2/trainer_state.json": structured,
}
OPENFEDLLM = "src/output/alpaca_20000_fedavg_c3s2_i10_b16a1_l512_r4a16_20250131120000"
DUMPS = {
    f"{OPENFEDLLM}/args.json": structured,
    f"{OPENFEDLLM}/training_loss.npy": mutations.flipped,
    f"{OPENFEDLLM}/checkpoint-1/adapter_model.bin": mutations.flipped,
}
ARRAYS = {"src/round-1-weights.npz": mutations.flipped}


def _tables(folder: Path) -> None:
    pii = json.dumps([{"start": 0, "end": 7, "label": "PERSON"}])
    with (folder / "r.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [["id", "text", "pii"], ["a", "Ann Lee of York", pii], ["b", 'Say "no",\nBo', "[]"]]
        )


def _read_tables(folder: Path) -> None:
    found = list(corpus.read(folder / "r.csv", template("fed_pii")))
    corpus.write(folder / OUT / "r.jsonl", found)


def _texts(folder: Path) -> None:
    (folder / "t.txt").write_text(
        "Mr John Smith of 12 High Street, born 3 May 1980, met Dr. Anna-Maria O'Neill and Li Wei "
        "in Paris. Call +44 20 7946 0018 or write to ann@example.org; card 4111 1111 1111 1111. "
        "\u674e\u660e\u5148\u751f\u4f4f\u5728\u5317\u4eac\u5e02\uff0c\u7535\u8bdd13800138000\u3002",
        "utf-8",
    )


@cache
def _detectors() -> list[PiiDetector]:
    return [registry.create("detector", name, {}) for name in ("names", "presidio")]


def _read_texts(folder: Path) -> None:
    text = (folder / "t.txt").read_bytes().decode("utf-8", "surrogatepass")
    for detector in _detectors():
        [spans] = detector.detect([text])
        assert all(0 <= one.start < one.end <= len(text) for one in spans)


FOREIGN = {
    "folders": Target(_made(foreign_layouts.peft_folders), _imported, PEFT, 1),
    "checkpoints": Target(_made(foreign_layouts.trainer), _imported, TRAINER, 0.1),
    "dumps": Target(_made(foreign_layouts.openfedllm), _imported, DUMPS, 0.1),
    "arrays": Target(_made(foreign_layouts.flower_npz), _told, ARRAYS, 0.1, mixed=False),
    "tables": Target(_tables, _read_tables, {"r.csv": table}, 5),
    "texts": Target(_texts, _read_texts, {"t.txt": prose}, 1, mixed=False),
}
