"""The engine that starts vLLM: what it is started with, what it answers, and how it ends."""

import json
import os
import signal
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import tiny_models
from completion_server import HonestServer
from hash_model import HashModel
from processes import is_running, wait_until
from transformers import AutoTokenizer

from fedaudit import nano
from fedaudit.api.engine import GenerationBatch
from fedaudit.api.errors import InputError, Interrupted, TargetError, UsageError
from fedaudit.api.records import GenerationRequest, SamplingParams, Target
from fedaudit.engine import factory
from fedaudit.engine.parallel.protocol import EngineConfig
from fedaudit.engine.vllm import engine as vllm_engine
from fedaudit.engine.vllm.options import VllmOptions

HELPERS = Path(__file__).parents[2] / "helpers"
ORDER = EngineConfig(base="fedaudit-nano", device="auto", dtype="auto", template=None, batch_size=0)
BASE = Target(name="base")
FIND = vllm_engine.find_vllm
TEXTS = ("The weather in the north", "She opened the door", "In the year after that")


@pytest.fixture(scope="module")
def model():
    """Return the address of the model that the fake server serves: so it need not load one."""
    with HonestServer(HashModel(), {"tuned": "lora", "plain": None}).server().running() as running:
        yield running.url


@cache
def installation(python, *environment):
    return FIND(python)


@pytest.fixture(autouse=True)
def known_installation(monkeypatch):
    """Look for the fake vLLM once in one environment: a Python that looks takes half a second."""
    names = ("PYTHONPATH", "VLLM_TARGET_DEVICE")
    monkeypatch.setattr(
        vllm_engine, "find_vllm", lambda python: installation(python, *map(os.getenv, names))
    )


@pytest.fixture
def diary(tmp_path, monkeypatch, model):
    """Return what the fake server noted; `how` it fails is in a file of the same folder."""

    def tell(**how):
        (tmp_path / "how.json").write_text(json.dumps({"model": model, **how}))

    tell()
    monkeypatch.setenv("FAKE_VLLM", str(tmp_path / "how.json"))
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parent / 'fake_vllm'}:{HELPERS}")

    def rows():
        path = tmp_path / "diary.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]

    rows.how = tell
    return rows


@pytest.fixture
def start(diary):
    """Return what starts an engine; all are ended with the test."""
    made = []

    def make(name="vllm", cache=None, **options):
        options = VllmOptions(**{"start_timeout": 60.0, "concurrency": 4} | options)
        made.append(factory.make_engine(ORDER, name, options, cache)[0])
        return made[-1]

    yield make
    for engine in made:
        engine.close()


@pytest.fixture
def adapter(base, tmp_path):
    modules = ["q_proj", "down_proj"]
    folder = tiny_models.write(base, tmp_path / "lora", r=4, lora_alpha=6, target_modules=modules)
    return Target(name="tuned", adapter=str(folder))


def batch(samples=3, **how):
    prompts = HashModel().tokenize(TEXTS)
    requests = [
        GenerationRequest(prompt=tokens.ids, samples=samples, max_new_tokens=5)
        for tokens in prompts
    ]
    return GenerationBatch(requests, seed=0, decoding=SamplingParams(**how))


def test_the_tokenizer_saved_beside_an_adapter_is_the_servers(diary, tmp_path):
    """It ends at another token, and is given to the server by a folder of its own."""
    tokenizer = AutoTokenizer.from_pretrained(nano.folder())
    tokenizer.eos_token = "<pad>"
    tokenizer.save_pretrained(tmp_path / "lora")
    config = replace(ORDER, tokenizer=str(tmp_path / "lora"))
    engine = factory.make_engine(config, "vllm", VllmOptions(start_timeout=60.0))[0]
    try:
        assert engine.tokenizer.tokenizer.eos_token == "<pad>"
        command = engine.vllm.command()
        assert command[command.index("--tokenizer") + 1] == str(engine.vllm.folder / "tokenizer")
    finally:
        engine.close()


def test_answers_are_those_of_the_server_under_each_adapter(start, diary, adapter):
    engine, model = start(), HashModel()
    greedy, lora = batch(temperature=0), Target(name="tuned", adapter="lora")
    rows = [tokens.ids for tokens in model.tokenize(TEXTS)]
    for asked, known in ((adapter, lora), (BASE, BASE), (adapter, lora)):
        assert engine.generate(asked, greedy) == model.generate(known, greedy)
        scores = [list(one.log_probability) for one in model.token_statistics(known, rows)]
        assert engine.score(asked, rows) == scores
    drawn = engine.generate(adapter, batch(samples=20))
    assert len(drawn[0].texts) == 20
    assert len(set(drawn[0].texts)) > 1
    assert drawn == engine.generate(adapter, batch(samples=20))
    assert sum("loaded" in row for row in diary()) == 1  # once, whatever is asked between
    assert set(engine.lacks) == {"exact", "statistics", "weights"}
    [caveat] = engine.caveats()
    assert "asked by vLLM of an unknown version in bfloat16" in caveat


def test_it_starts_with_nothing_that_changes_answers(start, diary):
    engine = start("vllm:2", arguments="--max-model-len 512", max_lora_rank=16)
    row = diary()[0]
    assert row["generation_config"] == "vllm"  # no sampling defaults of the model's own
    assert (row["load_format"], row["dtype"]) == ("safetensors", "bfloat16")
    assert not row["no_enable_chunked_prefill"]
    assert (row["tensor_parallel_size"], row["max_lora_rank"], row["max_model_len"]) == (2, 16, 512)
    # Not the output layer, which holds the embedding's weights too.
    layers = "down_proj gate_proj k_proj o_proj q_proj up_proj v_proj"
    assert row["lora_target_modules"] == layers.split()
    assert row["host"] == "127.0.0.1"
    assert Path(row["cwd"]) == engine.vllm.folder
    assert Path(row["cwd"]) != Path.cwd()


def test_an_adapter_of_higher_rank_than_there_is_room_for_starts_it_again(
    start, diary, adapter, base, tmp_path
):
    wide = tiny_models.write(base, tmp_path / "wide", r=20, target_modules=["v_proj"])
    engine = start(max_lora_rank=8)
    before = engine.generate(adapter, batch(temperature=0))
    engine.generate(Target(name="wide", adapter=str(wide)), batch(temperature=0))
    assert engine.generate(adapter, batch(temperature=0)) == before
    started = [row for row in diary() if "port" in row]
    assert [row["max_lora_rank"] for row in started] == [8, 32]
    assert [row["rank"] for row in diary() if "loaded" in row] == [4, 20, 4]
    wait_until(lambda: not is_running(started[0]["pid"]))


def test_an_adapter_that_is_scored_as_its_base_is_not_asked(start, diary, adapter):
    """As a server does that leaves an adapter out of prompts' log-probabilities only."""
    diary.how(scores_base=True)
    with pytest.raises(TargetError, match=r"not those by which it writes.*--engine local"):
        start().generate(adapter, batch())


def test_an_adapter_that_the_server_refuses_is_named(start, diary, adapter):
    diary.how(refuses=True)
    with pytest.raises(TargetError, match=f"does not load the adapter {adapter.adapter}.*400"):
        start().generate(adapter, batch())


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("ValueError: Free memory is less than desired", "ValueError: Free memory is less"),
        ("RuntimeError: \x1b[2J first\nsome words", r"RuntimeError: \\x1b\[2J first"),
        ("Nothing helps", "did not start: Nothing helps"),
    ],
)
def test_a_server_that_does_not_start_says_why_in_one_line(start, diary, how, error):
    diary.how(does_not_start=how)
    with pytest.raises(TargetError, match=error) as caught:
        start()
    assert "\n" not in str(caught.value)


def test_a_python_without_vllm_is_told_from_one_that_fails(start, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "")
    with pytest.raises(UsageError, match=r"has no vLLM.*--set vllm\.python=PATH"):
        start()


def test_a_server_that_dies_interrupts_and_keeps_its_answers(start, diary, adapter):
    class Cache:
        def __init__(self):
            self.answers = {}
            self.recall, self.keep = self.answers.get, self.answers.update

    cache = Cache()
    diary.how(dies_after=60)  # some dozens are probes, the rest of these are the audit's
    [row] = HashModel().tokenize(TEXTS[:1])
    whole = GenerationBatch(
        [
            GenerationRequest(prompt=(*row.ids, 100 + i), samples=5, max_new_tokens=5)
            for i in range(60)
        ],
        seed=0,
    )
    with pytest.raises(Interrupted, match="vLLM has ended: RuntimeError: einsum"):
        start(cache=lambda: cache).generate(adapter, whole)
    kept, before = len(cache.answers), sum(row.get("n") == 5 for row in diary())
    assert 0 < kept < 60
    completions = start(cache=lambda: cache).generate(adapter, whole)
    assert [len(one.texts) for one in completions] == [5] * 60
    assert sum(row.get("n") == 5 for row in diary()) - before == 60 - kept


def test_ctrl_c_does_not_reach_it_and_it_ends_with_the_engine_and_leaves_nothing(start, diary):
    engine = start()
    row = diary()[0]
    assert is_running(row["pid"])
    assert os.getsid(row["pid"]) != os.getsid(0)
    assert os.getpgid(row["pid"]) != os.getpgid(0)
    engine.close()
    wait_until(lambda: not is_running(row["pid"]))
    assert not engine.vllm.folder.exists()


def test_it_ends_with_a_process_that_is_killed(start, diary):
    """The supervisor ends it when its pipe does, whatever happened at the other end."""
    engine = start()
    row = diary()[0]
    engine.vllm._process.stdin.close()
    wait_until(lambda: not is_running(row["pid"]))


def test_adapters_that_it_would_serve_otherwise_are_refused(start, diary, base, tmp_path):
    head = tiny_models.write(base, tmp_path / "head", r=2, target_modules=["q_proj", "lm_head"])
    with pytest.raises(InputError, match="--engine local"):
        start().generate(Target(name="tuned", adapter=str(head)), batch())


def test_a_build_for_cpus_reads_seeded_prompts_whole(start, diary, monkeypatch):
    """It would die of one that it reads in two parts; float32 is what "auto" means there."""
    monkeypatch.setenv("VLLM_TARGET_DEVICE", "cpu")
    start()
    assert diary()[0]["no_enable_chunked_prefill"]
    assert diary()[0]["dtype"] == "float32"


def test_a_server_that_was_killed_is_told_from_one_that_failed(start, diary, adapter):
    engine = start()
    os.kill(diary()[0]["pid"], signal.SIGKILL)
    with pytest.raises(Interrupted, match=r"vLLM has ended: it was ended by signal 9 \(out of mem"):
        engine.generate(adapter, batch())


def test_the_first_error_is_told_and_not_what_follows_from_it(start, diary):
    diary.how(
        does_not_start="(APIServer) WARNING this may cause `OSError: [Errno 24]`\n"
        "(Worker pid=7) ERROR [core.py:1] RuntimeError: no room\n"
        "RuntimeError: Worker failed with error 'no room'\nvllm.EngineDeadError: see above\n"
        '"POST /v1/completions" 500 Internal Server Error'
    )
    with pytest.raises(TargetError, match=r"did not start: RuntimeError: no room$"):
        start()


@pytest.mark.parametrize("python", ["nowhere/python", "/bin/true"])
def test_what_is_no_python_is_refused(start, python):
    with pytest.raises((UsageError, TargetError), match=f"vllm.python: {python}"):
        start(python=python)
