"""Attacks with prefixes (FedPII): contextual, superset, frequency.

* `contextual`: Contextual prefixes (FedPII, section 4.2.1): what precedes my PII precedes yours
  too.
* `frequency`: Frequency-prioritised prefixes (FedPII, section 4.2.2): ask first what precedes
  most PII.
* `subprefixes`: Sub-prefixes of what stands before personal data: Set(SUP) of FedPII, section
  4.2.2, in order.
* `suffix_counts`: Distinct suffixes of many sequences, counted: runs in a sort of the sequences
  from their ends.
* `superset`: All sub-prefixes (FedPII, section 4.2.1): every end of what precedes my PII precedes
  it too.
"""
