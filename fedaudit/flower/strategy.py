"""The wrapper around a strategy that records what the server sees.

It replaces the strategy, as Flower's own wrappers for differential privacy do: it forwards every
call, and keeps the adapter that a round begins with, the clients' updates, and their aggregate.
Sampling, aggregation and evaluation stay as they are.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from inspect import signature
from math import isfinite
from pathlib import Path
from typing import Any

from fedaudit import nano
from fedaudit.api.errors import FedauditError, InputError, UsageError
from fedaudit.flower.mods import flower_log, reply_name
from fedaudit.flower.run_folder import ClientUpdate, RecordedRun, RunMetadata
from fedaudit.system.failures import is_machine_failure

MISSING = "Recording a Flower run needs Flower: pip install 'fedaudit[flower]'."
LOSSES = ("train_loss", "train-loss", "loss")
"""What apps call the metric of a client's mean training loss."""


def record(strategy: Any, out: str | Path, *, lora: Any, base: str = "", template: str = "") -> Any:
    """Return a strategy that does what `strategy` does and records the run into the folder `out`.

    `lora` is the PEFT model, its `LoraConfig`, or an adapter_config.json; `base` the model that it
    is on, unless the configuration names it; `template` how records became text (`fed_pii`).
    Raises UsageError for a strategy that cannot be recorded, and InputError for a folder that
    holds another run or a configuration that no audit could load.
    """
    if find_spec("flwr") is None:
        raise UsageError(MISSING)
    _check_strategy(strategy)
    folder = RecordedRun(Path(out).absolute(), _facts(strategy, lora, base, template))
    return _recorded_class()(strategy, folder)


class StrategyRecorder:
    """A strategy that wraps another one; attributes that it lacks are the wrapped one's."""

    def __init__(self, strategy: Any, folder: RecordedRun) -> None:
        from fedaudit.system.locks import lock_beside

        self.strategy, self.folder = strategy, folder
        self._stopped = False
        self._offset = 0
        self._held = ExitStack()
        busy = f"Another run is recorded into {folder.path}."
        self._held.enter_context(lock_beside(folder.path, busy))
        try:
            folder.open()
        except BaseException:
            self._held.close()
            raise

    def __getattr__(self, name: str) -> Any:
        if name in ("strategy", "folder"):  # not yet there
            raise AttributeError(name)
        return getattr(self.strategy, name)

    def summary(self) -> None:
        """Log the strategy's settings, and where the run is recorded."""
        flower_log.info(f"\t├──> fedaudit records into {self.folder.path}")
        self.strategy.summary()

    def start(self, *args: Any, **options: Any) -> Any:
        """Run the federation; a recorded run that was interrupted resumes after its last round."""
        from flwr.serverapp.strategy import Strategy

        call = signature(Strategy.start).bind(self, *args, **options)
        call.apply_defaults()
        arguments = call.arguments
        if self.folder.started is None:
            self._record(lambda: self.folder.begin(arguments["initial_arrays"]))
        else:
            self.folder.begin(arguments["initial_arrays"])
            if self.folder.last:
                self._go_on(arguments)
        result = Strategy.start(*call.args, **call.kwargs)
        self.finish()
        if self._offset:
            _count_on(result, self._offset, arguments["initial_arrays"])
        return result

    def _go_on(self, arguments: dict[str, Any]) -> None:
        """Change the arguments of `start` to the remaining rounds."""
        done = self._offset = self.folder.last
        flower_log.info(f"fedaudit goes on in {self.folder.path} after round {done}")
        arrays = _named_like(
            arguments["initial_arrays"], self.folder.global_arrays(), list(self.folder.shapes or {})
        )
        for text in _resume_notes(self.strategy, done):
            self.folder.note(text)
        arguments["initial_arrays"] = arrays
        arguments["num_rounds"] = max(0, arguments["num_rounds"] - done)
        if evaluate := arguments["evaluate_fn"]:
            arguments["evaluate_fn"] = lambda number, adapter: evaluate(number + done, adapter)

    def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Any:
        """Check what the round begins with, and let the strategy choose the clients that train."""
        number = server_round + self._offset
        if self.folder.last < 0:
            self._record(lambda: self.folder.begin(arrays))
        self._record(lambda: self.folder.check_start(number, arrays))
        return self.strategy.configure_train(number, arrays, config, grid)

    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> tuple[Any, Any]:
        """Keep what clients sent, have the strategy aggregate it, and write the round."""
        number, messages = server_round + self._offset, list(replies)
        if self._stopped:
            passed: tuple[Any, Any] = self.strategy.aggregate_train(number, messages)
            return passed
        answered = [message for message in messages if not message.has_error()]
        updates = [_reply(message, weight_key(self.strategy)) for message in answered]
        sent = self.folder.replies(number, [update for update in updates if update is not None])
        sent.sort(key=lambda pair: pair[0].name)
        arrays, metrics = self.strategy.aggregate_train(number, messages)
        failed = len(messages) - len(sent)
        notes = [f"Round {number}: {failed} of {len(messages)} clients failed."] if failed else []
        guarantee = privacy(self.strategy)
        self._record(lambda: self.folder.add(number, sent, arrays, notes, guarantee))
        return arrays, metrics

    def _record(self, write: Callable[[], None]) -> None:
        """Write to the folder; if the machine fails, warn and record no more: training goes on.

        What was recorded stays a valid federation, up to its last round.
        """
        if self._stopped:
            return
        try:
            write()
        except Exception as error:
            if not is_machine_failure(error):
                raise
            self._stopped = True
            reason = str(error) if isinstance(error, FedauditError) else repr(error)
            flower_log.warning(
                "fedaudit stops recording after round %d, and training goes on: %s",
                max(self.folder.last, 0),
                reason,
            )

    def configure_evaluate(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Any:
        """Have the strategy choose who evaluates."""
        return self.strategy.configure_evaluate(server_round + self._offset, arrays, config, grid)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Any]) -> Any:
        """Have the strategy aggregate what clients measured."""
        return self.strategy.aggregate_evaluate(server_round + self._offset, replies)

    def finish(self) -> None:
        """Mark the run as complete; to be called where rounds are driven without `start`."""
        self._record(self.folder.finish)
        self._held.close()


@cache
def _recorded_class() -> Any:
    """Return the recorder as a class of Flower strategies; Flower is imported only here."""
    from flwr.serverapp.strategy import Strategy

    return type("RecordedStrategy", (StrategyRecorder, Strategy), {})


def _check_strategy(strategy: Any) -> None:
    from flwr.serverapp.strategy import Strategy

    name = type(strategy).__name__
    if isinstance(strategy, StrategyRecorder):
        raise UsageError("This strategy is recorded already.")
    if not isinstance(strategy, Strategy):
        raise UsageError(
            f"{name} is not a strategy of flwr.serverapp.strategy, which alone can be recorded."
        )
    if any(isinstance(layer, StrategyRecorder) for layer in layers(strategy)):
        raise UsageError(f"{name} wraps a recorded strategy: record the outermost one instead.")
    if type(strategy).start is not Strategy.start:
        raise UsageError(f"{name} has a start() of its own, which the recorder would not call.")


def _facts(strategy: Any, lora: Any, base: str, template: str) -> RunMetadata:
    """Return what is known of the run before its first round."""
    from fedaudit.api.templates import template as template_of
    from fedaudit.conversion import bases
    from fedaudit.federation.manifest import Template

    config = lora_table(lora)
    named = base or str(config.get("base_model_name_or_path") or "")
    if not named:
        raise UsageError("The LoRA configuration names no base model: give record() its base.")
    named = bases.on_this_machine(named) or named
    if named == str(nano.folder()):
        named = nano.BASE
    form = template_of(template or "fed_pii")
    notes = []
    if not template:
        notes.append(f"How records became text is not said: the template {form.name} is taken.")
    if not known_class(strategy):
        notes.append(
            f"{strategy_name(strategy)} is not an aggregation rule of fedaudit: attribution "
            "takes clients' updates as it does under fedavg."
        )
    return RunMetadata(
        base=bases.describe(named),
        lora={**config, "base_model_name_or_path": named, "inference_mode": True},
        aggregation=aggregation(strategy),
        template=Template(
            name=form.name, with_input=form.with_input, without_input=form.without_input
        ),
        recorded={
            "framework": "flower",
            "version": version("flwr"),
            "strategy": strategy_name(strategy),
            "privacy": privacy(strategy),
            "notes": notes,
        },
    )


def lora_table(lora: Any) -> dict[str, Any]:
    """Return a LoRA configuration, given in any form, as the table of adapter_config.json.

    Raises UsageError for an object that is none, and InputError for a file without one.
    """
    from fedaudit.federation import adapters
    from fedaudit.simulation.initialization import plain_config
    from fedaudit.system.files import read_json

    if isinstance(lora, str | Path):
        path = Path(lora)
        path = path / adapters.CONFIG if path.is_dir() else path
        config: Any = read_json(path, f"There is no {path}.")
    else:
        configs = getattr(lora, "peft_config", None)
        if isinstance(configs, Mapping):
            lora = configs.get(getattr(lora, "active_adapter", "default"))
        config = lora.to_dict() if hasattr(lora, "to_dict") else lora
    if not isinstance(config, Mapping):
        raise UsageError(
            f"lora is a PEFT model, a LoraConfig or a path, not {type(lora).__name__}."
        )
    if str(getattr(config.get("peft_type"), "value", config.get("peft_type"))) != "LORA":
        raise InputError(f"fedaudit audits LoRA; this adapter is {config.get('peft_type')!r}.")
    table = {key: sorted(v) if isinstance(v, set) else v for key, v in config.items()}
    plain: dict[str, Any] = json.loads(json.dumps({**plain_config(table), "peft_type": "LORA"}))
    return plain


def _reply(message: Any, weight_key: str) -> ClientUpdate | None:
    """Return a client's update; None where no strategy could aggregate it."""
    arrays = list(message.content.array_records.values())
    if len(arrays) != 1:
        return None
    metrics: dict[str, Any] = {}
    for value in message.content.metric_records.values():
        metrics |= value
    weight = _number(metrics.get(weight_key))
    return ClientUpdate(
        name=reply_name(message),
        arrays=dict(arrays[0]),
        examples=int(weight or 0),
        weight=1.0 if weight is None else weight,
        loss=next(
            (value for key in LOSSES if (value := _number(metrics.get(key))) is not None), None
        ),
    )


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _named_like(record: Any, tensors: Mapping[str, Any], order: Sequence[str]) -> Any:
    """Return tensors as a record with the array names of `record`; `order` is PEFT's."""
    from flwr.app import Array, ArrayRecord

    from fedaudit.federation.adapters import canonical

    unnamed = list(record) == [str(number) for number in range(len(record))]
    names = order if unnamed else [canonical(key) for key in record]
    return ArrayRecord(
        {key: Array(tensors[name].numpy()) for key, name in zip(record, names, strict=True)}
    )


def _count_on(result: Any, done: int, arrays: Any) -> None:
    """Renumber a result's rounds from the run's start; `arrays` stand in for missing ones."""
    if not result.arrays:
        result.arrays = arrays
    for name, history in vars(result).items():
        if name.endswith(("clientapp", "serverapp")):
            setattr(result, name, {number + done: value for number, value in history.items()})


def _resume_notes(strategy: Any, done: int) -> list[str]:
    """Return notes on what a resumed run has lost."""
    notes = []
    if (name := strategy_name(strategy)) not in FRESH:
        notes.append(f"After round {done} {name} began again without what it remembers.")
    if "epsilon" in (privacy(strategy) or {}):
        notes.append(f"The accountant of epsilon counts the rounds after {done} only.")
    return notes


OPTIONS: Mapping[str, Mapping[str, str]] = {
    "FedAvg": {},
    "FedProx": {"mu": "proximal_mu"},
    "FedAvgM": {"beta": "server_momentum", "rate": "server_learning_rate"},
    "FedAdagrad": {"rate": "eta", "tau": "tau"},
    "FedAdam": {"rate": "eta", "beta1": "beta_1", "beta2": "beta_2", "tau": "tau"},
    "FedYogi": {"rate": "eta", "beta1": "beta_1", "beta2": "beta_2", "tau": "tau"},
}
"""Strategies that are rules of fedaudit, and where each of our options is kept in theirs."""

FRESH = {"FedAvg", "FedProx", "FedMedian", "FedTrimmedAvg", "Krum", "MultiKrum", "Bulyan"}
"""Strategies that remember nothing from round to round."""


def layers(strategy: Any) -> Iterator[Any]:
    """Yield a strategy, then what it wraps as Flower's differential privacy does."""
    visited: list[Any] = []
    while strategy is not None and all(strategy is not layer for layer in visited):
        yield strategy
        visited.append(strategy)
        strategy = getattr(strategy, "strategy", None)


def strategy_name(strategy: Any) -> str:
    """Return what the strategy that aggregates is called."""
    return type(list(layers(strategy))[-1]).__name__


def known_class(strategy: Any) -> str:
    """Return which rule of fedaudit the strategy that aggregates is; empty for one of its own.

    A subclass of one of them that aggregates as that does is the same rule.
    """
    strategy_class: Any = type(list(layers(strategy))[-1])
    candidates = (c for c in strategy_class.__mro__ if c.__name__ in OPTIONS)
    return next(
        (c.__name__ for c in candidates if c.aggregate_train is strategy_class.aggregate_train), ""
    )


def aggregation(strategy: Any) -> dict[str, Any]:
    """Return the rule for the manifest; FedAvg's differences serve any that is none of ours."""
    inner, name = list(layers(strategy))[-1], known_class(strategy) or "FedAvg"
    options = {
        option: getattr(inner, attribute, None) for option, attribute in OPTIONS[name].items()
    }
    values = {key: float(value) for key, value in options.items() if isinstance(value, int | float)}
    return {"name": name.lower(), "options": values}


def weight_key(strategy: Any) -> str:
    """Return the metric by which clients are weighted."""
    return str(getattr(list(layers(strategy))[-1], "weighted_by_key", "num-examples"))


def privacy(strategy: Any) -> dict[str, Any] | None:
    """Return what Flower's wrapper of differential privacy says of itself; None without one.

    `epsilon` is of whole clients, and only there where the wrapper has an accountant.
    """
    for layer in layers(strategy):
        if hasattr(layer, "noise_multiplier") and hasattr(layer, "clipping_norm"):
            claims = {
                "mechanism": type(layer).__name__,
                "unit": "client",
                "noise_multiplier": float(layer.noise_multiplier),
                "clipping_norm": float(layer.clipping_norm),
                "sampled_clients": int(layer.num_sampled_clients),
            }
            return {**claims, **_privacy_spent(layer)}
    return None


def _privacy_spent(layer: Any) -> dict[str, Any]:
    """Return what an accountant has counted so far, and the settings that it counts by."""
    accounting = layer.privacy_spent() if hasattr(layer, "privacy_spent") else None
    if accounting is None:
        return {}
    config = layer.accountant.config
    return {
        "epsilon": float(accounting.epsilon) if isfinite(accounting.epsilon) else None,
        "delta": float(accounting.delta),
        "releases": int(accounting.num_releases),
        "accountant": str(accounting.accounting_method),
        "population": int(config.population_size),
        "neighboring_relation": _text(config.neighboring_relation),
        "sampling_method": _text(config.sampling_method),
        "max_epsilon": None if config.max_epsilon is None else float(config.max_epsilon),
    }


def _text(value: Any) -> str:
    return str(getattr(value, "value", value))
