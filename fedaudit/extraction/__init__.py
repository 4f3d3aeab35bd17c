"""Extraction with prefixes: query plan, sampling, matching, scoring and tests.

Attacks subclass `prefix_attack.PrefixAttack`.

* `candidates/`: Ranked candidates for others' PII, as an attacker sees them who only knows its own
  data.
* `exact/`: Extraction estimated from exact probabilities in place of samples.
* `impact/`: The impact of a leak: the people it exposes, and whether the client's own records
  caused it.
* `base_likelihood`: Likelihood of strings under the base: to match controls, and to see what the
  base might say.
* `budget_sweep`: Coverage and efficiency against budget and samples, from one run (FedPII,
  figures 4 and 5).
* `comparison`: Comparison of an audit's attacks: what each found that others did not (FedPII,
  figure 6).
* `controls`: The guess control: strings of the same kinds as the victim's PII that are in nobody's
  data.
* `estimator_choice`: The estimator that an extraction uses, and the attacks that support it.
* `leak_tests`: Tests whether extracted strings came from training.
* `leads`: Leads: the start of a token that also holds the start of PII, such as the colon of
  ":Anna".
* `matcher`: Matching answers with the strings looked for, and reducing answers to those strings.
* `multi_victim`: One attacker against several victims: each model is asked once, each victim is
  scored.
* `prefix_attack`: Extraction by prefixes: ask the tuned model and its base the same, and score the
  answers.
* `prefixes`: The prefixes of personal data in a client's own documents (FedPII, section 4.1).
* `query_budget`: Limiting a plan to a budget of prefixes.
* `query_plan`: The queries of an attack in their order: one query for each distinct prompt.
* `recombination`: Made-up strings that resemble given ones, recombined from the pieces of a corpus.
* `sampling`: Asking a model the queries of a plan in chunks, and keeping the answers of
  one audit.
* `scoring`: Scoring extraction against a victim whose documents the auditor has (FedPII, section
  4.1).
* `significance`: Statistical evidence that extracted strings came from the victim's records.
* `targets`: The strings and records that only the victim has, to look for, and strings that nobody
  has.
"""
