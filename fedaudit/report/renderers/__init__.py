"""A report as HTML, Markdown, terminal text, SARIF or CSV."""
