"""Self-generation of training examples (FewFedPIT).

* `defense`: What FewFedPIT and FedMIT have in common: where a client's further examples come
  from.
* `demonstrations`: Demonstrations: the local examples that show a model what to make up
  (FewFedPIT, 3.3).
* `filter_counts`: What every filter saw and dropped of what a client made up in one round.
* `generation`: Self-generation: new instructions, then inputs and responses for them (FewFedPIT,
  3.3).
* `instruction_following`: Scoring made-up examples: what each answer costs with its prompt and
  without (FewFedPIT, 3.3).
* `measurements`: What the filters of a federation let through, as rows of the report.
* `prompt_layout`: How a prompt template marks its fields, and how a continuation is read back
  into them.
* `selection`: Which made-up examples are trained on, and how near to the client's own they are.
* `selection_criteria`: Which of the examples that a model made up are worth keeping (FewFedPIT,
  sections 3.3 and 4.4).
* `similarity`: How alike a text and any of many others are, by Rouge-L.
"""
