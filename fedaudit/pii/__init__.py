"""Personally identifiable information: spans, checksums, and where it is found in text.

* `checksums`: Check digits of the numbers that people are known by.
* `lookalikes`: Folds strings as a reader sees them: any case and width, look-alikes, invisible
  characters.
* `masking`: Replaces personal data, in a record's text and in its fields alike.
* `normalized_search`: Finding strings in a text that spells them with other white space or other
  Unicode forms.
* `pseudonyms`: Pseudonyms: the same string of one label gets the same invented one, and no two
  share theirs.
* `shape`: What personal data of a kind look like: learnt from known strings, to tell junk from
  others.
* `spans`: One annotation out of many finds: spans in order, none over another.
* `surrogate_dates`: Inventing dates that are written like given ones, in English, Chinese and
  numbers.
* `surrogates`: Inventing personal data that look like given ones: of their language, kind and
  form.
* `taxonomy`: The taxonomy of personal data: 7 major and 36 minor categories, and what four norms
  say of them.
"""
