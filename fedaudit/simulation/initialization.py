"""What a simulation starts from: documents dealt to clients, and the initial adapter."""

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import fedaudit.nano.generator as nano
from fedaudit.api.errors import InputError
from fedaudit.api.plugin import Aggregator
from fedaudit.api.records import Document
from fedaudit.api.templates import PromptTemplate
from fedaudit.canaries import canary_file
from fedaudit.config import registry
from fedaudit.config.options import table_of
from fedaudit.data import corpus
from fedaudit.federation import adapters, commitments, manifest, watermark_keys
from fedaudit.federation.manifest import (
    BaseModel,
    Counterfactual,
    Manifest,
    ManifestClient,
    Round,
    Template,
)
from fedaudit.nano import passages
from fedaudit.simulation.config import Simulation, Training
from fedaudit.simulation.data.canary_planting import plant_canaries
from fedaudit.simulation.data.client_files import read_client_files, sort_documents
from fedaudit.simulation.data.label_skew import LabelSkew, measure_label_skew, write_label_skew
from fedaudit.simulation.data.partition import deal_by_corpus, deal_documents
from fedaudit.simulation.data.watermarking import WatermarkedData, plant_watermarks
from fedaudit.system.files import atomic_folder, existing_path, sha256

if TYPE_CHECKING:
    from peft import LoraConfig

INITIAL = "rounds/000/global"


@dataclass(frozen=True, slots=True)
class DataSplit:
    """Documents by client, and those that are never trained on."""

    clients: list[list[Document]]
    held_out: list[Document]
    skew: LabelSkew | None = None


def documents(config: Simulation) -> list[Document]:
    """Return the simulation's documents, generated or read, sorted by the hash of their content.

    This way the order of the input changes neither a result nor which documents `records.limit`
    selects.
    """
    form = config.prompt_template
    settings = config.records
    if config.data == "nano" and settings.passages:
        result = list(
            passages.corpus(
                count=settings.passages, seed=config.seed, tasks=settings.tasks, template=form
            )
        )
    elif config.data == "nano":
        result = list(
            nano.corpus(
                cases=settings.cases,
                documents_per_case=settings.documents_per_case,
                seed=config.seed,
                languages=settings.languages,
                domains=settings.domains,
                tasks=settings.tasks,
                template=form,
                kinds=settings.kinds,
            )
        )
    else:
        result = list(corpus.read(Path(config.data), form))
    if any(document.is_prompt for document in result):
        raise InputError(f"{config.data} holds prompts ('prefix'); a federation needs documents.")
    result = sort_documents(result)
    return result[: settings.limit] if settings.limit else result


def set_aside(
    config: Simulation, all_documents: Sequence[Document]
) -> tuple[list[Document], list[Document]]:
    """Return the documents that are held out, and those that are dealt to clients."""
    count = 0 if config.test else int(len(all_documents) * config.held_out)
    return list(all_documents[:count]), list(all_documents[count:])


def split(config: Simulation, all_documents: Sequence[Document], base: Any) -> DataSplit:
    """Deal `all_documents`, or a few per cluster, to the clients; `base` computes embeddings.

    Held-out documents are set aside before the few documents are drawn.
    """
    held_out, training = set_aside(config, all_documents)
    if config.test:
        held_out = _read_test(config, training)
    labels: list[int] | None = None
    if config.few_shot.each:
        few_shot = config.few_shot
        every = _clusters(config, training, base, few_shot.clusters)
        training, labels = few_shot_documents(
            training, every, shots=few_shot.each, seed=config.seed
        )
    if len(training) < config.clients:
        raise InputError(
            f"{len(training)} documents are too few to train {config.clients} clients."
        )
    client_documents, skew = _deal_documents(config, training, base, labels)
    shares = zip(config.client_names, client_documents, strict=True)
    if empty := [name for name, share in shares if not share]:
        raise InputError(f"The partition leaves {empty[0]} without documents: lower `clients`.")
    return DataSplit(client_documents, held_out, skew)


def _read_test(config: Simulation, training: Sequence[Document]) -> list[Document]:
    """Return the documents of the test file, in an order of their own.

    Raises InputError if one of them is also trained on.
    """
    result = sort_documents(
        corpus.read(existing_path(Path(config.test), "file"), config.prompt_template)
    )
    training_texts = {document.text for document in training}
    if twice := next((d.id for d in result if d.text in training_texts), None):
        raise InputError(f"{config.test}: document {twice} is in {config.data} as well.")
    return result


def _deal_documents(
    config: Simulation, training: Sequence[Document], base: Any, labels: Sequence[int] | None
) -> tuple[list[list[Document]], LabelSkew | None]:
    """Return the documents of each client; `labels` are the clusters of `training`, if known."""
    partition = config.partition
    if partition.method == "corpus":
        return deal_by_corpus(training, clients=config.clients, seed=config.seed), None
    classes = _classes(config, training, base, labels)
    dealt = deal_documents(
        training,
        classes,
        clients=config.clients,
        alpha=None if partition.method == "iid" else partition.alpha,
        seed=config.seed,
        whole_groups=partition.whole_groups,
    )
    return dealt, measure_label_skew(partition, training, classes, dealt, config.seed)


def _classes(
    config: Simulation, training: Sequence[Document], base: Any, labels: Sequence[int] | None
) -> Sequence[int]:
    """Return the class of each document for a skewed partition."""
    partition = config.partition
    if partition.method == "iid":
        return [0] * len(training)
    if partition.method == "dirichlet":
        names = sorted({getattr(document, partition.by) for document in training})
        return [names.index(getattr(document, partition.by)) for document in training]
    return _clusters(config, training, base, partition.clusters) if labels is None else labels


def _clusters(config: Simulation, training: Sequence[Document], base: Any, count: int) -> list[int]:
    """Return the K-means cluster of each document's embedding."""
    from fedaudit.engine.embeddings import embed, kmeans_clusters, load_embedder

    name = config.partition.embedding
    model = load_embedder(name, device=config.device) if name else base
    return kmeans_clusters(embed(model, [d.text for d in training]), count, config.seed)


def create(config: Simulation, out: Path, base: Any, server: Aggregator) -> Manifest:
    """Write a new federation, with its data and initial adapter, into `out` atomically.

    `server` is the aggregation rule in force, which a defence may have changed.
    """
    if config.client_data:
        data_split = DataSplit(*read_client_files(config))
    else:
        data_split = split(config, documents(config), base)
    if config.records.copies:
        copied = [copies_of(share, config.records.copies) for share in data_split.clients]
        data_split = replace(data_split, clients=copied)
    watermarked = plant_watermarks(config, data_split.clients, data_split.held_out, base)
    planted, canaries = plant_canaries(config, watermarked.clients, data_split.held_out)
    names, remaining = select_participants(config, planted)
    data_split = replace(data_split, clients=remaining)
    with atomic_folder(out) as folder:
        _write_data(data_split, names, folder)
        initial_adapter(config, base, folder / INITIAL)
        if watermarked.marks:  # before training, as an owner would publish them
            published = [commitments.commitment(mark, mark.options) for mark in watermarked.marks]
            commitments.write(commitments.Commitments(commitments=tuple(published)), folder)
        new_manifest = _manifest(config, names, data_split, base, folder, server)
        if watermarked.marks:  # not hashed: the server's copy of the folder lacks it
            watermark_keys.write(watermarked.marks, folder / watermark_keys.OWNER)
            new_manifest = _with_truth(new_manifest, watermarked, config.client_names)
        if canaries:
            (folder / canary_file.OWNER).parent.mkdir(exist_ok=True)
            canary_file.write(canaries, folder / canary_file.OWNER)
        manifest.write(new_manifest, folder)
    return new_manifest


def copies_of(documents: Sequence[Document], numbers: Sequence[int]) -> list[Document]:
    """Return so many copies of each document, `numbers` taken in turn; the first keeps its id."""
    return [
        replace(document, id=f"{document.id}-copy-{copy}") if copy > 1 else document
        for document, number in zip(documents, cycle(numbers), strict=False)
        for copy in range(1, number + 1)
    ]


def _write_data(data_split: DataSplit, names: Sequence[str], folder: Path) -> None:
    (folder / "data").mkdir(mode=0o700)
    for name, share in zip(names, data_split.clients, strict=True):
        corpus.write(folder / f"data/{name}.jsonl", share)
    if data_split.held_out:
        corpus.write(folder / "data/held_out.jsonl", data_split.held_out)
    if data_split.skew:
        write_label_skew(data_split.skew, folder)


def lora_config(base: str, settings: Training) -> "LoraConfig":
    """Return the configuration of the adapters that clients train."""
    from peft import LoraConfig

    return LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=list(settings.targets),
        task_type="CAUSAL_LM",
        base_model_name_or_path=base,
    )


def initial_adapter(config: Simulation, base: Any, folder: Path) -> None:
    """Write the seeded adapter that round 1 starts from; its B is zero, so it changes nothing."""
    import torch

    from fedaudit.engine.loading.loader import tensors_of, with_adapter

    settings = config.training
    lora = lora_config(config.base, settings)
    # PEFT draws A on the CPU, so the seed gives the same adapter whatever the device.
    torch.manual_seed(config.seed)
    peft = with_adapter(base.model, lora, "initial", trainable=True)
    table = {**lora.to_dict(), "target_modules": sorted(settings.targets), "inference_mode": True}
    adapters.write(tensors_of(peft, "initial"), plain_config(table), folder)
    peft.unload()


def plain_config(table: Any) -> Any:
    """Return a configuration table as JSON can hold it."""
    if isinstance(table, dict):
        return {str(key): plain_config(value) for key, value in table.items()}
    if isinstance(table, list | tuple | set | frozenset):
        return [plain_config(item) for item in table]
    return table if table is None or isinstance(table, str | int | float | bool) else str(table)


def _manifest(
    config: Simulation,
    names: Sequence[str],
    data_split: DataSplit,
    base: Any,
    folder: Path,
    server: Aggregator,
) -> Manifest:
    total = sum(len(d) for d in data_split.clients)
    form: PromptTemplate = config.prompt_template
    return Manifest(
        base=BaseModel(name=config.base, sha256=base.sha256),
        clients=tuple(
            ManifestClient(id=n, examples=len(d), weight=len(d) / total, data=f"data/{n}.jsonl")
            for n, d in zip(names, data_split.clients, strict=True)
        ),
        rounds=(Round(round=0, adapter=INITIAL),),
        secure_aggregation=_secure(config),
        aggregation={"name": server.name, "options": table_of(server)},
        template=Template(
            name=form.name, with_input=form.with_input, without_input=form.without_input
        ),
        seeds={"simulation": config.seed},
        files=file_hashes(folder),
        config=config.table(),
        config_sha256=config.sha256(),
        counterfactual=origin(config),
    )


def _secure(config: Simulation) -> dict[str, Any] | None:
    name, options = config.secure_aggregation_plugin()
    if not name:
        return None
    chosen = registry.create("secure aggregation", name, options)
    design = {**asdict(config.queries), "seed": config.seed}
    return {"name": name, "options": asdict(chosen), "queries": design}


def _with_truth(
    new_manifest: Manifest, watermarked: WatermarkedData, names: Sequence[str]
) -> Manifest:
    """Return the manifest with the mark that each client got; `names` are those of all clients."""
    marks = {names[number]: mark for number, mark in watermarked.holders}
    clients = tuple(replace(c, watermark=marks.get(c.id, "")) for c in new_manifest.clients)
    return replace(new_manifest, clients=clients)


def file_hashes(folder: Path, below: str = ".") -> dict[str, str]:
    """Return the SHA-256 of every file below `folder/below`, by its path below `folder`."""
    files = {
        path.relative_to(folder): path
        for path in sorted((folder / below).rglob("*"))
        if path.is_file() and path.name != manifest.NAME
    }
    return {
        name.as_posix(): sha256(path)
        for name, path in files.items()
        if not any(part.startswith(".") for part in name.parts)
    }


T = TypeVar("T")


def select_participants(
    config: Simulation, client_documents: Sequence[T]
) -> tuple[list[str], list[T]]:
    """Return the names of the clients that are not left out, and the documents of each."""
    by_name = dict(zip(config.client_names, client_documents, strict=True))
    names = [name for name in by_name if name not in config.without]
    return names, [by_name[name] for name in names]


def origin(config: Simulation) -> dict[str, Any] | None:
    """Return the manifest entry on a counterfactual federation's origin; None for any other."""
    if not config.without:
        return None
    full_config = replace(config, without=())
    return asdict(Counterfactual(without=config.without, config_sha256=full_config.sha256()))


def few_shot_documents(
    documents: Sequence[Document], clusters: Sequence[int], *, shots: int, seed: int
) -> tuple[list[Document], list[int]]:
    """Return `shots` documents drawn at random from every cluster, with each one's cluster.

    A smaller cluster gives all of its documents. Documents stay in their order. The sample from a
    cluster depends only on the seed, the cluster's number and its documents.
    """
    members: dict[int, list[int]] = defaultdict(list)
    for index, cluster in enumerate(clusters):
        members[cluster].append(index)
    indices = sorted(
        i
        for cluster, pool in members.items()
        for i in random.Random(f"few shot {seed} {cluster}").sample(pool, min(shots, len(pool)))
    )
    return [documents[i] for i in indices], [clusters[i] for i in indices]
