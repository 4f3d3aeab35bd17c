"""An engine's name is checked before anything is loaded."""

import pytest

from fedaudit.api.errors import UsageError
from fedaudit.engine import factory
from fedaudit.engine.engine_name import ANSWERING, TRAINING, parse
from fedaudit.engine.vllm.options import VllmOptions


@pytest.mark.parametrize(
    ("name", "known", "means"),
    [
        ("local", ANSWERING, ("local", 0)),
        ("ray:12", ANSWERING, ("ray", 12)),
        ("vllm:8", ANSWERING, ("vllm", 8)),
        ("ray", TRAINING, ("ray", 0)),
        ("flower:3", TRAINING, ("flower", 3)),
    ],
)
def test_the_parts_of_a_name(name, known, means):
    assert parse(name, known) == means


@pytest.mark.parametrize("odd", ["flower:", "flower:x", "flower:0", "vllm"])
def test_training_has_engines_of_its_own(odd):
    with pytest.raises(UsageError, match=f"No engine named '{odd}'.*flower:N"):
        parse(odd, TRAINING)


@pytest.mark.parametrize("name", ["local", "vllm", "vllm:8"])
def test_engines_that_are_known_pass(name):
    factory.check(name, "auto", None)


@pytest.mark.parametrize(
    ("name", "device", "options", "error"),
    [
        ("vlm", "auto", None, "Did you mean 'vllm'"),
        ("vllm:0", "auto", None, "No engine named 'vllm:0'"),
        ("vllm:x", "auto", None, "No engine named 'vllm:x'"),
        ("vllm", "cuda", None, "leave --device out"),
        ("local", "auto", VllmOptions(), "goes with --engine vllm"),
        *((name, "auto", None, "No engine named") for name in ("", "local:x", "ray:", "ray:-1")),
        ("flower", "auto", None, "No engine named 'flower'"),
    ],
)
def test_what_no_engine_can_be_is_refused(name, device, options, error):
    with pytest.raises(UsageError, match=error):
        factory.check(name, device, options)


def test_shards_are_of_engines_that_a_merge_can_check():
    factory.check_shards("ray:2")
    with pytest.raises(UsageError, match="--shard does not go with --engine vllm"):
        factory.check_shards("vllm:2")


@pytest.mark.parametrize(
    "options",
    [
        {"max_lora_rank": 5},
        {"timeout": 0},
        {"start_timeout": float("nan")},
        {"concurrency": 0},
        {"concurrency": 1000},
        {"arguments": "'open"},
        {"arguments": "--trust-remote-code"},
        {"arguments": "--max-model-len 9 --trust_remote_code"},
    ],
)
def test_options_of_vllm_are_checked(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        VllmOptions(**options)
