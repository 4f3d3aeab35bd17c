"""The report: its document, and how it is shown.

* `charts/`: Charts, drawn by matplotlib as SVG: curves over rounds and budgets, trade-offs, a heat
  map.
* `checklist/`: What assessors of data protection ask of an audit, answered from its report or named
  as open.
* `index/`: Many reports beside each other: what is in a folder of runs, and trends over rounds.
* `kinds/`: The kinds of a report's rows: one module each, with its rule, its tables and its words.
* `renderers/`: A report as HTML, Markdown, terminal text, SARIF or CSV.
* `tables/`: The tables of a report.
* `text/`: What a report says in sentences.
* `verdict/`: The verdict of each kind of audit.
* `attribution_parts`: The rows of an attribution, by the part of it that they belong to.
* `attestation`: A report's attestation: an in-toto Statement v1 in a DSSE envelope, signed with
  ed25519.
* `baseline`: What an audit shows that an earlier one, the baseline, did not: what a release is
  gated by.
* `check`: A statement of a report, and whether it holds when it is checked again.
* `comparison`: What differs between two reports: numbers with intervals, and leaks that appeared
  or went.
* `comparison_caveats`: What makes two reports less comparable than they look: order, seeds,
  settings, policies.
* `data_frame`: The measurements of a report as flat rows, and as a pandas data frame where there is
  pandas.
* `document`: report.json: built from records, checked against its schema, written whole, read
  back.
* `number_format`: How numbers of a report are spelt for people.
* `pii_categories`: What came out by major category of personal data, and what norms say of the
  kinds that did.
* `query`: Finding one's way among the measurements of a report: which belong together, in which
  order.
* `redaction`: Keeping leaked data out of sight, and hostile text from acting where it is shown.
* `result_contract`: What a plugin may return, checked at once, so that a report is always valid.
* `run_header`: What every report says of its run: when, with what settings, how long.
* `units`: Amounts in units that people use: bytes, operations, numbers of a model, time.
"""
