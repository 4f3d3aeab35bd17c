"""A stored sum is read back only as the sum that it is."""

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import InputError
from fedaudit.federation import secure_sums
from fedaudit.federation.manifest import Round
from fedaudit.federation.secure_sums import StoredSums

TOTAL = {"a": torch.tensor([[1.0, -2.5]]), "b": torch.tensor([3.0])}
WHO = ("c0", "c2", "银行")


def stored(folder, members=WHO, number=3):
    name = secure_sums.write(TOTAL, members, number, folder / "sums")
    one = Round(
        round=number, adapter="x", participants=(*WHO, "c1"), sums={f"sums/{name}": members}
    )
    return StoredSums(folder, one)


def test_what_is_written_is_read(tmp_path):
    found = stored(tmp_path)(WHO)
    assert found.keys() == TOTAL.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in TOTAL.items())
    assert len(list((tmp_path / "sums").iterdir())) == 1


def test_tensors_that_lie_otherwise_in_memory_are_written_too(tmp_path):
    turned = torch.arange(6.0).reshape(2, 3).T
    name = secure_sums.write({"a": turned}, WHO, 1, tmp_path)
    assert torch.equal(secure_sums.read(tmp_path / name, WHO, 1)["a"], turned)


def test_the_same_sum_is_the_same_file(tmp_path):
    """Safetensors writes several entries of metadata in an order of its own, so there is one."""
    whole = set()
    for number in range(8):
        folder, turned = tmp_path / str(number), -1 if number % 2 else 1
        name = secure_sums.write(dict(list(TOTAL.items())[::turned]), WHO[::turned], 3, folder)
        whole.add((name, (folder / name).read_bytes()))
    assert len(whole) == 1


def test_the_name_tells_sets_and_rounds_apart_and_nobody(tmp_path):
    sets = [(*WHO,), WHO[:2], ("c0, c2",), ("c0",), ("c02",)]
    names = {secure_sums.write(TOTAL, members, n, tmp_path) for members in sets for n in (1, 11)}
    assert len(names) == 10
    assert not any(who in name for name in names for who in ("c0,", "银行", "c02,"))
    assert all(len(name) == len("0123456789abcdef.safetensors") for name in names)


@given(st.permutations(WHO), st.permutations(WHO))
def test_members_come_in_any_order(tmp_path_factory, written, asked):
    found = stored(tmp_path_factory.mktemp("s"), tuple(written))(tuple(asked))
    assert torch.equal(found["a"], TOTAL["a"])


@pytest.mark.parametrize("other", [WHO[:2], (*WHO, "c1"), ("c1",), (), ("c0", "c0", "c2")])
def test_a_sum_that_nobody_asked_for(other, tmp_path):
    with pytest.raises(InputError, match="round 3 has no sum over") as error:
        stored(tmp_path)(other)
    assert "\n" not in str(error.value)


def test_a_file_of_another_set_or_round_is_refused(tmp_path):
    """The manifest says who is in a file; so does the file, and they must agree."""
    name = secure_sums.write(TOTAL, WHO, 3, tmp_path)
    for members, number in ((WHO[:2], 3), ((*WHO, "c1"), 3), (WHO, 4)):
        with pytest.raises(InputError, match="is not the sum that the manifest says") as error:
            secure_sums.read(tmp_path / name, members, number)
        assert f'"round": {number}' in str(error.value)
    one = Round(round=3, adapter="x", participants=WHO, sums={name: WHO[:2]})
    with pytest.raises(InputError, match="is not the sum that the manifest says"):
        StoredSums(tmp_path, one)(WHO[:2])


def test_a_file_that_names_nobody_is_refused(tmp_path):
    from safetensors.torch import save_file

    save_file(TOTAL, tmp_path / "bare.safetensors")
    with pytest.raises(InputError, match="nothing that it names"):
        secure_sums.read(tmp_path / "bare.safetensors", WHO, 3)
    other = {secure_sums.LABEL: json.dumps({"members": WHO, "round": "3"})}
    save_file(TOTAL, tmp_path / "bare.safetensors", metadata=other)
    with pytest.raises(InputError, match="is not the sum"):
        secure_sums.read(tmp_path / "bare.safetensors", WHO, 3)


@pytest.mark.parametrize("content", [None, b"", b"\xff" * 40, "folder"])
def test_a_file_that_is_none(content, tmp_path):
    path = tmp_path / "x.safetensors"
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match="not a valid safetensors file") as error:
        secure_sums.read(path, WHO, 3)
    assert error.value.exit_code == 3
