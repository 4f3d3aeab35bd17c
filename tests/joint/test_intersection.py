"""What bins of encrypted keys have in common is what plain sets have in common."""

import hashlib

import private_set_intersection.python as psi
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.api.errors import InputError
from fedaudit.joint import elements, intersection
from fedaudit.joint.elements import BINS, WIDTH, Elements
from fedaudit.joint.intersection import Asker, Holder, false_positives, padded_bin, padded_size


def keys(*numbers):
    return [hashlib.blake2b(bytes([n]), digest_size=WIDTH).digest() for n in numbers]


numbers = st.sets(st.integers(0, 255), max_size=200)


@settings(max_examples=5)
@given(numbers, numbers)
def test_what_two_sets_have_in_common(held, sought):
    held, sought = Elements(keys(*held)), Elements(keys(*sought))
    holder, asker = Holder.new(), Asker.new()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intersection, "LEAST", 4)
        request, size = asker.request(sought), padded_bin(sought)
        found = asker.common(sought, holder.setup(held), holder.answer(request, size * BINS))
    plain = [{key for one in s.bins for key in one.tolist()} for s in (held, sought)]
    assert found == plain[0] & plain[1]
    sizes = {len(psi.Request.FromString(one).encrypted_elements) for one in request}
    assert sizes == {size}


@given(st.lists(st.lists(st.binary(min_size=WIDTH, max_size=WIDTH))))
def test_elements_are_a_set(batches):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elements, "_AT_ONCE", 3)
        found = Elements()
        for batch in batches:
            found.update(batch)
    plain = set().union(*batches)
    assert len(found) == len(plain)
    assert [one.tolist() for one in found.bins] == [
        sorted(key for key in plain if key[0] * BINS // 256 == i) for i in range(BINS)
    ]


def test_a_request_of_another_form_is_refused():
    few, holder, asker = Elements(), Holder.new(), Asker.new()
    request, asked = asker.request(few), padded_bin(few) * BINS
    assert len(holder.answer(request, asked)) == BINS

    def alike(size, reveal=True):
        client = psi.client.CreateWithNewKey(reveal)
        return client.CreateRequest(["x"] * size).SerializeToString()

    each = asked // BINS
    uneven = [alike(each + 1), alike(each - 1), *request[2:]]
    hidden = [alike(each, reveal=False), *request[1:]]
    for other, size in ((request, asked + 1), (uneven, asked), (hidden, asked)):
        with pytest.raises(InputError, match="its sender committed to"):
            holder.answer(other, size)


@given(st.integers(1, 2**28))
def test_the_range_of_hashes_is_one_that_the_library_has(size):
    """Above 2**63 it becomes negative, and the stated rate is not kept."""
    assert size / false_positives(size) < 2**63


@given(st.integers(1, 10**7))
def test_padded_sizes(size):
    padded = padded_size(size)
    assert padded >= max(size, 64)
    assert padded <= max(64, 1.5 * size)
    assert padded_size(padded) == padded
