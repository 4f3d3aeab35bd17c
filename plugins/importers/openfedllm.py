"""OpenFedLLM and FedLLM-Bench: `checkpoint-<round>/`, `args.json` and `training_loss.npy`.

`training_loss.npy` has a row for each client and a column for each round, -1 where the client took
no part. Clients' adapters are not kept. Its two templates are those of its `utils/template.py`,
where an input is put behind the instruction (`utils/process_dataset.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from fedaudit.api import ForeignFederation, ForeignFolder, InputError, PromptTemplate

from .adapter_folders import STATE, NumberedFolders, below, parent

LOSS, ARGUMENTS = "training_loss.npy", "args.json"
ABSENT = -1
_ALPACA = (
    "Below is an instruction that describes a task. Write a response that appropriately completes "
    "the request.\n\n### Instruction:\n{} \n\n### Response: "
)
_VICUNA = (
    "A chat between a curious user and an artificial intelligence assistant. The assistant gives "
    "helpful, detailed, and polite answers to the user's questions. USER: {} ASSISTANT: "
)
TEMPLATES = {
    name: PromptTemplate(
        f"openfedllm_{name}", form.format("{instruction} {input}"), form.format("{instruction}")
    )
    for name, form in (("alpaca", _ALPACA), ("vicuna", _VICUNA))
}


@dataclass(frozen=True, kw_only=True)
class OpenFedLLM(NumberedFolders):
    """Read OpenFedLLM's and FedLLM-Bench's checkpoints and who took part in each round."""

    name: ClassVar[str] = "openfedllm"
    pattern: ClassVar[str] = r"checkpoint-(\d{1,9})"

    def holds(self, folder: ForeignFolder, path: str) -> bool:
        """Take those beside a file of losses, but none of steps that a client's trainer saved."""
        files = set(folder.files)
        return below(parent(path), LOSS) in files and below(path, STATE) not in files

    def read(self, run: ForeignFolder) -> ForeignFederation:
        """Return the rounds with their participants, and what args.json says."""
        federation = super().read(run)
        table = run.read_table(LOSS)
        rounds, notes = [], [*federation.notes]
        for entry in federation.rounds:
            column = [row[entry.round - 1] for row in table if 1 <= entry.round <= len(row)]
            if not column:
                notes.append(f"{LOSS} does not say who took part in round {entry.round}.")
            participants = [f"c{client}" for client, loss in enumerate(column) if loss != ABSENT]
            rounds.append(replace(entry, participants=tuple(participants)))
        federation = replace(federation, rounds=rounds, notes=tuple(notes))
        return _with_arguments(federation, run) if ARGUMENTS in run.files else federation


def _with_arguments(federation: ForeignFederation, run: ForeignFolder) -> ForeignFederation:
    table = run.read_json(ARGUMENTS)
    script, fed = (_table(table, name, run) for name in ("script_args", "fed_args"))
    rule, notes = str(fed.get("fed_alg") or "fedavg"), list(federation.notes)
    if rule.startswith("local"):
        notes.append(f"fed_alg is {rule}: these adapters are of one client that trained alone.")
        rule = "fedavg"
    return replace(
        federation,
        base=str(script.get("model_name_or_path") or ""),
        template=TEMPLATES.get(str(script.get("template"))),
        aggregation=rule,
        notes=tuple(notes),
    )


def _table(settings: Any, name: str, run: ForeignFolder) -> Mapping[str, Any]:
    section = settings.get(name) if isinstance(settings, dict) else None
    if not isinstance(section, dict):
        raise InputError(f"{run.name}/{ARGUMENTS} needs an object {name!r}.")
    return section
