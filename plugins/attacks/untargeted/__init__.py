"""Personal data that nobody asks for: without prompts (SecureGate), and in ordinary use.

* `attack`: Untargeted extraction (SecureGate, section 5.1; Lukas et al., 2023): sample, detect,
  subtract.
* `benign`: Ordinary use: how often a model gives personal data away to somebody who asks for none.
* `benign_prompts`: Ordinary requests: what people ask a model for who have no attack in mind.
* `sampled_texts`: What attacks that draw texts and look for personal data in them have in common.
* `scoring`: Untargeted extraction: what a model says when nobody asks for anything (SecureGate,
  5.1).
* `targets`: What untargeted extraction looks for: the PII of the data, and strings that nobody
  has.
"""
