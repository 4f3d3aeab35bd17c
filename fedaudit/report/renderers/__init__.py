"""A report as HTML, Markdown, terminal text, SARIF or CSV.

* `annex`: A report as the annex to a data protection impact assessment, in Markdown.
* `csv_table`: A report's measurements as CSV, one row a number, for spreadsheets and data frames.
* `cyclonedx`: A report as CycloneDX 1.6: the model, and `declarations` that carry the assessor's
  checklist.
* `html`: A report as one HTML page that loads nothing and runs nothing, for data protection
  officers.
* `html_environment`: How pages are made from templates: everything escaped, hidden characters
  spelled out.
* `markdown`: A report as Markdown, for an issue, a wiki or a merge request.
* `markdown_blocks`: The blocks of a Markdown page: no text in them is a link, HTML or code.
* `run_index`: A folder of runs as one HTML page: sortable, nothing loaded, nothing run but its own
  script.
* `sarif`: A report as SARIF 2.1.0, for code scanning and other tools that gate on it.
* `terminal`: A report on the terminal: plain at 80 columns, in a pipe too.
"""
