"""From a foreign folder to a federation's: the steps of `fedaudit import`.

Training moves an adapter little by little: A and B of neighbouring rounds point in much the same
direction. Where a round's adapter is merged into the base and a new one is drawn (ReLoRA, FLoRA),
both are as good as orthogonal, to about the root of the number of their elements.

With clients' adapters c_i, their plain mean m, D_i = c_i - m and a global adapter g, the distance
of g from sum_i p_i c_i (sum_i p_i = 1) depends only on the matrix <D_i, D_j>, the vector
<D_i, g - m> and |g - m|^2. These add up over tensors, so tensors are read one by one.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.api import templates
from fedaudit.api.errors import InputError
from fedaudit.api.importer import ForeignFederation, ForeignRound
from fedaudit.conversion import bases, configuration, recognition, writer
from fedaudit.conversion.source import SourceFolder
from fedaudit.federation import adapter_origin, adapters, manifest
from fedaudit.federation.folder import client_order, name_rounds
from fedaudit.system.files import existing_parent, sha256
from fedaudit.system.locks import locked
from fedaudit.system.names import check_name

if TYPE_CHECKING:
    import numpy as np
    import torch


CLOSE = 0.01
"""How far a global adapter may be from the mean, as a share of the clients' spread."""
ROUNDING = {"float64": 1e-6, "float32": 1e-6, "float16": 2e-3, "bfloat16": 2e-2}
"""The further distance allowed, as a share of its norm, by dtype, to which means are rounded."""


@dataclass(frozen=True, slots=True)
class MeanFit:
    """How a round's global adapter compares with its clients'."""

    clients: tuple[str, ...]
    gram: "np.ndarray[Any, Any]"
    """<D_i, D_j>, of clients and clients."""
    products: "np.ndarray[Any, Any]"
    """<D_i, g - m>, of clients."""
    size: float
    """|g - m|^2."""
    rounding: float
    """The most that rounding may add to the distance."""

    def distance(self, weights: Mapping[str, float]) -> float:
        """Return |g - sum_i p_i c_i|, where p are the weights divided by their sum."""
        import numpy as np

        values = np.array([weights[client] for client in self.clients], dtype=np.float64)
        p = values / values.sum()
        squared = self.size - 2 * p @ self.products + p @ self.gram @ p
        return math.sqrt(max(float(squared), 0.0))

    @property
    def spread(self) -> float:
        """The clients' root mean square distance from their mean, sqrt(mean of |D_i|^2)."""
        return math.sqrt(float(self.gram.trace()) / len(self.clients))

    def is_mean(self, weights: Mapping[str, float]) -> bool:
        """Tell whether the global adapter is the mean with these weights."""
        return self.distance(weights) <= CLOSE * self.spread + self.rounding

    def best(self) -> dict[str, float]:
        """Return the weights, with a sum of 1, whose mean is nearest to the global adapter."""
        import numpy as np

        shift = np.linalg.pinv(self.gram, rcond=1e-9) @ self.products
        p = 1 / len(self.clients) + shift - shift.mean()
        return {client: float(value) for client, value in zip(self.clients, p, strict=True)}


@contextmanager
def _aligned(
    folders: Sequence[Path],
) -> Iterator["Iterator[tuple[str, list[torch.Tensor]]] | None"]:
    """Give each tensor's name and what each adapter has of it; None if names or shapes differ."""
    from safetensors import safe_open

    with ExitStack() as stack:
        files = [
            stack.enter_context(safe_open(folder / adapters.WEIGHTS, "pt")) for folder in folders
        ]
        keys = [{adapters.canonical(key): key for key in file.keys()} for file in files]  # noqa: SIM118
        shapes = [
            {name: file.get_slice(key).get_shape() for name, key in table.items()}
            for file, table in zip(files, keys, strict=True)
        ]
        yield (
            None
            if any(one != shapes[0] for one in shapes)
            else (
                (
                    name,
                    [file.get_tensor(table[name]) for file, table in zip(files, keys, strict=True)],
                )
                for name in keys[0]
            )
        )


def fit(global_folder: Path, clients: Mapping[str, Path]) -> MeanFit | None:
    """Return how a global adapter compares with the clients'; None if names or shapes differ.

    Each folder holds an adapter that has been checked.
    """
    import numpy as np

    names = tuple(sorted(clients))
    gram, products = np.zeros((len(names), len(names))), np.zeros(len(names))
    size, norm, rounding = 0.0, 0.0, 0.0
    with _aligned([global_folder, *(clients[name] for name in names)]) as rows_by_name:
        if rows_by_name is None:
            return None
        for _, tensors in rows_by_name:
            kinds = {str(tensor.dtype).removeprefix("torch.") for tensor in tensors}
            rounding = max(rounding, *(ROUNDING.get(kind, 1.0) for kind in kinds))
            rows = np.stack([tensor.double().flatten().numpy() for tensor in tensors])
            mean = rows[1:].mean(axis=0)
            deviations, moved = rows[1:] - mean, rows[0] - mean
            gram += deviations @ deviations.T
            products += deviations @ moved
            size += float(moved @ moved)
            norm += float(rows[0] @ rows[0])
    return MeanFit(names, gram, products, size, rounding * math.sqrt(norm))


def weights_of(fits: Sequence[MeanFit]) -> dict[str, float]:
    """Return clients' weights under which as many rounds as possible are weighted means.

    All clients get the same weight if that fits every round. Otherwise the best weights of each
    round are put on one scale by means of the clients that rounds share; a client whose weight no
    round determines gets 1.
    """
    everybody = sorted({client for f in fits for client in f.clients})
    equal = dict.fromkeys(everybody, 1.0)
    if all(f.is_mean(equal) for f in fits):
        return equal
    weights: dict[str, float] = {}
    for mean_fit in sorted(fits, key=lambda mean_fit: -len(mean_fit.clients)):
        best = mean_fit.best()
        if not mean_fit.is_mean(best) or min(best.values()) <= 0:
            continue
        shared = [client for client in best if client in weights]
        scale = sum(weights[w] for w in shared) / sum(best[w] for w in shared) if shared else 1.0
        weights |= {
            client: value * scale for client, value in best.items() if client not in weights
        }
    mean = sum(weights.values()) / len(weights) if weights else 1.0
    return equal | {client: value / mean for client, value in weights.items()}


ROUNDS = "rounds"
MAX_ROUND = 10**9
"""The largest number of a round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRequest:
    """The arguments of `fedaudit import`."""

    source: Path
    out: Path
    layout: str = ""
    base: str = ""
    config: str = ""
    """LoRA's settings, or a file of them, for adapters that come without."""
    template: str = ""
    """The prompt template of records; empty takes that of the framework."""


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import."""

    layout: str
    run: Path
    """The folder that the run was found in."""
    manifest: manifest.Manifest
    notes: Sequence[str]


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A recognized run with its layout, contents and base."""

    layout: str
    run: SourceFolder
    federation: ForeignFederation
    base: str

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user must know of the files, some of which the import does not use."""
        return (*self.federation.notes, *_links(self.run), *_empty_folders(self))

    def hashes(self) -> dict[str, str]:
        """Return the SHA-256 of every file that an import uses, by its name in the source."""
        every = [move.adapter for move in writer.moves(self.federation)]
        names = {name for adapter in every for name in (adapter.weights, adapter.config) if name}
        for move in writer.moves(self.federation):
            names |= set(writer.saved_tokenizer(self.run, move).values())
        return {name: sha256(self.run.file_path(name)) for name in sorted(names)}


def import_federation(request: ImportRequest) -> Imported:
    """Write the federation in a foreign folder as one of ours; the source stays as it is.

    Raises InputError or UsageError, with a message of one line, for an unknown layout, for
    information that neither the files nor the user gave, and for adapters that no audit could load.
    """
    check_out(request.out)
    return write(find(request, recognition.open_source(request.source)), request)


def write(found_run: FoundRun, request: ImportRequest) -> Imported:
    """Write a recognized run as a federation into `request.out`."""
    config, form = configuration.parse(request.config), _template(request.template)
    with locked(request.out, f"Another process is importing into {request.out}."):
        written = writer.Writer(found_run.run, request.out, found_run.base, config)
        written.write(found_run.federation)
        rounds = found_run.federation.rounds
        compared = dict(_mean_fits(found_run.federation, request.out))
        fits = {number: one for number, one in compared.items() if one is not None}
        weights = weights_of(list(fits.values()))
        notes = [
            *found_run.notes,
            *written.notes,
            *_origin_notes(found_run),
            *restart_notes({one.round: request.out / _global_folder(one) for one in rounds}),
            *mean_notes(fits, weights),
            *uncompared_notes(compared),
        ]
        chosen = form or found_run.federation.template
        if chosen is None and (chosen := _saved_template(found_run, request.out)):
            notes.append("How records became text: by the chat template saved with the adapters.")
        if chosen is None:
            chosen = templates.template("fed_pii")
            notes.append(
                f"How records became text is not said: the template {chosen.name} is taken."
            )
        new_manifest = _manifest(found_run, weights, chosen, notes, request.out)
        manifest.write(new_manifest, request.out)
    return Imported(found_run.layout, found_run.run.path, new_manifest, notes)


def _saved_template(found_run: FoundRun, out: Path) -> templates.PromptTemplate | None:
    """Return the chat template saved with the last global adapter, unless it is the base's."""
    last = found_run.federation.rounds[-1].round if found_run.federation.rounds else 0
    folder, base = out / f"{ROUNDS}/{last:03d}/global", bases.folder(found_run.base)
    if base is None or not adapters.tokenizer_files(folder):
        return None
    from fedaudit.engine.loading import saved_tokenizer

    saved = adapter_origin.saved_tokenizer(folder, base)
    return saved_tokenizer.chat_template(folder, base) if saved and saved.template else None


def check_out(out: Path) -> None:
    """Raise InputError unless a federation can be written to `out`.

    Only the rounds of an import without a manifest may be there already.
    """
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; OUT is a folder.")
    if out.is_dir():
        names = sorted(path.name for path in out.iterdir() if not path.name.startswith("."))
        if set(names) - {ROUNDS}:
            raise InputError(f"{out} holds {names[0]} already: name a new folder.")
    existing_parent(out)


def _template(name: str) -> templates.PromptTemplate | None:
    return templates.template(name) if name else None


def find(request: ImportRequest, source: SourceFolder) -> FoundRun:
    """Return the run in a foreign folder, without writing anything."""
    given, _ = configuration.parse(request.config), _template(request.template)  # errors first
    importer, run = recognition.recognize(source, request.layout)
    federation = importer.read(run)
    _check(federation, run)
    if request.config and not _bare(federation):
        for path, own in _own_configs(federation, run):
            configuration.check_agreement(given, own, path)
    if not (request.base or federation.base or any(_named_bases(federation, run))):
        lacking = (
            "" if request.config or not _bare(federation) else f" --config {configuration.FORM}"
        )
        also = " and LoRA's settings" if lacking else ""
        raise InputError(
            f"{run.path} does not say what its base is: name it{also} with --base FOLDER{lacking} "
            "(fedaudit import)."
        )
    base = bases.choose(
        request.base,
        [federation.base] if federation.base else _named_bases(federation, run),
        run.path,
    )
    return FoundRun(importer.name, run, federation, base)


def _check(federation: ForeignFederation, run: SourceFolder) -> None:
    """Raise InputError for rounds and clients that no federation's folder can have."""
    if not federation.rounds:
        notes = " ".join(federation.notes)
        raise InputError(f"{run.path} holds no round with a global adapter. {notes}".strip())
    before = -1
    for round_ in federation.rounds:
        if not before < round_.round < MAX_ROUND:
            raise InputError(f"{run.path}: round {round_.round} stands behind round {before}.")
        before = round_.round
        for client in (*round_.clients, *round_.participants):
            check_name(client, run.path, "the client")


def _bare(federation: ForeignFederation) -> bool:
    """Tell whether an adapter comes without a configuration."""
    return not all(move.adapter.config for move in writer.moves(federation))


def _named_bases(federation: ForeignFederation, run: SourceFolder) -> Iterator[str]:
    """Yield the bases that the adapters' own configurations name."""
    for _, config in _own_configs(federation, run):
        yield str(config.get("base_model_name_or_path") or "")


def _own_configs(
    federation: ForeignFederation, run: SourceFolder
) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield the path and the content of each configuration that adapters came with."""
    every = {move.adapter.config for move in writer.moves(federation)} - {""}
    for name in sorted(every):
        path = run.file_path(name)
        yield path, configuration.read(path, f"There is no {name}.")


def _links(run: SourceFolder) -> list[str]:
    if not run.links:
        return []
    count = len(run.links)
    return ["1 link was not followed." if count == 1 else f"{count:,} links were not followed."]


def _empty_folders(found_run: FoundRun) -> Iterator[str]:
    """Yield a note on each empty folder that is called as an adapter's is, but for numbers."""
    moves = writer.moves(found_run.federation)
    used = {re.sub(r"\d+", "#", move.adapter.weights.rpartition("/")[0]) for move in moves}
    for name in sorted(found_run.run.empty):
        if re.sub(r"\d+", "#", name) in used:
            yield f"{name} is left out: it is empty."


def _global_folder(round_: ForeignRound) -> str:
    return f"{ROUNDS}/{round_.round:03d}/global"


def _origin_notes(found_run: FoundRun) -> list[str]:
    """Return notes on signs that a round's adapter belongs to another base than the one named."""
    run, notes = found_run.run, []
    for round_ in found_run.federation.rounds:
        place = round_.adapter.weights.rpartition("/")[0]
        if not place:
            continue  # what lies there may belong to any round
        inside = [n.removeprefix(f"{place}/") for n in run.files if n.startswith(f"{place}/")]
        notes += adapter_origin.merged_base_caveats(run.path / place, inside, found_run.base)
    return notes


def _mean_fits(federation: ForeignFederation, out: Path) -> Iterator[tuple[int, MeanFit | None]]:
    """Yield the number and MeanFit of each round that has all its participants' adapters.

    None stands for adapters that cannot be compared tensor by tensor.
    """
    for round_ in federation.rounds:
        if not round_.clients or set(round_.participants or round_.clients) - set(round_.clients):
            continue
        folder = out / ROUNDS / f"{round_.round:03d}"
        yield (
            round_.round,
            fit(
                folder / "global",
                {client: folder / "clients" / client for client in round_.clients},
            ),
        )


def mean_notes(fits: Mapping[int, MeanFit], weights: Mapping[str, float]) -> Iterator[str]:
    """Yield notes on which global adapters are a mean of the clients', and how far others are."""
    if not fits:
        return
    good = [number for number, fit in fits.items() if fit.is_mean(weights)]
    if good:
        equal = len(set(weights.values())) == 1
        how = "the plain mean of its clients'"
        if not equal:
            how = "the weighted mean of its clients', by weights worked out from these adapters"
        yield f"Checked: in {name_rounds(good)} the global adapter is {how}."
    for number, fit in fits.items():
        if number not in good:
            off = fit.distance(weights) / fit.spread if fit.spread else float("inf")
            share = f"{100 * off:,.0f} % of what tells clients apart" if fit.spread else "all it is"
            yield (
                f"Round {number}: the global adapter is not a mean of its clients' (off by "
                f"{share}): "
                "another rule, noise, or a file of another round."
            )


def uncompared_notes(compared: Mapping[int, MeanFit | None]) -> Iterator[str]:
    """Yield a note on the rounds whose adapters have other names or shapes, such as other ranks."""
    if other := [number for number, fit in compared.items() if fit is None]:
        yield (
            f"Not checked: whether in {name_rounds(other)} the global adapter is a mean of its "
            "clients', which have other ranks or modules, as in HetLoRA. A mean of A and of B is "
            "then none of their products."
        )


def _manifest(
    found_run: FoundRun,
    weights: Mapping[str, float],
    form: templates.PromptTemplate,
    notes: Sequence[str],
    out: Path,
) -> manifest.Manifest:
    rounds = tuple(_round(round_) for round_ in found_run.federation.rounds)
    clients = sorted(
        {name for r in rounds for name in (*r.participants, *r.clients)}, key=client_order
    )
    total = sum(weights.get(name, 1.0) for name in clients)
    return manifest.Manifest(
        status="complete",
        base=bases.describe(found_run.base),
        clients=tuple(
            manifest.ManifestClient(id=name, examples=0, weight=weights.get(name, 1.0) / total)
            for name in clients
        ),
        rounds=rounds,
        aggregation={"name": found_run.federation.aggregation, "options": {}},
        template=manifest.Template(
            name=form.name, with_input=form.with_input, without_input=form.without_input
        ),
        seeds={},
        files=_hashes(found_run.federation, out),
        imported={
            "layout": found_run.layout,
            "files": found_run.hashes(),
            "notes": list(notes),
        },
    )


def _round(round_: ForeignRound) -> manifest.Round:
    folder, clients = f"{ROUNDS}/{round_.round:03d}", sorted(round_.clients, key=client_order)
    return manifest.Round(
        round=round_.round,
        adapter=_global_folder(round_),
        participants=tuple(round_.participants or clients),
        clients={client: f"{folder}/clients/{client}" for client in clients},
    )


def _hashes(federation: ForeignFederation, out: Path) -> dict[str, Any]:
    return {
        f"{move.folder}/{file}": sha256(out / move.folder / file)
        for move in writer.moves(federation)
        for file in (
            adapters.CONFIG,
            adapters.WEIGHTS,
            *adapters.tokenizer_files(out / move.folder),
        )
    }


UNRELATED = 0.1
"""The largest cosine, of all A and of all B, at which two adapters have nothing in common."""


def restart_notes(folders: Mapping[int, Path]) -> Iterator[str]:
    """Yield a note on the rounds whose adapter shares nothing with the one before.

    `folders` has the checked global adapters by round. Adapters of other names or shapes, as of
    other ranks, are not compared.
    """
    restarted = [
        later
        for (earlier, before), (later, after) in pairwise(sorted(folders.items()))
        if (cosines := part_cosines(before, after)) and max(map(abs, cosines)) <= UNRELATED
    ]
    if restarted:
        first = min(folders)
        yield (
            f"In {name_rounds(restarted)} the global adapter shares nothing with the one before: "
            "training began anew. If each round was merged into the base before the next (ReLoRA, "
            "FLoRA), later adapters belong to a base of their own: only the answers of round "
            f"{first} are the federation's."
        )


def part_cosines(before: Path, after: Path) -> tuple[float, float] | None:
    """Return the cosine of all A of two adapters and that of all B.

    None where names or shapes differ, or where a part of one is zero.
    """
    products = {"A": [0.0, 0.0, 0.0], "B": [0.0, 0.0, 0.0]}
    with _aligned([before, after]) as rows_by_name:
        if rows_by_name is None:
            return None
        for name, tensors in rows_by_name:
            part = "A" if "lora_A" in name else "B"
            x, y = (tensor.double().flatten() for tensor in tensors)
            for index, product in enumerate((x @ y, x @ x, y @ y)):
                products[part][index] += float(product)
    if any(xx == 0 or yy == 0 for _, xx, yy in products.values()):
        return None
    a, b = (xy / math.sqrt(xx * yy) for xy, xx, yy in products.values())
    return a, b
