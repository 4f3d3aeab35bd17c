"""What a Flower strategy is in fedaudit's terms: its rule, its weights, its noise."""

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

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
