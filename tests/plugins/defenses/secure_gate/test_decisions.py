"""What counts as a decision of the gate."""

from fedaudit_plugins.defenses.secure_gate.evaluation import decisions
from fedaudit_plugins.defenses.secure_gate.header_features import heading
from hypothesis import given
from hypothesis import strategies as st


def test_prompts_with_one_key_are_one_decision_by_hand():
    prompts = [heading("a") + "1", heading("a") + "2", heading("b") + "3", "4", "5", heading("")]
    # Keys a, b, none and the empty one.
    assert decisions(prompts, [True] * 6) == (4, 4)
    assert decisions(prompts, [True, False, True, True, True, True]) == (3, 4)
    assert decisions(prompts, [False] * 6) == (0, 4)
    assert decisions([], []) == (0, 0)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=30))
def test_a_decision_is_right_where_no_prompt_with_its_key_went_wrong(asked):
    prompts = [f"{heading(key)}{number}" for number, (key, _) in enumerate(asked)]
    wrong = {key for key, right in asked if not right}
    keys = {key for key, _ in asked}
    found = decisions(prompts, [right for _, right in asked])
    assert found == (len(keys - wrong), len(keys))
