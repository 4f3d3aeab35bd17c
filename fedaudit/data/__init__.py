"""Records of documents: reading, annotating and scrubbing them.

* `annotation`: Annotating documents that nobody has annotated, and saying with what.
* `conversation`: Conversations as TRL (`messages`) and ShareGPT (`conversations`) write them, and
  their text.
* `corpus`: The corpus format: one JSON record a line, streamed in, checked line by line.
* `formats`: What frameworks call the fields of a record, and the text that each of their formats
  means.
* `parquet_rows`: Rows of Parquet files, a few at a time; where pyarrow is installed.
* `public_examples`: Public examples: of a file, or of the generator (another domain, or just
  like a client's).
* `record_scrubbing`: Masking the personal data in all strings of one record, whatever its fields
  are.
* `scrubbing`: Scrubbing a data set: every record's personal data masked, and what is known of the
  rest.
* `tables`: Records in tables: CSV, and Parquet where pyarrow is installed.
"""
