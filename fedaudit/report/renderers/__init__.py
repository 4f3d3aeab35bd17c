"""A report as HTML, Markdown or terminal text.

* `html`: A report as one HTML page that loads nothing and runs nothing, for data protection
  officers.
* `markdown`: A report as Markdown, for an issue, a wiki or a merge request.
* `terminal`: A report on the terminal: plain at 80 columns, in a pipe too.
"""
