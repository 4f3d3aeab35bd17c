"""Extraction with prefixes: query plan, sampling, matching, scoring and tests.

Attacks subclass `prefix_attack.PrefixAttack`.

* `candidates/`: What an attacker sees who knows nobody's data but its own: ranked candidates.
* `exact/`: Extraction estimated from exact probabilities in place of samples.
* `impact/`: What a leak means: whose data it is, and whether the client's own records taught it.
* `base_likelihood`: How likely the base finds strings: to match controls, and to tell what it
  might have said.
* `budget_sweep`: Coverage and efficiency against budget and samples, from one run (FedPII,
  figures 4 and 5).
* `comparison`: Which attacks found what others did not: the attacks of one audit compared (FedPII,
  figure 6).
* `controls`: The guess control: PII of the victim's kinds that is in nobody's data.
* `estimator_choice`: Which estimator an extraction uses, and which attacks it goes with.
* `leak_tests`: Tests whether extracted strings came from training.
* `leads`: Leads: what of the token that reaches into PII stands before it, as the colon of
  ":Anna".
* `matcher`: The strings that answers are searched for, and answers reduced to what they say of
  these.
* `multi_victim`: What one attacker finds of several victims: asked once of each model, and
  compared with each.
* `prefix_attack`: Extraction by prefixes: ask the tuned model and its base the same, and score
  what they say.
* `prefixes`: What stands before personal data in a client's own documents (FedPII, section
  4.1).
* `query_budget`: Limiting a plan to a budget of prefixes.
* `query_plan`: What an attack asks, in which order: one query a distinct prompt.
* `recombination`: Strings that look like some others and are nobody's: made of the pieces of a
  corpus.
* `sampling`: Asking a model the queries of a plan in chunks, and keeping the answers of
  one audit.
* `scoring`: Scoring extraction against a victim whose documents the auditor has (FedPII, section
  4.1).
* `significance`: How sure it is that what came out came from the victim's records.
* `targets`: What the victim alone has: records and strings that are looked for; and strings nobody
  has.
"""
