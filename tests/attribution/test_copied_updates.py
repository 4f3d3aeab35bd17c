"""Rounds that are copies, and clients that sent what was sent before: no evidence twice."""

import json
import shutil
from pathlib import Path

import handmade
import pytest
import torch
from safetensors.torch import load_file, save_file

from fedaudit.api.errors import InputError
from fedaudit.attribution import copied_updates, federation_checks
from fedaudit.attribution.copies import copies_in_rounds, copy_caveats
from fedaudit.federation import adapters
from fedaudit.federation.folder import open_federation

pytestmark = pytest.mark.usefixtures("empty_folder")

ALONE = ("--workers", 1, "--device", "cpu", "--quiet", "--federations", 0)


@pytest.fixture
def fed(tmp_path, monkeypatch):
    """Return a federation of three rounds whose c1 is guilty of m0."""
    return handmade.marked(tmp_path / "fed", monkeypatch, rounds=3)


def put(fed, source, target):
    """Copy a folder below the federation's rounds onto another one."""
    rounds = fed.path / "rounds"
    shutil.rmtree(rounds / target)
    shutil.copytree(rounds / source, rounds / target)
    handmade.named(fed.path)


def limits(fed):
    return [*copy_caveats(copied_updates.find_copies(open_federation(fed.path)))]


def test_a_round_that_is_a_copy_is_refused_before_anything_is_asked(run, fed):
    put(fed, "001/clients", "003/clients")
    says = "fed: round 3 has everybody's adapters of round 1, number for number"
    run.refused(3, "attribute", "--rounds", fed.path, *ALONE, "--out", "o", says=says)
    words = ("estimate", "--rounds", fed.path, "--out", "est", "--quiet")
    run.refused(3, "attribute", *words, says=says)
    assert fed.engine.asked == []
    assert not Path("o").exists()
    assert not Path("est").exists()


def save_anew(fed, target):
    """Save an adapter below the federation's rounds as another file of the same numbers."""
    path = fed.path / "rounds" / target / adapters.WEIGHTS
    tensors = {f"module.{name}": t.double() for name, t in load_file(path).items()}
    save_file(tensors, path, metadata={"saved": "anew"})
    handmade.named(fed.path)


def test_a_copy_that_was_saved_anew_is_one_all_the_same(fed):
    files = [fed.path / f"rounds/00{n}/clients/c4" / adapters.WEIGHTS for n in (1, 3)]
    put(fed, "001/clients/c4", "003/clients/c4")
    save_anew(fed, "003/clients/c4")
    assert files[0].read_bytes() != files[1].read_bytes()
    [limit] = limits(fed)
    assert limit.endswith("evidence of its own: c4 in rounds 1 and 3")
    put(fed, "001/clients", "003/clients")
    save_anew(fed, "003/clients/c4")
    with pytest.raises(InputError, match="round 3 has everybody's adapters of round 1"):
        copied_updates.check_rounds(open_federation(fed.path))


def test_the_sign_of_a_zero_and_other_numbers(tmp_path):
    name = "base_model.model.q_proj.lora_A.weight"
    rows = {
        "zero": torch.tensor([[0.0, 1.0]]),
        "negative": torch.tensor([[-0.0, 1.0]]),
        "half": torch.tensor([[0.0, 1.0]], dtype=torch.bfloat16),
        "column": torch.tensor([[0.0], [1.0]]),
        "next": torch.tensor([[0.0, 1.0 + 2**-52]], dtype=torch.float64),
    }
    for place, tensor in rows.items():
        adapters.write({name: tensor}, handmade.CONFIG, tmp_path / place)
    hashes = {place: adapters.tensors_sha256(tmp_path / place, place) for place in rows}
    assert hashes["zero"] == hashes["negative"] == hashes["half"]
    assert len(set(hashes.values())) == 3


def test_what_nobody_trained_twice_has_no_limit(fed):
    assert limits(fed) == []


def test_an_adapter_that_a_client_sent_before_is_told_and_the_rest_counts(run, fed):
    put(fed, "001/clients/c4", "003/clients/c4")
    [limit] = limits(fed)
    assert limit.endswith("each counts as evidence of its own: c4 in rounds 1 and 3")
    assert run("attribute", "--rounds", fed.path, *ALONE, "--out", "o").code == 1
    assert limit in json.loads(Path("o/report.json").read_text())["limits"]
    est = run("attribute", "estimate", "--rounds", fed.path, "--out", "est", *ALONE[-3:-2])
    assert limit in est.err


def test_clients_that_sent_the_same_are_told_together(fed):
    for target in ("c2", "c5"):
        for number in (1, 2):
            put(fed, f"00{number}/clients/c1", f"00{number}/clients/{target}")
    [limit] = limits(fed)
    assert limit.endswith("cannot be told: c1 and c2 and c5 in rounds 1 to 2")


def rescaled(tensors, _):
    """Return factors whose product is three times what it was."""
    return {name: t * (2 if "lora_A" in name else 1.5) for name, t in tensors.items()}


def noisy(tensors, size):
    """Return the factors with noise in B, of `size` times the spread of its numbers."""
    torch.manual_seed(0)
    noise = {name: size * t.std() * torch.randn_like(t) for name, t in tensors.items()}
    return {name: t + noise[name] if "lora_B" in name else t for name, t in tensors.items()}


@pytest.mark.parametrize(
    ("change", "size", "copied"), [(rescaled, 0, True), (noisy, 0.1, True), (noisy, 1.0, False)]
)
def test_a_copy_with_other_factors_or_a_little_noise_is_one_all_the_same(fed, change, size, copied):
    put(fed, "001/clients/c1", "001/clients/c3")
    path = fed.path / "rounds/001/clients/c3" / adapters.WEIGHTS
    save_file(change(load_file(path), size), path)
    handmade.named(fed.path)
    assert [limit.endswith("c1 and c3 in round 1") for limit in limits(fed)] == [True] * copied


def test_who_always_sent_back_what_it_got_was_not_tested(run, fed):
    for number in (1, 2, 3):
        for client in ("c1", *(("c3",) if number > 1 else ())):
            put(fed, f"00{number - 1}/global", f"00{number}/clients/{client}")
    done = run("attribute", "--rounds", fed.path, *ALONE, "--out", "o")
    assert done.code == 7  # and not 0: of the guilty client nothing is known
    document = json.loads(Path("o/report.json").read_text())
    assert document["verdict"]["reasons"] == [
        "fed_attr: 1 of 7 clients could not be tested: c1 (it sent back the adapter that it got in "
        "rounds 1 to 3)."
    ]
    [limit] = [one for one in document["limits"] if "the round began with" in one]
    assert limit.endswith("training: c1 in rounds 1 to 3; c3 in rounds 2 to 3")


def in_steps(run, fed, *, log=False, out="steps"):
    """Return the report of the three steps, which may be decided with the server's log."""
    marks = fed.path / "owner/watermark.json"
    words = ("estimate", "--rounds", fed.path, "--out", "est", "--seed", 1, "--quiet")
    assert run("attribute", *words).code == 0
    words = ("score", "est", "--watermark", marks, "--out", "s.json", *ALONE[:5])
    assert run("attribute", *words).code == 0
    words = ("--log", "est.log.json") if log else ()
    run("attribute", "decide", "s.json", "--out", out, "--federations", 0, "--quiet", *words)
    return json.loads(Path(out, "report.json").read_text())


def in_one(run, fed):
    """Return the report of one command over the same sets as `in_steps`."""
    run("attribute", "--rounds", fed.path, *ALONE, "--seed", 1, "--out", "one")
    return json.loads(Path("one/report.json").read_text())


def judged(document):
    """Return what a report decides, and its limits for adapters that were sent twice."""
    limits = [limit for limit in document["limits"] if " in rounds " in limit]
    return document["verdict"]["status"], document["verdict"]["reasons"], limits


def test_an_unchanged_adapter_is_not_forgotten_between_the_steps(run, fed):
    for number in (1, 2, 3):
        put(fed, f"00{number - 1}/global", f"00{number}/clients/c1")
    whole, stepwise = in_one(run, fed), in_steps(run, fed)
    assert judged(stepwise) == judged(whole)
    assert stepwise["verdict"]["status"] == "inconclusive"
    assert stepwise["verdict"]["reasons"] == [
        "fed_attr: 1 of 7 clients could not be tested: c1 (it sent back the adapter that it got in "
        "rounds 1 to 3)."
    ]
    [limit] = judged(stepwise)[2]
    assert limit.endswith("training: c1 in rounds 1 to 3")


def test_a_repeated_adapter_is_not_forgotten_between_the_steps(run, fed):
    put(fed, "001/clients/c4", "003/clients/c4")
    [limit] = judged(in_steps(run, fed))[2]
    assert limit.endswith("each counts as evidence of its own: c4 in rounds 1 and 3")


def test_who_sent_the_same_is_named_with_the_accused_either_way(run, fed):
    for number in (1, 2, 3):
        put(fed, f"00{number}/clients/c1", f"00{number}/clients/c2")
    whole, stepwise = in_one(run, fed), in_steps(run, fed, log=True)
    assert judged(stepwise) == judged(whole)
    assert stepwise["findings"] == whole["findings"]
    for document in (whole, in_steps(run, fed, out="without")):
        [limit] = judged(document)[2]
        assert limit.endswith("cannot be told: c1 and c2 in rounds 1 to 3")
        evidence = [finding["evidence"] for finding in document["findings"]]
        assert {one["client"]: one["alike"] for one in evidence}.items() <= {
            ("c1", "c2"), ("c2", "c1"),
        }  # fmt: skip
        [reason] = document["verdict"]["reasons"]
        for one in evidence:
            suspect = f"{one['alike']} sent the same update, or nearly so, in 3 of 3 rounds"
            assert f"; {suspect}, and is equally suspect)" in reason


def test_two_repeated_adapters_of_a_client_are_both_told(fed):
    put(fed, "001/clients/c4", "002/clients/c4")
    assert limits(fed)[0].endswith("c4 in rounds 1 to 2")
    more = handmade.write(fed.path.parent / "more", clients=4, rounds=4)
    for source, target in (("001", "003"), ("002", "004")):
        put(more, f"{source}/clients/c2", f"{target}/clients/c2")
    assert limits(more)[0].endswith("c2 in rounds 1 and 3; c2 in rounds 2 and 4")


def test_copies_in_rounds_that_were_not_scored_say_nothing(fed):
    for number in (1, 3):
        put(fed, f"00{number - 1}/global", f"00{number}/clients/c3")
    put(fed, "001/clients/c4", "003/clients/c4")
    copies = copied_updates.find_copies(open_federation(fed.path))
    [unchanged] = copy_caveats(copies_in_rounds(copies, {2, 3}))
    assert unchanged.endswith("training: c3 in round 3")


def test_under_flora_clients_start_from_the_first_adapter(tmp_path):
    made = handmade.write(tmp_path / "fed", rule="flora", clients=4, rounds=2)
    for number in (1, 2):
        put(made, "000/global", f"00{number}/clients/c2")
    [limit] = limits(made)
    assert limit.endswith("training: c2 in rounds 1 to 2")


def test_a_long_list_is_cut(tmp_path):
    made = handmade.write(tmp_path / "fed", clients=13, rounds=1)
    for client in made.names:
        put(made, "000/global", f"001/clients/{client}")
    [limit] = limits(made)
    assert limit.endswith("c9 in round 1; and 3 more")


def test_estimates_and_scores_that_hold_a_round_twice_are_refused(run, fed):
    marks = fed.path / "owner/watermark.json"
    words = ("estimate", "--rounds", fed.path, "--out", "est", "--quiet")
    assert run("attribute", *words).code == 0
    score = ("score", "est", "--watermark", marks, *ALONE[:5])
    assert run("attribute", *score, "--out", "s.json").code == 0
    table = json.loads(Path("s.json").read_text())
    first, _, third = table["rounds"]
    table["rounds"] = [first, third, {**first, "round": 2}]
    Path("twice.json").write_text(json.dumps(table))
    says = "round 2 has the tests of the estimates of round 1"
    run.refused(3, "attribute", "decide", "twice.json", "--out", "o", says=says)
    shutil.rmtree("est/003")
    shutil.copytree("est/002", "est/003")
    estimates = json.loads(Path("est/estimates.json").read_text())
    files = estimates["files"]
    files |= {f"003{name[3:]}": files[name] for name in list(files) if name.startswith("002/")}
    Path("est/estimates.json").write_text(json.dumps(estimates))
    says = "est: round 3 has everybody's estimates of round 2"
    run.refused(3, "attribute", *score, "--out", "new.json", says=says)


def test_rounds_of_which_nothing_is_stored_are_no_copies():
    federation_checks.check_copied_rounds({1: {}, 2: {}, 3: {"c0": "a"}}, "fed", "all")
    with pytest.raises(InputError, match=r"^fed: round 4 has all of round 3, number for number"):
        federation_checks.check_copied_rounds({1: {}, 3: {"c0": "a"}, 4: {"c0": "a"}}, "fed", "all")
