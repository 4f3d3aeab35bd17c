"""The tables of a report.

* `attribution/`: The tables of an attribution: whom the protocol flags, and what other methods say
  of it.
* `extraction/`: The tables of extraction.
* `assessment`: What an audit of everything covered, for which release, and what was judged under
  its policy.
* `comparison/`: The tables of reports beside each other.
* `costs`: The tables of costs: what a federation took, in units that people use.
* `cross_client`: The tables of an audit in which every client was the attacker: who gets at whose
  data.
* `defense`: The tables of a defence: what it guarantees, and how its gate decides.
* `grouping`: Which measurements share a line of a table: of one variant, of one key, of all
  clients.
* `inference`: The tables of inference: how often a model picks the masked personal data among
  candidates.
* `keyed`: Tables of attacks that were made under several keys or on several variants of a study.
* `overview`: All tables of a report in the order in which they are read, and those of what
  follows from it.
* `table`: What a table of a report is: plain text cells that any renderer can lay out.
* `utility`: The tables of utility: how well each model does its tasks, and a deployed one under
  keys.
"""
