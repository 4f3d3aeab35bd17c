"""What counts as the victim's alone."""

from fedaudit.api.plugin import AttackContext
from fedaudit.api.records import Document, PiiSpan, Target
from fedaudit.engine.fake import FakeEngine
from fedaudit.extraction.targets import build_target_set


def marked(text, *strings, label="PERSON", group=""):
    spans = tuple(PiiSpan(text.index(s), text.index(s) + len(s), label) for s in strings)
    return Document(id=text, text=text, pii=tuple(sorted(spans)), group=group)


def found(victim, attacker=(), members=None, control=()):
    return build_target_set(
        AttackContext(
            engine=FakeEngine(lambda *_: ""),
            tuned=Target(name="tuned"),
            base=None,
            attacker=list(attacker),
            victim=victim,
            members=members or {},
            control=control,
        )
    )


VICTIM = [
    marked("Ann Lee met Bob Fox.", "Ann Lee", "Bob Fox"),
    marked("Bob Fox left.", "Bob Fox"),
]


def test_alone_the_victim_has_all_that_the_attacker_has_not():
    known = found(VICTIM, [marked("Tom Ray", "Tom Ray")])
    assert known.labels == {"Ann Lee": "PERSON", "Bob Fox": "PERSON"}
    assert known.exclusive == {"Ann Lee", "Bob Fox"}
    assert known.documents == {"Ann Lee": 1, "Bob Fox": 2}
    assert known.members == {"Ann Lee": 0, "Bob Fox": 0}


def test_what_another_member_has_in_any_spelling_is_not_the_victims_alone():
    spelt = {"c2": [marked("ANN\u00a0 LEE")], "c3": [marked("Ann Lee again"), marked("ann lee")]}
    known = found(VICTIM, members=spelt)
    assert known.members == {"Ann Lee": 2, "Bob Fox": 0}
    assert known.exclusive == {"Bob Fox"}
    assert set(known.labels) == {"Ann Lee", "Bob Fox"}


def test_nor_is_what_the_attacker_writes_otherwise():
    known = found(VICTIM, [marked("Dear BOB FOX")])
    assert known.exclusive == {"Ann Lee"}


def test_of_strings_in_one_another_the_outer_one_is_judged():
    victim = [marked("Ann Lee of 12 Ann Lee Road", "12 Ann Lee Road"), marked("Ann Lee", "Ann Lee")]
    known = found(victim)
    assert set(known.labels) == {"12 Ann Lee Road", "Ann Lee"}
    assert known.exclusive == {"12 Ann Lee Road"}


def test_of_strings_that_differ_in_case_one_is_judged():
    victim = [marked("Ann Lee", "Ann Lee"), marked("ANN LEE", "ANN LEE")]
    assert found(victim).exclusive == {"ANN LEE"}


def test_groups_are_the_first_by_name():
    victim = [
        marked("Ann Lee", "Ann Lee", group="p2"),
        marked("So Ann Lee", "Ann Lee", group="p1"),
        marked("Bob Fox", "Bob Fox"),
    ]
    assert found(victim).groups == {"Ann Lee": "p1"}


def test_controls_have_labels_and_none_is_in_a_members_text():
    real = [marked("Eve Ash and Kim Orr", "Eve Ash", "Kim Orr")]
    known = found(VICTIM, members={"c2": [marked("kim orr")]}, control=real)
    assert known.controls == {"Eve Ash": "PERSON"}
    assert known.controls.keys() == {"Eve Ash"}


def test_strings_of_members_lend_their_pieces():
    known = found(VICTIM, members={"c2": [marked("Zoe Qux", "Zoe Qux")]})
    assert known.donors == {"PERSON": ["Ann Lee", "Bob Fox", "Zoe Qux"]}


def test_the_order_of_documents_changes_nothing():
    members = {"c2": [marked("Zoe Qux", "Zoe Qux"), marked("Bob Fox")]}
    one, other = (found(documents, members=members) for documents in (VICTIM, VICTIM[::-1]))
    assert one == other
    for name in ("disjoint", "groups", "documents", "subjects", "places", "exclusive"):
        assert getattr(one, name) == getattr(other, name)
